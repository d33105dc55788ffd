"""An image and where each word of a text about it looked: the picture of Xu et al. 2015 (arXiv:1502.03044), figure 3.

``figure`` draws the image once for each word, bright where the word looked; ``terminal`` shades the places with
characters, and ``view`` prepares it for the page of :mod:`regard.views.page`. ``from_tape`` makes all three of what
:func:`regard.record` saw in anybody's model: which patches did this word look at?

Images are (C, height, width) from 0 to 1; weights (T, h, w), of a grid of places that covers the image, or (T, h·w).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._lazy import nearest
from regard.axes import Steps
from regard.views._fonts import drawable
from regard.views._pixels import beside, packed, paint, pictures, shaded, sheet
from regard.views._shared import as_array, names_of
from regard.views.alignment import sentence
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import labels, shorten, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.axes import Places
    from regard.tape import Tape
    from regard.views.between import Side

COLUMNS = 5
"""Pictures in a row."""
_SIDE = 1.6
"""Inches that a picture is wide."""


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
    query_names = [shorten(name, 18) for name in labels(names)]
    fonts, (query_names, (heading,)) = drawable(query_names, [visible(title) if title else ""])
    rows = -(-(len(places) + 1) // columns)
    tall = _SIDE * min(max(image.shape[1] / image.shape[2], 0.4), 1.6)
    names_above = [""] * min(columns, len(places) + 1)
    drawing, panels = sheet(rows, names_above, side=_SIDE, tall=tall, title=heading or None, gap=0.26)
    cells = [axes for row in panels for axes in row]
    paint(cells[0], image)
    cells[0].set_title("image", fontsize=9.5, color="#5b6470", pad=3)
    for axes, name, place in zip(cells[1:], query_names, places):
        veiled(axes, image, place)
        axes.set_title(name, fontsize=10, color="#1b1f24", pad=3, fontfamily=fonts, parse_math=False)
    for axes in cells[len(places) + 1 :]:
        axes.axis("off")
    return drawing


def veiled(axes: Axes, image: np.ndarray, place: np.ndarray) -> None:
    """Draw an image (C, height, width), darkened where the weights (h, w) are small."""
    height, width = image.shape[1:]
    paint(axes, image)
    veil = np.zeros((*place.shape, 4))
    veil[..., 3] = 0.82 * (1 - place / max(float(place.max()), 1e-9))
    axes.imshow(veil, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="bilinear", aspect="auto")
    axes.set_aspect("equal")


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


def view(image: Any, words: Sequence[str], weights: Any, *, noun: str = "word", title: str = "") -> View:
    """For the interactive page; ``noun`` is what a row is called there, such as ``hop`` or ``layer``."""
    image, names, places = _checked(image, words, weights)
    data = {"image": packed(image), "words": names, "noun": noun, "weights": Quantized(places)}
    return View("overlay", title or sentence(names), data)


def from_tape(
    tape: Tape,
    image: Any,
    words: Sequence[str] | None = None,
    *,
    places: Any = None,
    grid: tuple[int, int] | None = None,
    names: str | Sequence[str] | None = None,
    heads: int | Sequence[int] | None = None,
    batch: int = 0,
    title: str = "",
) -> Picture:
    """Which patches of an image were looked at, in a vision transformer or a vision-language model.

    Args:
        tape: of :func:`regard.record`.
        image: (C, height, width), as the model was given it; what is not from 0 to 1 is brought there.
        words: what was written, T tokens: the last T queries on the tape. Without words, a vision transformer is shown:
            where its first token, that of the class, looks in each layer.
        places: which keys are patches, row by row: a mask (S,), such as ``input_ids[0] == image_token_id``, or their
            numbers. By default all, but for as many at the beginning as make the rest fit (the class token).
        grid: (h, w), the patches; by default as many as fit the shape of the image.
        names: attentions by name or pattern, whose mean is taken; by default all cross-attentions or, where there are
            none, the self-attentions of the stack that ran last.
        heads: which heads, all by default; their mean is taken.
        batch: which member of the batch.
        title: a heading.
    """
    pixels = as_array(image)
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:
        pixels = (pixels - low) / max(high - low, 1e-9)
    layers = [as_array(layer[batch]) for layer in _layers(tape, names)]  # (H, T, S) each
    chosen = slice(None) if heads is None else [heads] if isinstance(heads, int) else list(heads)
    means = [layer[chosen].mean(0) for layer in layers]
    noun = "word"
    if words is None:
        noun = "layer"
        rows, words = np.stack([layer[0] for layer in means]), [f"layer {number}" for number, _ in enumerate(means, 1)]
    else:
        rows = np.mean(means, axis=0)
        if len(words) > len(rows):
            raise ValueError(f"{len(words)} words, but only {len(rows)} queries are on the tape")
        rows = rows[len(rows) - len(words) :]
    keys, shape = _patches(places, grid, rows.shape[-1], pixels.shape[-2:])
    return picture(pixels, words, rows[:, keys].reshape(-1, *shape), noun=noun, title=title)


def _layers(tape: Tape, names: str | Sequence[str] | None) -> Sequence[Any]:
    """The chosen attentions, (B, H, T, S) each."""
    if names is None:
        return tape.cross_attentions or tape.attentions
    patterns = [names] if isinstance(names, str) else list(names)
    matching = [name for name in tape if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not matching:
        raise ValueError(f"no attention on this tape is called {' or '.join(patterns)}: {nearest(patterns[0], tape)}")
    weights = [tape[name].weights for name in matching]
    return [layer if layer.ndim == 4 else layer.unsqueeze(1) for layer in weights]


def _patches(
    places: Any, grid: tuple[int, int] | None, count: int, size: tuple[int, ...]
) -> tuple[np.ndarray, tuple[int, int]]:
    """The keys that are patches, and the grid that they make."""
    if places is None:
        for first in range(min(count, MOST_BEFORE)):
            shape = _grid(count - first, size) if grid is None else grid
            if shape is not None and shape[0] * shape[1] == count - first:
                return np.arange(first, count), shape
        expected = "a grid like the image" if grid is None else f"{grid[0]} × {grid[1]}"
        raise ValueError(
            f"{count} keys are not the patches of {expected}, not even without the first few: give places="
        )
    keys = np.asarray(places.detach().cpu() if hasattr(places, "detach") else places)
    keys = np.flatnonzero(keys) if keys.dtype == bool else keys.astype(np.int64)
    shape = _grid(len(keys), size) if grid is None else grid
    if shape is None or shape[0] * shape[1] != len(keys) or (len(keys) and keys.max() >= count):
        advice = "give grid=(h, w)" if grid is None else f"not {grid[0]} × {grid[1]}"
        raise ValueError(f"{len(keys)} of {count} keys are patches of an image of {size[0]} × {size[1]}: {advice}")
    return keys, shape


def _grid(count: int, size: tuple[int, ...]) -> tuple[int, int] | None:
    """The grid of N patches with the proportions of the image, if there is one."""
    height = round(math.sqrt(count * size[0] / size[1]))
    if not height or count % height:
        return None
    width = count // height
    return (height, width) if abs(height * size[1] - width * size[0]) <= max(size) else None


MOST_BEFORE = 17
"""Keys before the patches: the class token, and registers."""


def picture(image: Any, words: Sequence[str], weights: Any, *, noun: str = "word", title: str = "") -> Picture:
    """The image with its words in all its forms; arguments as for :func:`view`."""
    return Picture(
        title,
        partial(terminal, image, words, weights),
        partial(view, image, words, weights, noun=noun, title=title),
        partial(figure, image, words, weights, title=title),
    )


def between(sides: Sequence[Side], columns: Places, *, title: str = "") -> Picture:
    """Weights over places of an image, of the best answer; see :mod:`regard.views.between`."""
    best, shape = sides[0], columns.grid or (-1,)
    weights = as_array(best.weights)
    image = columns.image() if callable(columns.image) else columns.image
    noun = best.rows.noun if isinstance(best.rows, Steps) else "word"
    return picture(image, best.rows.labels, weights.reshape(len(weights), *shape), noun=noun, title=title)
