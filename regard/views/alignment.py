"""Alignments: where each target word (row) looked in the source (columns).

The picture of Bahdanau, Cho, Bengio 2015, figure 3: source on x, target on y, the darker the more. ``figure`` draws it
with matplotlib, ``terminal`` with characters, and ``view``, ``beam`` and ``from_tape`` prepare it for the interactive
page of :mod:`regard.views.page`.

Weights are (T, S) tensors or arrays; ``rows`` are T target tokens and ``columns`` S source tokens (numbered if None).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regard._lazy import nearest
from regard.axes import Axis, Tags
from regard.views._fonts import drawable, quiet, wrapped
from regard.views._shared import (
    BLOCKS,
    INK,
    LARGEST,
    MUTED,
    PLAIN,
    Tokens,
    as_array,
    as_matrix,
    coloured,
    darkest,
    legend_of,
    names_of,
    printable,
    save,
    shade,
)
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import ELLIPSIS, cells, clusters, pad, right_to_left, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from regard.tape import Tape
    from regard.views.between import Side


def _pool(matrix: np.ndarray, rows: list[str], columns: list[str], most: int) -> tuple[Any, list[str], list[str], str]:
    """At most ``most`` rows and columns: neighbours share a cell, which shows the strongest of them."""
    steps = [max(1, -(-size // most)) for size in matrix.shape]
    if steps == [1, 1]:
        return matrix, rows, columns, ""
    for axis, step in enumerate(steps):
        matrix = np.maximum.reduceat(matrix, np.arange(0, matrix.shape[axis], step), axis=axis)
    first = [names[::step] for names, step in zip((rows, columns), steps)]
    joined = [[f"{name}{ELLIPSIS}" if step > 1 else name for name in names] for names, step in zip(first, steps)]
    note = f"each cell is the strongest of {steps[0]} × {steps[1]} weights"
    return matrix, joined[0], joined[1], note


__all__ = [
    "Hypothesis",
    "Reading",
    "Tokens",
    "beam",
    "figure",
    "from_tape",
    "hypotheses",
    "save",
    "sentence",
    "terminal",
    "view",
]


# ---------------------------------------------------------------------------------------------------------------------
# Terminal

_LONGEST = 14  # cells of a label
_TALLEST = 10  # lines of a label that is written downwards
_MOST = 128  # rows or columns


def terminal(
    weights: Any,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    width: int | None = None,
    colour: bool | None = None,
    blocks: bool | None = None,
) -> str:
    """The alignment as text.

    Args:
        weights: (T, S).
        rows: T target tokens.
        columns: S source tokens.
        width: cells in a line; the terminal's if None.
        colour: colour the cells; if None, when stdout is a terminal and NO_COLOR is not set.
        blocks: shade with ``░▒▓█`` instead of ``.:+#``; if None, when stdout can print them.

    Source words stand above the columns, written downwards where the line is too short for them, and where even that
    does not fit, the columns continue below, from the first row that has a weight there.
    """
    matrix, row_names, column_names = as_matrix(weights, rows, columns)
    if 0 in matrix.shape:
        return f"nothing to align: {matrix.shape[0]} target and {matrix.shape[1]} source words"
    width = max(24, shutil.get_terminal_size().columns if width is None else width)
    colour = coloured() if colour is None else colour
    shades = BLOCKS if (printable(BLOCKS) if blocks is None else blocks) else PLAIN

    scale = darkest(matrix)
    matrix, row_names, column_names, note = _pool(matrix, row_names, column_names, _MOST)
    row_names = [shorten(name, min(_LONGEST, width // 3)) for name in row_names]
    margin = max(map(cells, row_names))
    room = width - margin - 1

    wide = [max(2, cells(shorten(name, _LONGEST))) for name in column_names]
    across = sum(wide) + len(wide) - 1 <= room
    widths = wide if across else [2] * len(column_names)
    gap = " " if across else ""
    per_band = len(widths) if across else max(1, room // 2)

    lines: list[str] = []
    for first in range(0, len(widths), per_band):
        band = slice(first, first + per_band)
        if lines:
            lines.append("")
        names = column_names[band]
        lines += [" " * (margin + 1) + line for line in (_across(names, widths) if across else _down(names))]
        attending = matrix[:, band].any(1) if first else np.ones(len(matrix), bool)
        begin = int(attending.argmax()) if attending.any() else 0  # causal rows do not reach the later columns
        for name, row in zip(row_names[begin:], matrix[begin:]):
            shaded = gap.join(shade(weight / scale, w, shades, colour) for weight, w in zip(row[band], widths[band]))
            lines.append(f"{_isolated(pad(name, margin, 'right'))} {shaded}")
    lines.append("")
    for below, plain in (legend_of(scale, shades, colour, width), (shorten(note, width),) * 2):
        lines.append(" " * min(margin + 1, width - cells(plain)) + below)
    text = "\n".join(line.rstrip() for line in lines).rstrip("\n")
    return text if shades == BLOCKS else text.translate({ord(ELLIPSIS): "~", ord("×"): "x"})


def _across(names: list[str], widths: list[int]) -> list[str]:
    return [" ".join(_isolated(pad(shorten(name, _LONGEST), w, "centre")) for name, w in zip(names, widths))]


def _down(names: list[str]) -> list[str]:
    """Labels written from top to bottom, ending just above their columns of 2 cells."""
    letters = [clusters(name) for name in names]
    letters = [label if len(label) <= _TALLEST else [*label[: _TALLEST - 1], ELLIPSIS] for label in letters]
    height = max(map(len, letters))
    high = [[""] * (height - len(label)) + label for label in letters]
    return ["".join(pad(column[line], 2) for column in high) for line in range(height)]


def _isolated(text: str) -> str:
    """A right-to-left word between marks that keep a terminal with bidirectional text from reordering the line."""
    return f"\u200e{text}\u200e" if any(map(right_to_left, text)) else text


# ---------------------------------------------------------------------------------------------------------------------
# Figure

# In inches.
_CELL = (0.2, 0.46)  # the smallest, so that every label is read, and the largest
_WIDEST = 30.0  # all cells together; what does not fit has smaller cells and fewer labels
_LABEL = 0.17  # from one label to the next
_NAME = 0.3  # the names of the axes
OWN = {"xlabel": "key", "ylabel": "query"}
"""Names of the axes of self-attention, which has neither source nor target."""
TAGS = {
    "source": "tag",
    "target": "word",
    "looked": "is likely",
    "seen": "is likely of",
    "hint": "Words below show how likely each tag is, tags above of which words they are likely.",
}
"""What a picture of the tags of words calls its sides, and says between them."""
_PAD = 0.12


def figure(
    weights: Any,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    title: str | None = None,
    xlabel: str = "source",
    ylabel: str = "target",
    top: float | None = None,
    cmap: str = "regard",
) -> Figure:
    """The alignment as a matplotlib figure, large enough for every label; no display is needed.

    Args:
        weights: (T, S).
        rows: T target tokens, downwards.
        columns: S source tokens, from left to right.
        title: a heading; wrapped where it is longer than the picture is wide.
        xlabel: what the columns are.
        ylabel: what the rows are.
        top: the weight with the darkest colour; if None 1, or the largest weight where all are below one half.
        cmap: a sequential colour map; the default grows evenly darker and serves colour-blind readers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    matrix, row_names, column_names = as_matrix(weights, rows, columns)
    if 0 in matrix.shape:
        raise ValueError(f"nothing to draw: weights are {matrix.shape}")
    top = darkest(matrix) if top is None else top
    matrix, row_names, column_names, note = _pool(matrix, row_names, column_names, 2000)
    heading = "\n".join(filter(None, (visible(title) if title else "", note)))
    cut = [[shorten(name, 28) for name in names] for names in (row_names, column_names)]
    fonts, (row_names, column_names, (heading, xlabel, ylabel)) = drawable(*cut, [heading, xlabel, ylabel])

    high, wide = matrix.shape
    cell = min(max(7 / max(matrix.shape), _CELL[0]), _CELL[1], _WIDEST / max(matrix.shape))
    every = math.ceil(round(_LABEL / cell, 3))
    drawing = Figure(dpi=100)
    renderer = FigureCanvasAgg(drawing).get_renderer()
    axes = drawing.add_axes((0, 0, 1, 1))
    colours: dict[str, Any] = {"vmin": 0, "vmax": top, "cmap": cmap}
    if matrix.size <= 20_000:  # each cell of a vector file is a path
        lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.6} if cell > 0.12 else {}
        cells_drawn: Any = axes.pcolormesh(matrix, **colours, **lines)
        axes.invert_yaxis()
    else:
        cells_drawn = axes.imshow(matrix, extent=(0, wide, high, 0), aspect="auto", interpolation="nearest", **colours)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=4, top=True, bottom=False, labeltop=True, labelbottom=False, colors=INK)
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}  # a token may be "$"
    size = min(max(36 * cell, 7.5), 11.5)
    axes.set_yticks(np.arange(0, high, every) + 0.5, row_names[::every], fontsize=size, **plain)
    axes.set_xticks(np.arange(0, wide, every) + 0.5, column_names[::every], fontsize=size, **plain)

    def measure(texts: Iterable[Text]) -> tuple[list[float], list[float]]:
        """Widths and heights in inches."""
        with quiet():
            boxes = [text.get_window_extent(renderer) for text in texts]
        return [box.width / drawing.dpi for box in boxes], [box.height / drawing.dpi for box in boxes]

    # Source words lie flat where there is room, lean where they are few, and else stand.
    over = axes.get_xticklabels()
    spill = 0.0  # how far leaning words reach beyond the cells
    if max(measure(over)[0]) > cell * every - 0.05:
        angle, anchor = (45, "baseline") if wide <= 40 else (90, "center")
        for text in over:
            text.set(rotation=angle, rotation_mode="anchor", ha="left", va=anchor)
        if angle == 45:
            spill = max(reach - (wide - i - 0.5) * cell for i, reach in enumerate(measure(over)[0]))

    left = _PAD + _NAME + max(measure(axes.get_yticklabels())[0]) + 0.06
    right = max(0.96, spill) + _PAD
    over_cells = max(measure(over)[1]) + 0.08 + _NAME
    bar = min(max(high * cell, 0.9), 3.2)
    below = _PAD + max(0.0, bar - high * cell)
    width, head = max(left + wide * cell + right, 3.0), 0.0
    if heading:
        text = drawing.text(0, 0, wrapped(heading, width - 2 * _PAD, 12), fontsize=12, fontweight="bold", **plain)
        text.set(color=INK, ha="left", va="top", linespacing=1.25)
        (across,), (tall,) = measure([text])
        width, head = max(width, across + 2 * _PAD), tall + 0.2
    height = below + high * cell + over_cells + head + _PAD

    def place(x: float, y: float, *size: float) -> tuple[float, ...]:
        """Inches as parts of the figure."""
        return tuple(length / side for length, side in zip((x, y, *size), (width, height) * 2))

    drawing.set_size_inches(width, height)
    if heading:
        text.set_position(place(_PAD, height - _PAD))  # type: ignore[arg-type]
    axes.set_position(place(left, below, wide * cell, high * cell))  # type: ignore[arg-type]
    muted = {**plain, "fontsize": 9.5, "color": MUTED}
    middle = place(left + wide * cell / 2, below + high * cell / 2)
    drawing.text(middle[0], (below + high * cell + over_cells) / height, xlabel, ha="center", va="top", **muted)
    drawing.text(_PAD / width, middle[1], ylabel, rotation=90, ha="left", va="center", **muted)
    beside = drawing.add_axes(place(left + wide * cell + 0.2, below + high * cell - bar, 0.14, bar))  # type: ignore[arg-type]
    legend = drawing.colorbar(cells_drawn, cax=beside, ticks=np.linspace(0, top, 5 if bar > 1.4 else 3))
    legend.outline.set_visible(False)
    beside.tick_params(length=0, labelsize=8.5, colors=MUTED)
    beside.yaxis.set_major_formatter(lambda weight, _: f"{100 * weight:.{0 if top >= 0.2 else 1}f} %")
    return drawing


