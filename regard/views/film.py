"""The frames of a clip and where each word of a text about it looked: the picture of Yao et al. 2015
(arXiv:1502.08029), figure 4.

``figure`` draws the frames in a row and below them, for each word, a bar under each frame; ``terminal`` shades them
with characters, and ``view`` prepares it for the page of :mod:`regard.views.page`.

Frames are (F, C, height, width) from 0 to 1; weights (T, F).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views import alignment
from regard.views._fonts import drawable
from regard.views._pixels import packed, paint, pictures
from regard.views._shared import INK, MUTED, Tokens, as_matrix, names_of
from regard.views.alignment import sentence
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import labels, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.axes import Frames
    from regard.views.between import Side

_FRAME, _BAR, _PAD, _GAP = 0.8, 0.36, 0.15, 0.04  # inches


def _checked(frames: Any, words: Tokens, weights: Any, names: Tokens) -> tuple[np.ndarray, list[str], Any, list[str]]:
    frames, (matrix, _, _) = pictures("frames", frames, 4), as_matrix(weights, words, names)
    if matrix.shape[1] != len(frames):
        raise ValueError(f"weights {matrix.shape} for {len(frames)} frames")
    if matrix.min(initial=0.0) < 0:
        raise ValueError(f"weights hold {matrix.min()}; weights are not negative")
    rows, columns = (names_of(tokens, size, "rows", matrix.shape) for tokens, size in zip((words, names), matrix.shape))
    return frames, rows, matrix, columns


def figure(frames: Any, words: Sequence[str], weights: Any, names: Tokens = None, *, title: str = "") -> Figure:
    """The frames, and for each word a row of bars, the highest of them as high as the row; no display is needed.

    Args:
        frames: (F, C, height, width).
        words: T tokens.
        weights: (T, F).
        names: of the F frames; numbered if None.
        title: a heading.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    frames, rows, matrix, columns = _checked(frames, words, weights, names)
    row_names = [shorten(name, 18) for name in labels(rows)]
    fonts, (row_names, (heading,)) = drawable(row_names, [visible(title)])
    left = _PAD + 0.09 * max((len(name) for name in row_names), default=0) + 0.1
    head = _PAD + (0.34 if heading else 0.0) + 0.2
    width = max(left + len(frames) * (_FRAME + _GAP) + _PAD, 0.1 * len(heading) + 2 * _PAD)
    height = head + _FRAME + len(rows) * (_BAR + _GAP) + _GAP + _PAD
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    if heading:
        style = {**plain, "fontsize": 12, "fontweight": "bold", "color": INK, "va": "top"}
        drawing.text(_PAD / width, 1 - _PAD / height, heading, **style)
    for number, (frame, name) in enumerate(zip(frames, columns)):
        x = left + number * (_FRAME + _GAP)
        axes = drawing.add_axes((x / width, (height - head - _FRAME) / height, _FRAME / width, _FRAME / height))
        paint(axes, frame)
        axes.set_title(shorten(visible(name), 8), fontsize=8.5, color=MUTED, pad=3, parse_math=False)
    across = len(frames) * (_FRAME + _GAP) - _GAP
    for number, (name, row) in enumerate(zip(row_names, matrix)):
        bottom = height - head - _FRAME - (number + 1) * (_BAR + _GAP)
        axes = drawing.add_axes((left / width, bottom / height, across / width, _BAR / height))
        axes.bar(np.arange(len(row)), row, width=0.72, color="#2f6fb3")
        axes.set(xlim=(-0.5, len(row) - 0.5), ylim=(0, max(float(matrix.max()), 1e-9)), xticks=[], yticks=[])
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.spines["bottom"].set(color="#c9ced6", linewidth=0.8)
        middle = (bottom + _BAR / 2) / height
        drawing.text((left - 0.1) / width, middle, name, fontsize=10, color=INK, ha="right", va="center", **plain)
    return drawing


def terminal(frames: Any, words: Sequence[str], weights: Any, names: Tokens = None, *, width: int | None = None) -> str:
    """A row of shades for each word, a column for each frame; the frames themselves are not drawn."""
    _, rows, matrix, columns = _checked(frames, words, weights, names)
    return alignment.terminal(matrix, rows, columns, width=width)


def view(frames: Any, words: Sequence[str], weights: Any, names: Tokens = None, *, title: str = "") -> View:
    """For the interactive page."""
    frames, rows, matrix, columns = _checked(frames, words, weights, names)
    data = {"frames": packed(frames), "names": columns, "words": rows, "weights": Quantized(matrix)}
    return View("film", title or sentence(rows), data)


def picture(frames: Any, words: Sequence[str], weights: Any, names: Tokens = None, *, title: str = "") -> Picture:
    """The frames with their words in all forms; arguments as for :func:`figure`."""
    arguments = (frames, words, weights, names)
    return Picture(
        title,
        partial(terminal, *arguments),
        partial(view, *arguments, title=title),
        partial(figure, *arguments, title=title),
    )


def between(sides: Sequence[Side], columns: Frames, *, title: str = "") -> Picture:
    """Weights over the frames of a clip, of the best answer; of all, as an alignment, where there are no images. See
    :mod:`regard.views.between`."""
    images = columns.images() if callable(columns.images) else columns.images
    if images is None:
        return alignment.between(sides, columns, title=title)
    return picture(images, sides[0].rows.labels, sides[0].weights, columns.labels, title=title)
