"""Word times from the attention weights of a recognizer, and their errors.

The weights of a recognizer over time are made monotone by dynamic time warping: the path through the matrix (tokens ×
frames) from its first to its last cell that never goes back and gathers the most weight. A token is said in the frames
that the path passes in its row. Where the sound is given, the border between two words is moved to the quietest
frame between their centres, and quiet frames at both ends of a word are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from regard.metrics import _warp_loops

QUIET = -32.0
"""Decibels below the loudest frame at which a word is over."""


class Said(NamedTuple):
    """A word, its start and end in seconds, and the share of its weights between them."""

    word: str
    start: float
    end: float
    confidence: float


def warp(weights: np.ndarray) -> np.ndarray:
    """(T, S) → (T, 2): the first and the last column of each row on the best monotone path."""
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(f"weights {weights.shape}: tokens × frames were expected, and at least one of each")
    if not np.isfinite(weights).all():
        raise ValueError("weights that are not finite have no best path")
    cells = _warp_loops.path(weights)
    spans = np.empty((len(weights), 2), np.int64)
    spans[cells[::-1, 0], 0] = cells[::-1, 1]  # the last to be written is the first on the path
    spans[cells[:, 0], 1] = cells[:, 1]
    return spans


def words_of(labels: Sequence[str], spelled: bool) -> list[tuple[str, int, int]]:
    """Words, each with its first token and the token after its last: characters between blanks if ``spelled``, else
    every token is a word."""
    if not spelled:
        return [(label, number, number + 1) for number, label in enumerate(labels)]
    words, first = [], 0
    for number, label in enumerate([*labels, " "]):
        if label == " ":
            if number > first:
                words.append(("".join(labels[first:number]), first, number))
            first = number + 1
    return words


def said(
    weights: np.ndarray,
    words: Sequence[tuple[str, int, int]],
    hop: float,
    level: np.ndarray | None = None,
    spans: np.ndarray | None = None,
    begin: float = 0.0,
) -> list[Said]:
    """The times of words.

    Args:
        weights: (T, S), those of each token over the frames.
        words: as :func:`words_of` gives them.
        hop: seconds of a frame.
        level: (S,), how loud each frame is in decibels below the loudest, if it is known.
        spans: (T, 2), the first and last frame of each token; by :func:`warp` of the weights if None.
        begin: seconds at which the first frame begins; one that reaches over its neighbours counts in its middle.
    """
    if not words:
        return []
    spans = warp(weights) if spans is None else spans
    edges = np.array([(spans[first, 0], spans[last - 1, 1] + 1) for _, first, last in words], dtype=np.int64)
    mass = [weights[first:last].sum(0) for _, first, last in words]
    if level is not None:
        edges = _quietened(edges, mass, np.asarray(level, dtype=np.float64)[: weights.shape[1]])
    times = []
    for (word, _, _), (first, last), frames in zip(words, edges.tolist(), mass):
        share = float(frames[first:last].sum() / max(float(frames.sum()), 1e-12))
        times.append(Said(word, begin + first * hop, begin + last * hop, min(share, 1.0)))
    return times


def _quietened(edges: np.ndarray, mass: Sequence[np.ndarray], level: np.ndarray) -> np.ndarray:
    """Borders at the quietest frame between the centres of two words, without quiet ends."""
    smooth = np.convolve(np.pad(level, 2, mode="edge"), np.ones(5) / 5, mode="valid")
    centres = []
    for (first, last), frames in zip(edges, mass):
        inside = frames[first:last]
        reached = inside.cumsum()
        centres.append(
            int(first + np.searchsorted(reached, 0.5 * reached[-1])) if reached[-1] > 0 else (first + last) // 2
        )
    centres = np.maximum.accumulate(np.minimum(centres, len(level) - 1)).tolist()
    borders = [0]
    for before, after in pairwise(centres):
        borders.append(before + int(smooth[before : after + 1].argmin()) if after > before else after)
    borders.append(len(level))
    least = max(QUIET, float(np.quantile(level, 0.05)) + 4)
    trimmed = np.empty_like(edges)
    for number, (first, last) in enumerate(pairwise(borders)):
        last = max(last, first + 1)
        loud = np.flatnonzero(level[first:last] > least)
        trimmed[number] = (first + loud[0], first + loud[-1] + 1) if len(loud) else (first, last)
    return trimmed


def errors(times: Sequence[Said], truth: np.ndarray) -> np.ndarray:
    """Absolute errors of starts and ends in seconds, (words, 2)."""
    predicted = np.array([(word.start, word.end) for word in times]).reshape(-1, 2)
    return np.abs(predicted - np.asarray(truth).reshape(-1, 2))
