"""Texts whose unknown words have temporary ids, behind the vocabulary, by which targets name them."""

import torch

from contracts.cases import Batch, Case
from contracts.cases.text import VOCAB, alone, pairs

TEMPORARY = ((0, 0, 2), (1, 3, 0), (2, 2, 1), (0, 4, 1))
"""Item, place in the source, which of the item's unknown words."""


def copied() -> Batch:
    """Four pairs; some words of two sources are unknown, and stand in their targets."""
    batch = pairs()
    extended, target = batch["source"].clone(), batch["target"]
    for row, place, number in TEMPORARY:
        batch["source"][row, place], extended[row, place] = 3, VOCAB + number
    extended[0, 1], batch["source"][0, 1] = VOCAB + 2, 3  # the same word at two places
    target[0, 2], target[1, 1], target[2, 3] = VOCAB + 2, VOCAB, VOCAB + 1
    target[0, 1] = batch["source"][0, 3]  # a known word that also can be copied
    return {**batch, "extended": extended}


def apart(batch: Batch) -> list[Batch]:
    """The pairs one by one, without padding."""
    found = alone(batch)
    if "extended" in batch:
        for row, one in enumerate(found):
            one["extended"] = batch["extended"][row : row + 1, : one["source"].shape[1]]
    return found


def places(batch: Batch) -> dict[str, torch.Tensor]:
    return dict.fromkeys(("words", "copied"), batch["source"] > 0)


SMALL = {"vocab": VOCAB, "longest": 9, "embedding": 8, "hidden": 6, "attention": 7, "spread": 0.5}
CASES = {
    "abs_summary": [Case({"vocab": VOCAB, "longest": 9, "embedding": 8, "hidden": 6, "context": 3}, pairs, apart)],
    "pointer_generator": [
        Case({**SMALL}, copied, apart, columns=places),
        Case({**SMALL, "coverage": 0.0}, copied, apart, columns=places),
        Case({**SMALL}, pairs, apart, columns=places),
        Case({**SMALL, "pointer": False}, pairs, apart, columns=places),
        Case({**SMALL, "pointer": False, "coverage": 0.0}, pairs, apart, columns=places),
    ],
}
