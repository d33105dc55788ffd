"""Baselines of handwriting: the likelihood of pen points under a mixture of Gaussians without context, which a network
must beat, and a reader of letters by templates, which tests whether generated lines can be read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RESAMPLED = 16
"""Points of a stroke when it is compared."""


# ---------------------------------------------------------------------------------------------------------------------
# A mixture of Gaussians without context


def fit_mixture(
    points: np.ndarray, mixtures: int = 20, *, least: float = 0.01, rounds: int = 60, most: int = 40_000, seed: int = 0
) -> dict[str, Any]:
    """A mixture of Gaussians in the plane for offsets and one probability that the pen is lifted, whatever came before:
    by expectation and maximization, of at most ``most`` of the points (N, 3).

    Returns:
        ``weights`` (M), ``mean`` (M, 2), ``covariance`` (M, 3) of xx, yy and xy, and ``pen``, as lists.
    """
    random = np.random.default_rng(seed)
    chosen = random.choice(len(points), min(most, len(points)), replace=False)
    x, pen = np.asarray(points[chosen, :2], np.float64), float(np.mean(points[:, 2]))
    mixtures = min(mixtures, len(x))
    mean = x[random.choice(len(x), mixtures, replace=False)]
    covariance = np.tile([*(x.var(0) / 4 + least**2), 0.0], (mixtures, 1))
    weights = np.full(mixtures, 1 / mixtures)
    for _ in range(rounds):
        joint = _log_joint(x, weights, mean, covariance)
        share = np.exp(joint - np.logaddexp.reduce(joint, 1, keepdims=True))  # (N, M)
        mass = share.sum(0) + 1e-9
        weights, mean = mass / mass.sum(), share.T @ x / mass[:, None]
        second = share.T @ np.stack([x[:, 0] ** 2, x[:, 1] ** 2, x[:, 0] * x[:, 1]], 1) / mass[:, None]
        covariance = second - np.stack([mean[:, 0] ** 2, mean[:, 1] ** 2, mean[:, 0] * mean[:, 1]], 1)
        covariance[:, :2] = np.maximum(covariance[:, :2], least**2)
        bound = 0.95 * np.sqrt(covariance[:, 0] * covariance[:, 1])
        covariance[:, 2] = np.clip(covariance[:, 2], -bound, bound)
    parameters = {"weights": weights, "mean": mean, "covariance": covariance}
    return {**{name: value.tolist() for name, value in parameters.items()}, "pen": min(max(pen, 1e-6), 1 - 1e-6)}


def mixture_nats(mixture: Mapping[str, Any], points: np.ndarray) -> np.ndarray:
    """−log of the density of points (N, 3) under a mixture without context, in nats: (N,)."""
    parts = (np.asarray(mixture[name], np.float64) for name in ("weights", "mean", "covariance"))
    where = np.logaddexp.reduce(_log_joint(np.asarray(points[:, :2], np.float64), *parts), 1)
    up = mixture["pen"]
    return -where - np.where(points[:, 2] > 0.5, math.log(up), math.log(1 - up))


def _log_joint(x: np.ndarray, weights: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """log of weight times density, (N, M)."""
    dx, dy = (x[:, None] - mean).transpose(2, 0, 1)
    xx, yy, xy = covariance.T
    determinant = xx * yy - xy**2
    square = (yy * dx**2 + xx * dy**2 - 2 * xy * dx * dy) / determinant
    return np.log(weights) - math.log(2 * math.pi) - 0.5 * np.log(determinant) - 0.5 * square


# ---------------------------------------------------------------------------------------------------------------------
# A reader


class Reader:
    """Reads letters by the nearest template, without knowing the text: strokes are grouped so that the distances of
    the groups to their letters are together as small as can be.

    Args:
        templates: for each letter its shapes, each a list of strokes (P, 2).
    """

    def __init__(self, templates: Mapping[str, Sequence[Sequence[np.ndarray]]]):
        self._shapes: dict[int, tuple[list[str], np.ndarray]] = {}
        for size in sorted({len(shape) for shapes in templates.values() for shape in shapes}):
            labelled = [(name, shape) for name, shapes in templates.items() for shape in shapes if len(shape) == size]
            rows = np.stack([_centred([resampled(stroke) for stroke in shape]) for _, shape in labelled])
            self._shapes[size] = [name for name, _ in labelled], rows

    def read(self, strokes: Sequence[np.ndarray]) -> str:
        """The letters of strokes (P, 2) in the order in which they were written."""
        rows = [resampled(stroke) for stroke in strokes]
        costs, letters = [0.0], [""]
        for end in range(1, len(rows) + 1):
            options = []
            for size, (names, shapes) in self._shapes.items():
                if size <= end:
                    group = _centred(rows[end - size : end])
                    distance = np.hypot(*(shapes - group).transpose(2, 0, 1)).mean(1)
                    best = int(distance.argmin())
                    cost = costs[end - size] + size * float(distance[best])
                    options.append((cost, letters[end - size] + names[best]))
            cost, text = min(options) if options else (math.inf, "")
            costs.append(cost)
            letters.append(text)
        return letters[-1]


def resampled(stroke: np.ndarray, count: int = RESAMPLED) -> np.ndarray:
    """``count`` points at equal distances along a stroke (P, 2)."""
    stroke = np.asarray(stroke, np.float64)
    along = np.concatenate([[0.0], np.hypot(*np.diff(stroke, axis=0).T).cumsum()])
    places = np.linspace(0, along[-1], count)
    return np.stack([np.interp(places, along, side) for side in stroke.T], 1)


def _centred(strokes: Sequence[np.ndarray]) -> np.ndarray:
    points = np.concatenate(strokes)
    return points - (points.min(0) + points.max(0)) / 2


def distance(one: str, other: str) -> int:
    """Letters to insert, delete or replace to make one text of the other (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
