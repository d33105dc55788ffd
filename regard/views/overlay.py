"""An image and where each word of a text about it looked: the picture of Xu et al. 2015 (arXiv:1502.03044), figure 3.

``figure`` draws the image once for each word, bright where the word looked; ``terminal`` shades the places with
characters, and ``view`` prepares it for the page of :mod:`regard.views.page`.

Images are (C, height, width) from 0 to 1; weights (T, h, w), of a grid of places that covers the image, or (T, h·w).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable
from regard.views._pixels import beside, packed, paint, pictures, shaded, sheet
from regard.views._shared import as_array, names_of
from regard.views.alignment import sentence
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import labels, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.axes import Places
    from regard.views.between import Side

COLUMNS = 5
"""Pictures in a row."""


def _checked(image: Any, words: Sequence[str], weights: Any) -> tuple[np.ndarray, list[str], np.ndarray]:
    image, places = pictures("image", image, 3), as_array(weights)
    if places.ndim == 2:
        side = math.isqrt(places.shape[1])
        if side * side != places.shape[1]:
            raise ValueError(f"weights {places.shape} are no square of places: give them as (T, h, w)")
        places = places.reshape(-1, side, side)
    places = pictures("weights", places, 3)
    if places.min() < 0:
        raise ValueError(f"weights hold {places.min()}; weights are not negative")
    return image, names_of(words, len(places), "rows", places.shape), places


def figure(
    image: Any, words: Sequence[str], weights: Any, *, title: str | None = None, columns: int = COLUMNS
) -> Figure:
    """The image, and then for each word the image darkened where it did not look; no display is needed.

    Args:
        image: (C, height, width).
        words: T tokens.
        weights: (T, h, w) or (T, h·w).
        title: a heading.
        columns: pictures in a row.
    """
    image, names, places = _checked(image, words, weights)
    named = [shorten(name, 18) for name in labels(names)]
    fonts, (named, (heading,)) = drawable(named, [visible(title) if title else ""])
    height, width = image.shape[1:]
    rows = -(-(len(places) + 1) // columns)
    drawing, panels = sheet(rows, [""] * min(columns, len(places) + 1), side=1.6, title=heading or None, gap=0.26)
    cells = [axes for row in panels for axes in row]
    paint(cells[0], image)
    cells[0].set_title("image", fontsize=9.5, color="#5b6470", pad=3)
    for axes, name, place in zip(cells[1:], named, places):
        paint(axes, image)
        veil = np.zeros((*place.shape, 4))
        veil[..., 3] = 0.82 * (1 - place / max(float(place.max()), 1e-9))
        axes.imshow(veil, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="bilinear", aspect="auto")
        axes.set_aspect("equal")
        axes.set_title(name, fontsize=10, color="#1b1f24", pad=3, fontfamily=fonts, parse_math=False)
    for axes in cells[len(places) + 1 :]:
        axes.axis("off")
    return drawing


def terminal(
    image: Any, words: Sequence[str], weights: Any, *, width: int | None = None, blocks: bool | None = None
) -> str:
    """For each word the grid of places, shaded up to its strongest, as many beside each other as fit."""
    image, names, places = _checked(image, words, weights)
    across = max(1, round(2 * image.shape[2] / image.shape[1] * places.shape[1] / places.shape[2]))  # letters are tall
    panels = []
    for name, place in zip(labels(names), places):
        scaled = np.repeat(np.repeat(place / max(float(place.max()), 1e-9), 2, axis=0), across, axis=1)
        panels.append((shorten(name, 14), shaded(scaled, blocks)))
    return beside(panels, shutil.get_terminal_size().columns if width is None else width)


def view(image: Any, words: Sequence[str], weights: Any, *, title: str = "") -> View:
    """For the interactive page."""
    image, names, places = _checked(image, words, weights)
    return View(
        "overlay", title or sentence(names), {"image": packed(image), "words": names, "weights": Quantized(places)}
    )


def picture(image: Any, words: Sequence[str], weights: Any, *, title: str = "") -> Picture:
    """The image with its words in all its forms; arguments as for :func:`terminal`."""
    return Picture(
        title,
        partial(terminal, image, words, weights),
        partial(view, image, words, weights, title=title),
        partial(figure, image, words, weights, title=title),
    )


def between(sides: Sequence[Side], columns: Places, *, title: str = "") -> Picture:
    """Weights over places of an image, of the best answer; see :mod:`regard.views.between`."""
    best, shape = sides[0], columns.grid or (-1,)
    weights = as_array(best.weights)
    image = columns.image() if callable(columns.image) else columns.image
    return picture(image, best.rows.labels, weights.reshape(len(weights), *shape), title=title)
