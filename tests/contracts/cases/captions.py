"""Captions: four images, as features or pixels, with captions of different lengths."""

from functools import partial

import torch

from contracts.cases import Batch, Case

VOCAB, CELLS, WIDTH, T = 23, 9, 6, 6


def captions(pixels: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(0)
    target, lengths = torch.randint(4, VOCAB, (4, T + 1), generator=generator), torch.tensor([6, 4, 6, 2])
    target[:, 0] = 1
    for row, length in enumerate(lengths):
        target[row, length] = 2
        target[row, length + 1 :] = 0
    seen = {"image": torch.rand(4, 3, 24, 24, generator=generator)} if pixels else {}
    seen = seen or {"features": torch.randn(4, CELLS, WIDTH, generator=generator)}
    return {**seen, "target": target, "target_lengths": lengths}


def alone(batch: Batch) -> list[Batch]:
    """The captions one by one, without padding."""
    found = []
    for row, length in enumerate(batch["target_lengths"]):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        found.append({**one, "target": one["target"][:, : length + 1]})
    return found


def places(batch: Batch) -> torch.Tensor:
    return torch.ones(len(batch["target"]), CELLS, dtype=torch.bool)


def _case(pixels: bool = False, **options: object) -> Case:
    sizes = {"vocab": VOCAB, "features": 0 if pixels else WIDTH, "channels": 8, "longest": 9, "dropout": 0.0}
    make = partial(captions, pixels)
    return Case({**sizes, "embedding": 8, "hidden": 12, **options}, make, alone, columns=places)


_xu = partial(_case, attention=10)
CASES = {
    "show_attend_tell": [
        _xu(),
        _xu(pixels=True, gate=False, normalizer="entmax15"),
        _xu(hard=True),
        _xu(hard=True, soft_steps=3, pixels=True),
    ],
    "show_and_tell": [_case(), _case(pixels=True)],
}