# ---------------------------------------------------------------------------------------------------------------------
# Views for the page


@dataclass(frozen=True)
class Reading:
    """One hypothesis: target tokens, and where each of them looked.

    Attributes:
        rows: T target tokens.
        weights: (T, S), or (H, T, S) for heads, or (L, H, T, S) for layers of heads.
        score: how good the model finds it, larger is better.
        text: the target as a sentence; the tokens, joined, if empty.
    """

    rows: Tokens
    weights: Any
    score: float | None = None
    text: str = ""


class Hypothesis(Protocol):
    """What a search returns, as far as a picture needs it."""

    tokens: Any
    score: float
    alignment: Any


def view(
    weights: Any,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    title: str = "",
    score: float | None = None,
    text: str = "",
) -> View:
    """One alignment for the page. Weights are (T, S), (H, T, S) or (L, H, T, S)."""
    return beam([Reading(rows, weights, score, text)], columns, title=title)


def beam(
    readings: Sequence[Reading],
    columns: Tokens = None,
    *,
    title: str = "",
    layers: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> View:
    """Alternative targets of one source, the best first, for the page.

    Args:
        readings: the hypotheses; all look at the same source and have the same layers and heads.
        columns: S source tokens.
        title: the name in the page's list; the source sentence if empty.
        layers: names of the layers, if weights have them.
        names: of the sides; see :func:`picture`.
    """
    if not readings:
        raise ValueError("an alignment needs at least one reading")
    arrays = [as_array(reading.weights) for reading in readings]
    shapes = sorted({(*array.shape[:-2], array.shape[-1]) for array in arrays if array.ndim >= 2}, key=len)
    if any(not 2 <= array.ndim <= 4 for array in arrays) or len(shapes) > 1:
        raise ValueError(
            "weights of a view are (T, S), (H, T, S) or (L, H, T, S), alike but for T, not "
            + ", ".join(str(array.shape) for array in arrays)
        )
    if (size := sum(array.size for array in arrays)) > LARGEST:
        raise ValueError(f"a page takes {LARGEST:,} weights, and these are {size:,}: choose fewer layers or heads")
    source = names_of(columns, arrays[0].shape[-1], "columns", arrays[0].shape)
    if layers is not None and (arrays[0].ndim != 4 or len(layers) != len(arrays[0])):
        raise ValueError(f"{len(layers)} names of layers came for weights {arrays[0].shape}")
    encoded = []
    for reading, array in zip(readings, arrays):
        target = names_of(reading.rows, array.shape[-2], "rows", array.shape)
        encoded.append(
            {
                "rows": target,
                "text": reading.text or sentence(target),
                "score": None if reading.score is None else float(reading.score),
                "weights": Quantized(array),
            }
        )
    data: dict[str, Any] = {"columns": source, "layers": None if layers is None else list(layers), "readings": encoded}
    if names is not None:
        data["names"] = dict(names)
    return View("alignment", title or sentence(source), data)


def hypotheses(
    found: Iterable[Hypothesis],
    columns: Tokens,
    spell: Callable[[list[int]], list[str]],
    *,
    title: str = "",
    end: str = "</s>",
) -> View:
    """The hypotheses of a search for the page; ``spell`` turns ids into tokens, and ``end`` names a row of the end."""
    readings = []
    for hypothesis in found:
        if hypothesis.alignment is None:
            raise ValueError("this hypothesis has no alignment: its system has no attention over the source")
        rows, weights = list(spell(list(hypothesis.tokens))), as_array(hypothesis.alignment)
        if len(weights) == len(rows) + 1:
            rows.append(end)
        if columns is not None and not weights[:, len(columns) :].any():  # the padding of a batch
            weights = weights[:, : len(columns)]
        readings.append(Reading(rows, weights, float(hypothesis.score)))
    return beam(readings, columns, title=title)


def from_tape(tape: Tape, names: str | Sequence[str] = "*", *, batch: int = 0, title: str = "") -> View:
    """Recorded attentions for the page: one, or several of equal shape as layers.

    Args:
        tape: of :func:`regard.record`.
        names: which attentions, by name or pattern, e.g. ``"decoder.layers.*.cross"``; tokens are those of
            :meth:`regard.Tape.label`.
        batch: which member of the batch.
        title: the name in the page's list.
    """
    patterns = [names] if isinstance(names, str) else list(names)
    chosen = [name for name in tape if any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)]
    if not chosen:
        raise ValueError(f"no attention on this tape is called {' or '.join(patterns)}: {nearest(patterns[0], tape)}")
    entries = [tape[name] for name in chosen]
    arrays = [as_array(entry.weights) for entry in entries]
    members = [array[batch] if array.ndim > 2 else array for array in arrays]
    if len({array.shape for array in members}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(chosen, members))
        raise ValueError(f"layers of one view have the same shape, but these differ: {shapes}; name fewer of them")
    rows = next((entry.rows for entry in entries if entry.rows), None)
    columns = next((entry.columns for entry in entries if entry.columns), None)
    if len(members) == 1:
        return view(members[0], rows, columns, title=title or chosen[0])
    stacked = np.stack([array if array.ndim == 3 else array[None] for array in members])
    return beam([Reading(rows, stacked)], columns, title=title or ", ".join(patterns), layers=chosen)


