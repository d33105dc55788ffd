"""Alignments: where each target word (row) looked in the source (columns).

The picture of Bahdanau, Cho, Bengio 2015, figure 3: source on x, target on y, the darker the more. ``figure`` draws it
with matplotlib, ``terminal`` with characters, and ``view``, ``beam`` and ``from_tape`` prepare it for the interactive
page of :mod:`regard.views.page`.

Weights are (T, S) tensors or arrays; ``rows`` are T target tokens and ``columns`` S source tokens (numbered if None).
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regard._lazy import nearest
from regard.views._files import replace
from regard.views._fonts import drawable, quiet, wrapped
from regard.views.page import Quantized, View
from regard.views.text import ELLIPSIS, cells, clusters, labels, pad, right_to_left, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from regard.tape import Tape

Tokens = Sequence[str] | None

LARGEST = 1 << 26
"""How many weights one view of a page may hold."""


# ---------------------------------------------------------------------------------------------------------------------
# What all pictures share


def _array(weights: Any) -> np.ndarray:
    """A float32 array from a tensor of any device and dtype, or from anything that NumPy understands."""
    if hasattr(weights, "detach"):
        weights = weights.detach().float().cpu().numpy()
    return np.asarray(weights, dtype=np.float32)


def _named(tokens: Tokens, size: int, axis: str, shape: tuple[int, ...]) -> list[str]:
    """The tokens of an axis, checked against its size."""
    if tokens is None:
        return [str(number) for number in range(1, size + 1)]
    if isinstance(tokens, str):
        raise ValueError(f"{axis} is a list of tokens, not one string: list({tokens!r}) names each letter")
    if len(tokens) != size:
        raise ValueError(f"weights {shape} have {size} {axis}, but {len(tokens)} tokens came")
    return [str(token) for token in tokens]


def _matrix(weights: Any, rows: Tokens, columns: Tokens) -> tuple[np.ndarray, list[str], list[str]]:
    """One (T, S) matrix with the labels of its axes."""
    matrix = _array(weights)
    if matrix.ndim != 2:
        raise ValueError(
            f"one picture shows weights (T, S), not {matrix.shape}: choose one, weights[0], or average heads, "
            "weights.mean(-3)"
        )
    if not np.isfinite(matrix).all():
        t, s = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(f"weights hold {matrix[t, s]} at row {t}, column {s}; there is no colour for that")
    named = (_named(tokens, size, axis, matrix.shape) for tokens, size, axis in _axes(rows, columns, matrix))
    row_labels, column_labels = (labels(tokens) for tokens in named)
    return matrix, row_labels, column_labels


def _axes(rows: Tokens, columns: Tokens, matrix: np.ndarray) -> tuple[tuple[Tokens, int, str], ...]:
    return (rows, matrix.shape[-2], "rows"), (columns, matrix.shape[-1], "columns")


def _top(matrix: np.ndarray) -> float:
    """The weight that gets the darkest colour: 1, or the largest where all are small, as in long documents."""
    largest = float(matrix.max(initial=0.0))
    return 1.0 if largest > 0.5 or largest <= 0 else largest


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


# ---------------------------------------------------------------------------------------------------------------------
# Terminal

BLOCKS = " ░▒▓█"
PLAIN = " .:+#"
_STEPS = (0.05, 0.25, 0.5, 0.75)
_COLOURS = (110, 74, 32, 33)  # of the 256: blues that are seen on black and on white
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
    does not fit, the columns continue below.
    """
    matrix, row_names, column_names = _matrix(weights, rows, columns)
    if 0 in matrix.shape:
        return f"nothing to align: {matrix.shape[0]} target and {matrix.shape[1]} source words"
    width = max(24, shutil.get_terminal_size().columns if width is None else width)
    colour = _colours() if colour is None else colour
    shades = BLOCKS if (_prints(BLOCKS) if blocks is None else blocks) else PLAIN

    scale = _top(matrix)
    matrix, row_names, column_names, note = _pool(matrix, row_names, column_names, _MOST)
    row_names = [shorten(name, min(_LONGEST, width // 3)) for name in row_names]
    margin = max(map(cells, row_names))
    room = width - margin - 1

    wide = [max(2, cells(shorten(name, _LONGEST))) for name in column_names]
    across = sum(wide) + len(wide) - 1 <= room
    widths = wide if across else [2] * len(column_names)
    gap = " " if across else ""
    fit = len(widths) if across else max(1, room // 2)

    lines: list[str] = []
    for first in range(0, len(widths), fit):
        band = slice(first, first + fit)
        if lines:
            lines.append("")
        names = column_names[band]
        lines += [" " * (margin + 1) + line for line in (_across(names, widths) if across else _down(names))]
        for name, row in zip(row_names, matrix):
            shaded = gap.join(_cell(weight / scale, w, shades, colour) for weight, w in zip(row[band], widths[band]))
            lines.append(f"{_isolated(pad(name, margin, 'right'))} {shaded}")
    lines.append("")
    for below, plain in (_legend(scale, shades, colour, width), (shorten(note, width),) * 2):
        lines.append(" " * min(margin + 1, width - cells(plain)) + below)
    text = "\n".join(line.rstrip() for line in lines).rstrip("\n")
    return text if shades == BLOCKS else text.translate({ord(ELLIPSIS): "~", ord("×"): "x"})


def _cell(weight: float, width: int, shades: str, colour: bool) -> str:
    level = sum(weight >= step for step in _STEPS)
    text = shades[level] * width
    return f"\x1b[38;5;{_COLOURS[level - 1]}m{text}\x1b[0m" if colour and level else text


def _legend(scale: float, shades: str, colour: bool, width: int) -> tuple[str, str]:
    """What the shades mean, and the same without colour."""
    least = "≥ " if shades == BLOCKS else ">= "
    levels = [f"{100 * step * scale:.{0 if scale == 1 else 1}f}" for step in _STEPS]
    for start, sep, end in ((least, " %  ", " %"), ("", " ", " %")):
        texts = [
            sep.join(f"{_cell(step, 1, shades, shown)} {start}{level}" for step, level in zip(_STEPS, levels)) + end
            for shown in (colour, False)
        ]
        if cells(texts[1]) <= width:
            break
    return texts[0], texts[1]


def _across(names: list[str], widths: list[int]) -> list[str]:
    return [" ".join(_isolated(pad(shorten(name, _LONGEST), w, "centre")) for name, w in zip(names, widths))]


def _down(names: list[str]) -> list[str]:
    """Labels written from top to bottom, ending just above their columns of 2 cells."""
    letters = [clusters(name) for name in names]
    letters = [found if len(found) <= _TALLEST else [*found[: _TALLEST - 1], ELLIPSIS] for found in letters]
    height = max(map(len, letters))
    high = [[""] * (height - len(found)) + found for found in letters]
    return ["".join(pad(column[line], 2) for column in high) for line in range(height)]


def _isolated(text: str) -> str:
    """A right-to-left word between marks that keep a terminal with bidirectional text from reordering the line."""
    return f"\u200e{text}\u200e" if any(map(right_to_left, text)) else text


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _prints(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Figure

INK, MUTED = "#1b1f24", "#5b6470"
FORMATS = ("png", "svg", "pdf")

# In inches.
_CELL = (0.2, 0.46)  # the smallest, so that every label is read, and the largest
_WIDEST = 30.0  # all cells together; what does not fit has smaller cells and fewer labels
_LABEL = 0.17  # from one label to the next
_NAME = 0.3  # the names of the axes
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
    cmap: str = "Blues",
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
    from matplotlib.figure import Figure

    matrix, row_names, column_names = _matrix(weights, rows, columns)
    if 0 in matrix.shape:
        raise ValueError(f"nothing to draw: weights are {matrix.shape}")
    top = _top(matrix) if top is None else top
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
        return tuple(length / whole for length, whole in zip((x, y, *size), (width, height) * 2))

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


def save(drawing: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure as the suffix says: .png, .svg or .pdf. The same figure gives the same bytes."""
    from matplotlib import rc_context

    path = Path(path)
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        known = nearest(form, FORMATS)
        raise ValueError(f"{path}: the suffix says how a figure is written, and {path.suffix!r} says nothing; {known}")
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    data = io.BytesIO()
    with quiet(), rc_context({"svg.hashsalt": "regard", "pdf.fonttype": 42}):
        drawing.savefig(data, format=form, dpi=200, metadata=undated)
    replace(path, data.getvalue())


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
    readings: Sequence[Reading], columns: Tokens = None, *, title: str = "", layers: Sequence[str] | None = None
) -> View:
    """Alternative targets of one source, the best first, for the page.

    Args:
        readings: the hypotheses; all look at the same source and have the same layers and heads.
        columns: S source tokens.
        title: the name in the page's list; the source sentence if empty.
        layers: names of the layers, if weights have them.
    """
    if not readings:
        raise ValueError("an alignment needs at least one reading")
    arrays = [_array(reading.weights) for reading in readings]
    shapes = sorted({(*array.shape[:-2], array.shape[-1]) for array in arrays if array.ndim >= 2}, key=len)
    if any(not 2 <= array.ndim <= 4 for array in arrays) or len(shapes) > 1:
        raise ValueError(
            "weights of a view are (T, S), (H, T, S) or (L, H, T, S), alike but for T, not "
            + ", ".join(str(array.shape) for array in arrays)
        )
    if (size := sum(array.size for array in arrays)) > LARGEST:
        raise ValueError(f"a page takes {LARGEST:,} weights, and these are {size:,}: choose fewer layers or heads")
    source = _named(columns, arrays[0].shape[-1], "columns", arrays[0].shape)
    if layers is not None and (arrays[0].ndim != 4 or len(layers) != len(arrays[0])):
        raise ValueError(f"{len(layers)} names of layers came for weights {arrays[0].shape}")
    found = []
    for reading, array in zip(readings, arrays):
        target = _named(reading.rows, array.shape[-2], "rows", array.shape)
        found.append(
            {
                "rows": target,
                "text": reading.text or sentence(target),
                "score": None if reading.score is None else float(reading.score),
                "weights": Quantized(array),
            }
        )
    data = {"columns": source, "layers": None if layers is None else list(layers), "readings": found}
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
    for one in found:
        if one.alignment is None:
            raise ValueError("this hypothesis has no alignment: its system has no attention over the source")
        rows, weights = list(spell(list(one.tokens))), _array(one.alignment)
        if len(weights) == len(rows) + 1:
            rows.append(end)
        if columns is not None and not weights[:, len(columns) :].any():  # the padding of a batch
            weights = weights[:, : len(columns)]
        readings.append(Reading(rows, weights, float(one.score)))
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
    arrays = [_array(entry.weights) for entry in entries]
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
