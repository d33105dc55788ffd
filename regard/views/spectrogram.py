"""Sound and where each character written of it looked: the picture of Chan et al. 2015 (arXiv:1508.01211), figure 2.

``figure`` draws the spectrogram and below it, over the same seconds, characters × time; ``terminal`` shades the latter
with characters, and ``view`` prepares both for the page of :mod:`regard.views.page`, where the sound can be played.

The image is (bands, frames), low bands first; weights (T, frames).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable
from regard.views._shared import (
    BLOCKS,
    INK,
    MUTED,
    PLAIN,
    as_array,
    as_matrix,
    coloured,
    darkest,
    legend_of,
    printable,
    shade,
)
from regard.views.alignment import sentence
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import cells, pad, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.axes import Spectrogram
    from regard.views.between import Side

_LEFT, _PAD, _SOUND, _ROW = 0.9, 0.15, 1.3, 0.2  # inches
_COLUMNS = 96
"""Of the terminal's picture at most."""
_PLAYED = 16_000 * 120
"""Samples that a page holds; longer sound is not played."""


def _checked(image: Any, words: Sequence[str], weights: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    image = as_array(image)
    if image.ndim != 2 or not np.isfinite(image).all():
        raise ValueError(f"a spectrogram is finite numbers (bands, frames), not {image.shape}")
    matrix, rows, _ = as_matrix(weights, words, None)
    if matrix.shape[1] != image.shape[1]:
        raise ValueError(f"weights {matrix.shape} for {image.shape[1]} frames")
    if matrix.min(initial=0.0) < 0:
        raise ValueError(f"weights hold {matrix.min()}; weights are not negative")
    return image, matrix, rows


def figure(image: Any, words: Sequence[str], weights: Any, hop: float, *, title: str = "") -> Figure:
    """The spectrogram above characters × time; no display is needed.

    Args:
        image: (bands, frames).
        words: T tokens.
        weights: (T, frames).
        hop: seconds of a frame.
        title: a heading.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    image, matrix, rows = _checked(image, words, weights)
    fonts, (row_names, (heading,)) = drawable([shorten(name, 12) for name in rows], [visible(shorten(title, 120))])
    row = min(_ROW, 9.0 / max(len(rows), 1))
    across = min(max(4.0, 0.02 * image.shape[1]), 12.0)
    width = max(_LEFT + across + _PAD, 0.1 * len(heading) + 2 * _PAD)
    head = _PAD + (0.34 if heading else 0.0)
    height = head + _SOUND + 0.1 + row * max(len(rows), 1) + 0.5
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    if heading:
        style = {**plain, "fontsize": 12, "fontweight": "bold", "color": INK, "va": "top"}
        drawing.text(_PAD / width, 1 - _PAD / height, heading, **style)
    seconds = image.shape[1] * hop
    place = (_LEFT / width, (height - head - _SOUND) / height, across / width, _SOUND / height)
    upper = drawing.add_axes(place)
    upper.imshow(image, aspect="auto", origin="lower", cmap="regard", extent=(0, seconds, 0, len(image)))
    upper.set(xticks=[], yticks=[])
    upper.set_ylabel("frequency", fontsize=9, color=MUTED)
    lower = drawing.add_axes((place[0], 0.5 / height, place[2], row * max(len(rows), 1) / height))
    top = float(matrix.max(initial=0.0)) or 1.0
    extent = (0, seconds, max(len(rows), 1) - 0.5, -0.5)
    lower.imshow(matrix, aspect="auto", cmap="regard", vmin=0, vmax=top, extent=extent, interpolation="nearest")
    lower.set_yticks(range(len(rows)), row_names, fontsize=min(10.0, 60 * row), parse_math=False, fontfamily=fonts)
    lower.set_xlabel("seconds", fontsize=9, color=MUTED)
    for axes in (upper, lower):
        axes.tick_params(length=2, colors=MUTED, labelsize=None)
        axes.spines[:].set(color="#c9ced6", linewidth=0.8)
    return drawing


def terminal(image: Any, words: Sequence[str], weights: Any, hop: float, *, width: int | None = None) -> str:
    """A row of shades for each character, a column for some frames; the spectrogram itself is not drawn."""
    image, matrix, rows = _checked(image, words, weights)
    if 0 in matrix.shape:
        return f"nothing to align: {matrix.shape[0]} tokens and {matrix.shape[1]} frames"
    width = max(24, shutil.get_terminal_size().columns if width is None else width)
    shades, colour = BLOCKS if printable(BLOCKS) else PLAIN, coloured()
    rows = [shorten(name, width // 3) for name in rows]
    margin = max(map(cells, rows))
    step = -(-matrix.shape[1] // min(width - margin - 1, _COLUMNS))
    pooled = np.add.reduceat(matrix, np.arange(0, matrix.shape[1], step), axis=1)
    scale, (seconds, count) = darkest(pooled), (matrix.shape[1] * hop, pooled.shape[1])
    lines = []
    for name, row in zip(rows, pooled):
        shaded = "".join(shade(weight / scale, 1, shades, colour) for weight in row)
        lines.append(f"{pad(name, margin, 'right')} {shaded}")
    end = f"{seconds:.1f} s"
    lines.append(" " * (margin + 1) + "0" + end.rjust(max(count - 1, len(end) + 1)))
    lines.append(" " * (margin + 1) + legend_of(scale, shades, colour, width)[0])
    return "\n".join(line.rstrip() for line in lines)


def view(
    image: Any, words: Sequence[str], weights: Any, hop: float, wave: Any = None, rate: int = 0, *, title: str = ""
) -> View:
    """For the interactive page; ``wave`` (N,) at ``rate`` samples a second can be played there."""
    image, matrix, _ = _checked(image, words, weights)
    low, high = (float(quantile) for quantile in np.quantile(image, (0.02, 0.995))) if image.size else (0.0, 1.0)
    shown = np.clip((image - low) / max(high - low, 1e-6), 0, 1)
    data: dict[str, Any] = {
        "image": Quantized(shown),
        "words": [str(word) for word in words],
        "weights": Quantized(matrix),
        "hop": hop,
    }
    if wave is not None and rate and 0 < len(wave) <= _PLAYED:
        samples = np.rint(np.clip(np.asarray(wave), -1, 1) * 32767).astype("<i2")
        data |= {"samples": samples.view(np.uint8), "rate": rate}
    return View("spectrogram", title or sentence(words), data)


def picture(
    image: Any, words: Sequence[str], weights: Any, hop: float, wave: Any = None, rate: int = 0, *, title: str = ""
) -> Picture:
    """The sound with its characters in all forms."""
    arguments = (image, words, weights, hop)
    return Picture(
        title,
        partial(terminal, *arguments),
        partial(view, *arguments, wave, rate, title=title),
        partial(figure, *arguments, title=title),
    )


def between(sides: Sequence[Side], columns: Spectrogram, *, title: str = "") -> Picture:
    """Weights over the frames of a sound, of the best answer. See :mod:`regard.views.between`."""
    best = sides[0]
    return picture(columns.image, best.rows.labels, best.weights, columns.hop, columns.wave, columns.rate, title=title)
