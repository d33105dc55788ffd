"""Handwriting: four lines of different lengths with texts of different lengths, and without texts."""

import torch

from contracts.cases import Batch, Case

CHARACTERS, SIZES = 5, {"pace": 3.0, "hidden": 6, "window": 2, "mixtures": 3}


def lines() -> Batch:
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(4, 10, 3, generator=generator)
    points[..., 2] = (points[..., 2] > 0.5).float()
    points[:, 0] = 0
    text = torch.randint(0, CHARACTERS, (4, 6), generator=generator)
    lengths, sizes = torch.tensor([9, 4, 1, 6]), torch.tensor([6, 3, 1, 4])
    points[torch.arange(10) > lengths[:, None]] = 0
    text[torch.arange(6) >= sizes[:, None]] = 0
    return {"points": points, "lengths": lengths, "text": text, "text_lengths": sizes}


def alone(batch: Batch) -> list[Batch]:
    """The lines one by one, without padding."""
    found = []
    for row, (length, size) in enumerate(zip(batch["lengths"], batch["text_lengths"])):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        found.append({**one, "points": one["points"][:, : length + 1], "text": one["text"][:, :size]})
    return found


CASES = {
    "handwriting": [
        Case({"characters": CHARACTERS, **SIZES}, lines, alone),
        Case({"characters": 0, "layers": 2, **SIZES}, lines, alone, looks=False),
        Case({"characters": CHARACTERS, "layers": 1, **SIZES}, lines, alone),
    ],
}
