"""DRAW at work: its canvas over time with the boxes where it read and wrote, and the glimpses of a classifier.

The pictures of Gregor et al. 2015, figures 1, 5 and 7. A box is what N×N filters cover; its line is the thicker the
broader they are, and dashed on the border where they reach beyond it. ``figure`` draws a row for each picture,
``frames`` the same as an animation, ``reading`` the glimpses of a classifier, and ``terminal`` the canvas as text;
``view`` prepares one picture for the interactive page.

Canvases are (N, T, C, height, width), images (N, C, height, width), all from 0 to 1; boxes (N, T, 4): x and y of the
centre, the side, and σ of the filters, in pixels counted from 0.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._pixels import COLOURS, beside, packed, paint, pictures, save_animation, shaded, sheet
from regard.views._shared import as_array
from regard.views.page import View
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure", "frames", "reading", "save_animation", "terminal", "view"]
WRITE, READ = COLOURS[0], COLOURS[1]
MOST = 12
"""Steps in a row; of more, as many are chosen evenly."""


def figure(
    canvas: Any,
    read: Any = None,
    write: Any = None,
    *,
    images: Any = None,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """The canvas after each step as a matplotlib figure, after the image that was to be drawn, if any; the box that was
    written on the canvas (orange), the box that was read on the image of the same step (blue)."""
    canvas, images, read, write = _checked(canvas, images, read, write)
    chosen = _chosen(canvas.shape[1])
    before = 0 if images is None else 1
    columns = ["image"] * before + [f"{t + 1}" for t in chosen]
    lines = 2 if read is not None and images is not None else 1
    beside_rows = None
    if labels is not None:
        beside_rows = [label if line == 0 else "" for label in labels for line in range(lines)]
    drawing, panels = sheet(lines * len(canvas), columns, side=0.95, title=title, labels=beside_rows)
    for n, drawn in enumerate(canvas):
        upper, *lower = panels[lines * n : lines * (n + 1)]
        if images is not None:
            paint(upper[0], images[n])
        for axes, t in zip(upper[before:], chosen):
            paint(axes, drawn[t])
            _box(axes, write, n, t, WRITE)
        for row in lower:
            row[0].axis("off")
            row[0].text(0.5, 0.5, "read", ha="center", va="center", fontsize=9, color=READ)
            for axes, t in zip(row[before:], chosen):
                paint(axes, images[n])
                _box(axes, read, n, t, READ)
    return drawing


def frames(
    canvas: Any, read: Any = None, write: Any = None, *, images: Any = None, title: str | None = None
) -> list[Figure]:
    """A figure for each step, pictures beside each other: what is read above, the canvas below; for
    :func:`save_animation`."""
    canvas, images, read, write = _checked(canvas, images, read, write)
    drawings = []
    for t in range(canvas.shape[1]):
        lines = 1 if images is None else 2
        heading = f"{title}, step {t + 1}" if title else f"step {t + 1} of {canvas.shape[1]}"
        drawing, panels = sheet(lines, [""] * len(canvas), side=1.5, title=heading)
        for n in range(len(canvas)):
            if images is not None:
                paint(panels[0][n], images[n])
                _box(panels[0][n], read, n, t, READ)
            paint(panels[-1][n], canvas[n, t])
            _box(panels[-1][n], write, n, t, WRITE)
        drawings.append(drawing)
    return drawings


def reading(
    images: Any, read: Any, patch: Any, *, labels: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """Where a classifier looked in each step (the box), and what it saw there (N, T, C, n, n), below."""
    images, patch = pictures("images", images, 4), pictures("patches", patch, 5)
    boxes = _boxes("read", read, patch.shape[:2])
    if boxes is None or len(images) != len(patch):
        raise ValueError(f"{len(images)} images were read, but there are glimpses of {len(patch)}, each with a box")
    chosen = _chosen(patch.shape[1])
    beside_rows = None if labels is None else [text for label in labels for text in (label, "")]
    drawing, panels = sheet(2 * len(images), [f"{t + 1}" for t in chosen], side=1.15, title=title, labels=beside_rows)
    for n, image in enumerate(images):
        top = max(float(patch[n].max()), 1e-6)
        for column, t in enumerate(chosen):
            paint(panels[2 * n][column], image)
            _box(panels[2 * n][column], boxes, n, t, READ)
            paint(panels[2 * n + 1][column], patch[n, t] / top)  # a glimpse may be amplified
            panels[2 * n + 1][column].spines[:].set(color=READ, linewidth=1.5)
    return drawing


def terminal(canvas: Any, *, images: Any = None, width: int | None = None, blocks: bool | None = None) -> str:
    """The canvas after each step as text, as many beside each other as fit."""
    canvas, images, _, _ = _checked(canvas, images, None, None)
    width = shutil.get_terminal_size().columns if width is None else width
    parts = []
    for n, drawn in enumerate(canvas):
        panels = [] if images is None else [("image", shaded(images[n].mean(0), blocks))]
        panels += [(f"step {t + 1}", shaded(drawn[t].mean(0), blocks)) for t in _chosen(len(drawn))]
        parts.append(beside(panels, width))
    return "\n\n".join(parts)


def view(
    canvas: Any = None,
    read: Any = None,
    write: Any = None,
    patch: Any = None,
    *,
    image: Any = None,
    title: str = "",
) -> View:
    """One picture for the interactive page: all without the first dimension of :func:`figure`, or, of a classifier, its
    glimpses ``patch`` (T, C, n, n) instead of a canvas."""
    if canvas is None and (patch is None or image is None):
        raise ValueError("a view of drawing needs a canvas, and one of reading needs patches and the image")
    sequence = pictures("canvas", canvas, 4) if canvas is not None else pictures("patch", patch, 4)
    boxes = {
        name: None if value is None else _boxes(name, pictures(name, value, 2)[None], (1, len(sequence)))[0]  # type: ignore[index]
        for name, value in (("read", read), ("write", write))
    }
    shown = None if image is None else packed(pictures("image", image, 3))
    glimpse = None if canvas is not None else packed(sequence / max(float(sequence.max()), 1e-6))  # it may be amplified
    data = {"canvas": None if canvas is None else packed(sequence), "image": shown, "patch": glimpse, **boxes}
    return View("canvas", title or ("drawing" if canvas is not None else "reading"), data)


def _chosen(steps: int) -> list[int]:
    return np.unique(np.linspace(0, steps - 1, min(steps, MOST)).round().astype(int)).tolist()


def _box(axes: Axes, boxes: np.ndarray | None, n: int, t: int, colour: str) -> None:
    from matplotlib.patches import Rectangle

    if boxes is None:
        return
    *centre, side, sigma = boxes[n, t].tolist()
    limits = axes.get_xlim(), axes.get_ylim()
    ends = np.array([(middle - side / 2, middle + side / 2) for middle in centre])
    low, high = np.sort(limits).T
    visible = np.clip(ends, low[:, None] + 0.4, high[:, None] - 0.4)
    wide, style = min(max(0.6 * sigma, 0.8), 4.0), "-" if np.array_equal(visible, ends) else (0, (3, 1.5))
    corner, (width, height) = visible[:, 0], visible[:, 1] - visible[:, 0]
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=colour, linewidth=wide, linestyle=style))
    axes.set(xlim=limits[0], ylim=limits[1])


def _checked(canvas: Any, images: Any, read: Any, write: Any) -> tuple[np.ndarray, Any, Any, Any]:
    canvas = pictures("canvas", canvas, 5)
    if images is not None:
        images = pictures("images", images, 4)
        if len(images) != len(canvas):
            raise ValueError(f"{len(canvas)} canvases were drawn, but there are {len(images)} images")
    steps = canvas.shape[:2]
    return canvas, images, _boxes("read", read, steps), _boxes("write", write, steps)


def _boxes(name: str, boxes: Any, steps: tuple[int, ...]) -> np.ndarray | None:
    if boxes is None:
        return None
    values = pictures(name, boxes, 3)
    if values.shape != (*steps, 4):
        raise ValueError(f"{name} boxes are {(*steps, 4)}: x, y, side and σ in each step, not {values.shape}")
    return values


def shown(made: Any, images: Any, titles: Sequence[str]) -> list[Picture]:
    """A picture for each drawing of ``made``, which has ``canvas``, ``read``, ``write`` and ``patch``; they share one
    figure and one animation. ``images`` is None where it drew from nothing, ``made.canvas`` where it classified."""
    parts = {name: getattr(made, name) for name in ("canvas", "read", "write", "patch")}
    if made.canvas is None:
        shared_figure: Any = partial(reading, images, made.read, made.patch, labels=titles)
        moving = None
    else:
        boxes = made.read, made.write
        shared_figure = partial(figure, made.canvas, *boxes, images=images, labels=titles)
        moving = partial(frames, made.canvas, *boxes, images=images)
    drawings = []
    for row, title in enumerate(titles):
        sample = {name: None if tensor is None else tensor[row] for name, tensor in (parts | {"image": images}).items()}
        rows = slice(row, row + 1)
        if made.canvas is None:
            text: Any = partial(_as_text, images[row])
        else:
            text = partial(terminal, made.canvas[rows], images=None if images is None else images[rows])
        drawings.append(Picture(title, text, partial(view, **sample, title=title), shared_figure, moving))
    return drawings


def _as_text(image: Any) -> str:
    return "\n".join(shaded(as_array(image).mean(0)))
