"""What all pictures share: weights with the names of their axes, shades for the terminal, ink and files for figures."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._files import replace
from regard._lazy import nearest
from regard.views._fonts import quiet
from regard.views.text import cells, labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tokens = Sequence[str] | None

LARGEST = 1 << 26
"""How many weights one view of a page may hold."""


def as_array(weights: Any) -> np.ndarray:
    """A float32 array from a tensor of any device and dtype, or from anything that NumPy understands."""
    if hasattr(weights, "detach"):
        weights = weights.detach().float().cpu().numpy()
    return np.asarray(weights, dtype=np.float32)


def names_of(tokens: Tokens, size: int, axis: str, shape: tuple[int, ...]) -> list[str]:
    """The tokens of an axis, checked against its size."""
    if tokens is None:
        return [str(number) for number in range(1, size + 1)]
    if isinstance(tokens, str):
        raise ValueError(f"{axis} is a list of tokens, not one string: list({tokens!r}) names each letter")
    if len(tokens) != size:
        raise ValueError(f"weights {shape} have {size} {axis}, but {len(tokens)} tokens came")
    return [str(token) for token in tokens]


def as_matrix(weights: Any, rows: Tokens, columns: Tokens) -> tuple[np.ndarray, list[str], list[str]]:
    """One (T, S) matrix with the labels of its axes."""
    matrix = as_array(weights)
    if matrix.ndim != 2:
        raise ValueError(
            f"one picture shows weights (T, S), not {matrix.shape}: choose one, weights[0], or average heads, "
            "weights.mean(-3)"
        )
    if not np.isfinite(matrix).all():
        t, s = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(f"weights hold {matrix[t, s]} at row {t}, column {s}; there is no colour for that")
    tokens_of_axes = (names_of(tokens, size, axis, matrix.shape) for tokens, size, axis in _axes(rows, columns, matrix))
    row_labels, column_labels = (labels(tokens) for tokens in tokens_of_axes)
    return matrix, row_labels, column_labels


def _axes(rows: Tokens, columns: Tokens, matrix: np.ndarray) -> tuple[tuple[Tokens, int, str], ...]:
    return (rows, matrix.shape[-2], "rows"), (columns, matrix.shape[-1], "columns")


def darkest(matrix: np.ndarray) -> float:
    """The weight that gets the darkest colour: 1, or the largest where all are small, as in long documents; at least
    four times an even share of the S keys, (…, S), so that uniform attention does not look certain."""
    largest = float(matrix.max(initial=0.0))
    return 1.0 if largest > 0.5 or largest <= 0 else min(1.0, max(largest, 4 / matrix.shape[-1]))


# ---------------------------------------------------------------------------------------------------------------------
# Terminal

BLOCKS = " ░▒▓█"
PLAIN = " .:+#"
_STEPS = (0.05, 0.25, 0.5, 0.75)
_COLOURS = (110, 74, 32, 33)  # of the 256: blues that are seen on black and on white


def shade(weight: float, width: int, shades: str, colour: bool) -> str:
    """``width`` cells as dark as a weight between 0 and 1."""
    level = sum(weight >= step for step in _STEPS)
    text = shades[level] * width
    return f"\x1b[38;5;{_COLOURS[level - 1]}m{text}\x1b[0m" if colour and level else text


def legend_of(scale: float, shades: str, colour: bool, width: int) -> tuple[str, str]:
    """What the shades mean, and the same without colour."""
    least = "≥ " if shades == BLOCKS else ">= "
    levels = [f"{100 * step * scale:.{0 if scale == 1 else 1}f}" for step in _STEPS]
    for start, sep, end in ((least, " %  ", " %"), ("", " ", " %")):
        texts = [
            sep.join(f"{shade(step, 1, shades, shown)} {start}{level}" for step, level in zip(_STEPS, levels)) + end
            for shown in (colour, False)
        ]
        if cells(texts[1]) <= width:
            break
    return texts[0], texts[1]


def coloured() -> bool:
    """Does stdout show colours?"""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> bool:
    """Can stdout write it?"""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Figures

INK, MUTED = "#1b1f24", "#5b6470"
FORMATS = ("png", "svg", "pdf")


def save(drawing: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure as the suffix says: .png, .svg or .pdf. The same figure gives the same bytes."""
    from matplotlib import rc_context

    path = Path(path)
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        suggestion = nearest(form, FORMATS)
        raise ValueError(
            f"{path}: the suffix says how a figure is written, and {path.suffix!r} says nothing; {suggestion}"
        )
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    data = io.BytesIO()
    with quiet(), rc_context({"svg.hashsalt": "regard", "pdf.fonttype": 42}):
        drawing.savefig(data, format=form, dpi=200, metadata=undated)
    replace(path, data.getvalue())
