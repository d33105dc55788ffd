"""Scaled dot-product attention with its numbers, step by step: query, keys and values, scores, divided by √d, softmax,
weighted values, their sum. The slide after J. Alammar's "Thinking Machines", where 112 and 96 become 0.88 and 0.12.

``figure`` draws a column for each word, ``terminal`` writes a table. Query is (D,), keys (S, D), values (S, E).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.attention import attend
from regard.views._fonts import drawable
from regard.views._shared import INK, MUTED, Tokens, as_array, names_of
from regard.views.text import labels, pad, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 4
"""How many numbers of a vector are shown before an ellipsis."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The numbers on the way from a query to its context.

    Attributes:
        query: (D,). key: (S, D). value: (S, E).
        scores: (S,): q·k.
        scaled: (S,): q·k / √D.
        weights: (S,): their softmax.
        weighted: (S, E): each value times its weight.
        context: (E,): the sum.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scores: np.ndarray
    scaled: np.ndarray
    weights: np.ndarray
    weighted: np.ndarray
    context: np.ndarray


def steps(query: Any, key: Any, value: Any) -> Steps:
    """Every number, computed by :func:`regard.attend`."""
    query, key, value = as_array(query), as_array(key), as_array(value)
    if query.ndim != 1 or key.ndim != 2 or value.ndim != 2 or len(key) != len(value) or not len(key):
        shapes = f"{query.shape}, {key.shape} and {value.shape}"
        raise ValueError(f"one query (D,), keys (S, D) and values (S, E) are walked through, not {shapes}")
    if key.shape[1] != len(query):
        raise ValueError(
            f"the query has {len(query)} numbers and each key {key.shape[1]}; they are compared, so as many"
        )
    if not all(np.isfinite(array).all() for array in (query, key, value)):
        raise ValueError("query, keys and values are finite numbers")
    q, k, v = (torch.from_numpy(array).double() for array in (query[None], key, value))
    out = attend(q, k, v, score="scaled_dot", weights=True)
    assert out.weights is not None
    weights = out.weights[0].numpy()
    scores = key.astype(np.float64) @ query
    return Steps(
        query,
        key,
        value,
        scores,
        scores / math.sqrt(len(query)),
        weights,
        weights[:, None] * value,
        out.context[0].numpy(),
    )


def _number(value: float) -> str:
    """Whole numbers as such, others to two places."""
    text = f"{value:.0f}" if abs(value - round(value)) < 5e-4 else f"{value:.2f}"
    return text.replace("-", "−")


def _vector(values: np.ndarray) -> list[str]:
    return [_number(float(value)) for value in values[:SHOWN]] + (["…"] if len(values) > SHOWN else [])


def _table(walk: Steps, words: Tokens, of: int) -> tuple[list[str], list[tuple[str, list[list[str]]]], list[str]]:
    """Words; rows, each a name and the cells of each word; the sum."""
    names = labels(names_of(words, len(walk.key), "words", walk.key.shape))
    if not 0 <= of < len(names):
        raise ValueError(f"there is no word {of}: they are 0 to {len(names) - 1}")
    query_cells = [[] if place != of else _vector(walk.query) for place in range(len(names))]
    root = _number(math.sqrt(len(walk.query)))
    rows: list[tuple[str, list[list[str]]]] = [
        ("query", query_cells),
        ("key", [_vector(key) for key in walk.key]),
        ("value", [_vector(value) for value in walk.value]),
        ("score  q·k", [[_number(float(score))] for score in walk.scores]),
        (f"÷ √{len(walk.query)} = {root}", [[_number(float(score))] for score in walk.scaled]),
        ("softmax", [[f"{weight:.2f}"] for weight in walk.weights]),
        ("softmax × value", [_vector(value) for value in walk.weighted]),
    ]
    return names, rows, _vector(walk.context)


