"""Video captions: four clips of different lengths, as features or pixels, with captions of different lengths."""

from functools import partial

import torch

from contracts.cases import Batch, Case
from contracts.cases.captions import captions

VOCAB, FRAMES, WIDTH = 23, 5, 6
LENGTHS = torch.tensor([5, 3, 1, 4])


def clips(pixels: bool = False) -> Batch:
    batch = captions()
    del batch["features"]
    generator = torch.Generator().manual_seed(1)
    shape = (4, FRAMES, 3, 24, 24) if pixels else (4, FRAMES, WIDTH)
    frames = torch.rand(shape, generator=generator)
    return {"clip" if pixels else "features": frames, "frame_lengths": LENGTHS, **batch}


def alone(batch: Batch) -> list[Batch]:
    """The clips one by one, without padding."""
    seen = "clip" if "clip" in batch else "features"
    found = []
    for row, (length, frames) in enumerate(zip(batch["target_lengths"], batch["frame_lengths"])):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        found.append({**one, seen: one[seen][:, :frames], "target": one["target"][:, : length + 1]})
    return found


def frames(batch: Batch) -> torch.Tensor:
    return torch.arange(FRAMES) < batch["frame_lengths"][:, None]


def _case(pixels: bool = False, **options: object) -> Case:
    sizes = {"vocab": VOCAB, "features": 0 if pixels else WIDTH, "channels": 8, "motion": 4, "longest": 9}
    widths = {"embedding": 8, "hidden": 12, "attention": 10, "dropout": 0.0}
    looks = bool(options.get("temporal", True))
    return Case({**sizes, **widths, **options}, partial(clips, pixels), alone, looks=looks, columns=frames)


CASES = {
    "temporal_attention": [
        _case(),
        _case(pixels=True, times=True),
        _case(temporal=True, local=False),
        _case(temporal=False, local=True),
        _case(temporal=False, local=False, pixels=True),
    ],
}
