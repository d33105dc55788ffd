"""Recipes: four dishes, one without an image and one without ingredients, with recipes of different lengths."""

from functools import partial

import torch

from contracts.cases import Batch, Case
from contracts.cases.captions import CELLS, VOCAB, WIDTH, captions

NAMES, MOST = 7, 3
FUSIONS = ("concatenated", "independent", "image_first", "ingredients_first")


def dishes(pixels: bool = False) -> Batch:
    batch = captions(pixels)
    lengths = torch.tensor([3, 1, 2, 0])
    names = torch.tensor([[4, 0, 6], [2, 0, 0], [1, 5, 0], [0, 0, 0]])
    labels = torch.zeros(4, NAMES)
    labels[[0, 0, 0, 1, 2, 2, 3], [4, 0, 6, 2, 1, 5, 3]] = 1
    there = torch.tensor([True, True, False, True])
    shown = torch.tensor([True, False, False, True])  # of the second the writer sees no image
    return {
        **batch,
        "has_image": there,
        "shown": shown,
        "ingredients": names,
        "ingredient_lengths": lengths,
        "labels": labels,
    }


def alone(batch: Batch) -> list[Batch]:
    """The recipes one by one, without padding."""
    found = []
    for row, length in enumerate(batch["target_lengths"]):
        one = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        names = one["ingredients"][:, : max(1, int(one["ingredient_lengths"][0]))]
        found.append({**one, "target": one["target"][:, : length + 1], "ingredients": names})
    return found


def columns(batch: Batch) -> dict[str, torch.Tensor]:
    return {
        "places": batch["shown"][:, None].expand(-1, CELLS),
        "ingredients": torch.arange(MOST) < batch["ingredient_lengths"][:, None],
    }


def _case(fusion: str, pixels: bool = False, **options: object) -> Case:
    sizes = {"vocab": VOCAB, "features": 0 if pixels else WIDTH, "longest": 9, "ingredients": NAMES, "channels": 8}
    widths = {"dim": 8, "heads": 2, "hidden": 12, "layers": 2, "dropout": 0.0, "set_weight": 2.0, "shrink": 0.1}
    return Case({**sizes, **widths, "fusion": fusion, **options}, partial(dishes, pixels), alone, columns=columns)


CASES = {
    "inverse_cooking": [*map(_case, FUSIONS), _case("concatenated", norm="post"), _case("independent", pixels=True)]
}
