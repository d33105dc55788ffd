"""Do attention maps lie on the objects, and do they move? Maps are weights over cells of a grid or frames of a clip."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of width and height."""


def cells_of(box: Box, side: int) -> np.ndarray:
    """(side, side): which cells of a grid a box touches."""
    left, top, right, bottom = (edge * side for edge in box)
    first, last = np.arange(side), np.arange(1, side + 1)
    rows, columns = (last > top) & (first < bottom), (last > left) & (first < right)
    return rows[:, None] & columns


def pointing_game(maps: np.ndarray, boxes: Sequence[Box]) -> tuple[float, float]:
    """The share of maps (N, side · side) whose largest weight lies in a cell that the box of the same number touches,
    and that share for a cell chosen at random. Zhang et al. 2016 (arXiv:1608.00507), section 4.2."""
    if len(maps) != len(boxes):
        raise ValueError(f"{len(maps)} maps for {len(boxes)} boxes")
    if not len(maps):
        return 0.0, 0.0
    side = _side(maps)
    touched = np.stack([cells_of(box, side).ravel() for box in boxes])
    hits = touched[np.arange(len(maps)), np.asarray(maps).argmax(-1)]
    return float(hits.mean()), float(touched.mean())


def within(maps: Sequence[np.ndarray], spans: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The share of maps (frames,) whose largest weight lies in the span of the same number, its first and last frame,
    and that share for a frame chosen at random."""
    if len(maps) != len(spans):
        raise ValueError(f"{len(maps)} maps for {len(spans)} spans")
    if not len(maps):
        return 0.0, 0.0
    hits = [first <= int(np.argmax(weights)) <= last for weights, (first, last) in zip(maps, spans)]
    chance = [(last + 1 - first) / len(weights) for weights, (first, last) in zip(maps, spans)]
    return float(np.mean(hits)), float(np.mean(chance))


def total_variation(maps: np.ndarray) -> float:
    """½ Σ |αₜ − αₜ₋₁| of the maps (T, cells) of consecutive words, mean over t: 0 if they never move, 1 if they have
    nothing in common. 0 for a single map."""
    maps = np.asarray(maps, np.float64)
    return float(np.abs(np.diff(maps, axis=0)).sum(-1).mean() / 2) if len(maps) > 1 else 0.0


def entropy(maps: np.ndarray) -> np.ndarray:
    """−Σ α log α of maps (…, cells) → (…), in nats: 0 for one cell, log(cells) if all are alike."""
    maps = np.asarray(maps, np.float64)
    return -(maps * np.log(np.where(maps > 0, maps, 1.0))).sum(-1)


def _side(maps: np.ndarray) -> int:
    cells = np.asarray(maps).shape[-1]
    side = round(cells**0.5)
    if side * side != cells:
        raise ValueError(f"maps of {cells} cells are no square grid")
    return side