def sentence(tokens: Sequence[str]) -> str:
    """Tokens as one line of text: pieces are joined where they mark the beginnings of words, others by blanks."""
    for mark in ("▁", "Ġ"):
        if any(token.startswith(mark) for token in tokens):
            return "".join(tokens).replace(mark, " ").strip()
    return " ".join(tokens)


def picture(
    readings: Sequence[Reading], columns: Tokens = None, *, title: str = "", names: Mapping[str, str] | None = None
) -> Picture:
    """Alternative targets of one source, the best first: as text and as a figure the best alone.

    Args:
        names: of the sides, ``source`` and ``target``, and what the page says between them, as :data:`TAGS` does; if
            None those of self-attention, or source and target.
    """
    best = readings[0]
    own = best.rows is not None and columns is not None and [*best.rows] == [*columns]
    labels: dict[str, Any] = {"xlabel": names["source"], "ylabel": names["target"]} if names else OWN if own else {}
    return Picture(
        title,
        partial(terminal, best.weights, best.rows, columns),
        partial(beam, readings, columns, title=title, names=names),
        partial(figure, best.weights, best.rows, columns, title=title, **labels),
    )


def between(sides: Sequence[Side], columns: Axis, *, title: str = "") -> Picture:
    """Weights over words, or over anything else that has labels; see :mod:`regard.views.between`."""
    readings = [Reading(side.rows.labels, side.weights, side.score, getattr(side.rows, "text", "")) for side in sides]
    return picture(readings, columns.labels, title=title, names=TAGS if isinstance(columns, Tags) else None)