def terminal(query: Any, key: Any, value: Any, words: Tokens = None, *, of: int = 0) -> str:
    """The walk as a table.

    Args:
        query: (D,), that of the word number ``of``.
        key: (S, D).
        value: (S, E).
        words: S of them.
        of: whose query it is, from 0.
    """
    names, rows, total = _table(steps(query, key, value), words, of)
    cells = [["  ".join(numbers) for numbers in row] for _, row in rows]
    margin = max(len(name) for name, _ in rows)
    widths = [max(len(shorten(name, 24)), *(len(row[place]) for row in cells)) for place, name in enumerate(names)]
    lines = ["   ".join([" " * margin, *(pad(shorten(name, 24), width) for name, width in zip(names, widths))])]
    for (name, _), row in zip(rows, cells):
        lines.append("   ".join([pad(name, margin), *(pad(cell, width) for cell, width in zip(row, widths))]))
    lines.append("   ".join([pad(f"sum, for {names[of]}", margin), "  ".join(total)]))
    return "\n".join(line.rstrip() for line in lines)


_QUERY, _KEY, _VALUE, _WEIGHT = "#cc79a7", "#e69f00", "#56b4e9", "#0072b2"


def figure(
    query: Any, key: Any, value: Any, words: Sequence[str] | None = None, *, of: int = 0, title: str | None = None
) -> Figure:
    """A column for each word, the steps downwards; arguments as for :func:`terminal`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patches import Rectangle

    from regard.views._notebook import Figure

    walk = steps(query, key, value)
    names, rows, total = _table(walk, words, of)
    heading = visible(title) if title else ""
    fonts, (names, (heading,)) = drawable([shorten(name, 18) for name in names], [heading])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    box, high = 0.52, 0.3  # inches of a number in its box
    longest = max(len(cell) for _, row in [*rows, ("", [total])] for cell in row)
    column = max(box * longest, 1.1, 0.105 * max(map(len, names))) + 0.45
    left, line = 1.55, 0.52
    head = 0.15 + (0.38 if heading else 0.0)
    width = max(left + column * len(names) + 0.1, 0.1 * len(heading) + 0.3)
    height = head + 0.4 + line * (len(rows) + 1) + 0.25
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    if heading:
        axes.text(0.15, 0.15, heading, fontsize=12, fontweight="bold", color=INK, va="top", **plain)

    def boxes(x: float, y: float, numbers: list[str], colour: str) -> None:
        start = x - box * len(numbers) / 2
        for place, number in enumerate(numbers):
            corner = (start + place * box, y - high / 2)
            axes.add_patch(Rectangle(corner, box, high, facecolor=colour, alpha=0.28, edgecolor="white", linewidth=1.5))
            axes.text(start + (place + 0.5) * box, y, number, ha="center", va="center", fontsize=9.5, color=INK)

    middles = [left + column * (place + 0.5) for place in range(len(names))]
    for x, name in zip(middles, names):
        axes.text(x, head + 0.2, name, ha="center", va="center", fontsize=11, fontweight="bold", color=INK, **plain)
    colours = (_QUERY, _KEY, _VALUE, None, None, _WEIGHT, _VALUE)
    for number, ((name, row), colour) in enumerate(zip(rows, colours)):
        y = head + 0.4 + line * (number + 0.5)
        axes.text(0.15, y, name, va="center", fontsize=10, color=MUTED, parse_math=False)
        for x, cell, weight in zip(middles, row, walk.weights):
            if colour is None:
                axes.text(x, y, cell[0], ha="center", va="center", fontsize=10.5, color=INK)
            elif name == "softmax":
                axes.add_patch(Rectangle((x - 0.5, y - high / 2), 1.0, high, facecolor="#eef1f5"))
                axes.add_patch(Rectangle((x - 0.5, y - high / 2), weight, high, facecolor=colour, alpha=0.55))
                axes.text(x, y, cell[0], ha="center", va="center", fontsize=10.5, fontweight="bold", color=INK)
            else:
                boxes(x, y, cell, colour)
    y = head + 0.4 + line * (len(rows) + 0.5)
    axes.plot((left, left + column * len(names)), (y - line / 2, y - line / 2), color="#c9ced6", linewidth=1)
    axes.text(
        0.15, y, f"sum, for {shorten(names[of], 9)}", va="center", fontsize=10, color=INK, fontweight="bold", **plain
    )
    boxes(middles[of], y, total, _VALUE)
    return drawing
