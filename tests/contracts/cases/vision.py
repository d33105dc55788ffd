"""Images: spatial transformers before a classifier, and DRAW."""

import torch

from contracts.cases import Batch, Case

B, C, H, W = 4, 2, 12, 9
STEPS, LATENT = 3, 4


def images() -> Batch:
    """Random pixels that are 0 or 1, with labels, and the noise of a DRAW."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 2, (B, C, H, W), generator=generator).float()
    label = torch.randint(0, 5, (B,), generator=generator)
    return {"image": image, "label": label, "noise": torch.randn(B, STEPS, LATENT, generator=generator)}


def alone(batch: Batch) -> list[Batch]:
    """The images one by one."""
    return [{name: tensor[b : b + 1] for name, tensor in batch.items()} for b in range(B)]


SIZES = {"channels": C, "height": H, "width": W, "classes": 5}
_STN = {**SIZES, "filters": 2, "parameters": 50_000}
_DRAW = {**SIZES, "steps": STEPS, "hidden": 8, "latent": LATENT, "read": 3, "write": 4}
CASES = {
    "stn": [
        *(
            Case({**_STN, "transformer": kind, "body": body, "crop": 6}, images, alone)
            for kind in ("affine", "attention", "projective", "thin_plate")
            for body in ("cnn", "fcn")
        ),
        Case({**_STN, "transformers": 2}, images, alone),
        Case({**_STN, "transformer": "none"}, images, alone, looks=False),
    ],
    "draw": [
        Case({**_DRAW, "goal": goal, "attention": attention}, images, alone, looks=attention)
        for goal in ("generate", "classify")
        for attention in (True, False)
    ],
}
