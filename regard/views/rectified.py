"""What a spatial transformer does to a picture: the picture, the grid that reads it, and what comes out upright.

The triplets of Jaderberg et al. 2015, figure 1 and table 1. Where transformers look at several channels, as in the
addition of digits, each channel is shown with all grids, and then what each transformer makes of each channel that it
passes on; the crops of others are 0.

Images are (N, C, height, width), grids (N, K, height', width', 2) with places (x, y) in [−1, 1], the outer edges of the
image, and crops (N, K, C, height', width'), of K transformers; all numbers from 0 to 1. ``view`` prepares one picture
for the interactive page.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._pixels import COLOURS, beside, packed, paint, pictures, shaded, sheet
from regard.views._shared import as_array
from regard.views.page import View
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = 6
"""Of the grid that are drawn each way, its edges included."""


def figure(
    images: Any, grids: Any, crops: Any, *, labels: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """A row for each picture, as a matplotlib figure; no display is needed.

    Args:
        images: (N, C, height, width).
        grids: (N, K, height', width', 2).
        crops: (N, K, C, height', width').
        labels: what stands beside each picture.
        title: a heading.
    """
    images, grids, crops = _checked(images, grids, crops)
    channels, count = images.shape[1], crops.shape[1]
    apart = channels not in (1, 3)
    passed = [(k, c) for k in range(count) for c in range(channels) if crops[:, k, c].any()]
    if apart:
        columns = [f"channel {c + 1}" for c in range(channels)]
        columns += [f"crop {k + 1}, channel {c + 1}" for k, c in passed]
    else:
        columns = ["input", "grid", *(f"rectified {k + 1}" if count > 1 else "rectified" for k in range(count))]
    drawing, panels = sheet(len(images), columns, side=1.35, title=title, labels=labels)
    for axes, image, grid, crop in zip(panels, images, grids, crops):
        inputs = channels if apart else 2
        for c, panel in enumerate(axes[:inputs]):
            paint(panel, image[c : c + 1] if apart else image)
            if apart or c == 1:
                _net(panel, grid, image.shape[-2:])
        crops_shown = [(k, crop[k, c : c + 1]) for k, c in passed] if apart else list(enumerate(crop))
        for panel, (k, picture) in zip(axes[inputs:], crops_shown, strict=True):
            paint(panel, picture)
            panel.spines[:].set(color=COLOURS[k % len(COLOURS)], linewidth=2)
    return drawing


def terminal(images: Any, grids: Any, crops: Any, *, width: int | None = None, blocks: bool | None = None) -> str:
    """Pictures and crops beside each other as text; the corners of the grids are given in pixels."""
    images, grids, crops = _checked(images, grids, crops)
    width = shutil.get_terminal_size().columns if width is None else width
    parts = []
    for image, grid, crop in zip(images, grids, crops):
        panels = [("input", shaded(image.max(0), blocks))]
        for k, picture in enumerate(crop):
            name = f"rectified {k + 1}" if len(crop) > 1 else "rectified"
            panels.append((name, shaded(picture.max(0), blocks)))
        lines = [beside(panels, width)]
        for k, places in enumerate(grid):
            x, y = _pixels(places, image.shape[-2:])
            corners = [(x[i, j], y[i, j]) for i, j in ((0, 0), (0, -1), (-1, -1), (-1, 0))]
            shown = "  ".join(f"({a:.0f}, {b:.0f})" for a, b in corners).replace("-", "−")
            lines.append(f"corners{f' {k + 1}' if len(grid) > 1 else ''}: {shown}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def view(image: Any, grids: Any, crops: Any, *, title: str = "") -> View:
    """One picture for the interactive page; all without the first dimension of :func:`figure`."""
    image, grids, crops = (as_array(values)[None] for values in (image, grids, crops))
    image, grids, crops = _checked(image, grids, crops)
    data = {"image": packed(image[0]), "grids": grids[0], "crops": packed(crops[0])}
    return View("rectified", title or "rectified", data)


def _net(axes: Axes, grids: np.ndarray, size: tuple[int, ...]) -> None:
    """The grids of all transformers over an image, which is shown with what lies round it where they reach out."""
    height, width = size
    reach = [-0.5, width - 0.5, height - 0.5, -0.5]
    for number, grid in enumerate(grids):
        x, y = _pixels(grid, size)
        colour = COLOURS[number % len(COLOURS)]
        for axis, count in enumerate(x.shape):
            for at in np.unique(np.linspace(0, count - 1, LINES).round().astype(int)):
                edge = at in (0, count - 1)
                line = (x[at], y[at]) if axis == 0 else (x[:, at], y[:, at])
                axes.plot(*line, color=colour, linewidth=1.6 if edge else 0.6, alpha=1 if edge else 0.7)
        axes.plot(x[0, 0], y[0, 0], marker="o", markersize=4, color=colour)  # where the crop's upper left comes from
        far = (max(height, width)) / 2
        reach[0] = max(min(reach[0], float(x.min()) - 1), -0.5 - far)
        reach[1] = min(max(reach[1], float(x.max()) + 1), width - 0.5 + far)
        reach[2] = min(max(reach[2], float(y.max()) + 1), height - 0.5 + far)
        reach[3] = max(min(reach[3], float(y.min()) - 1), -0.5 - far)
    side = max(reach[1] - reach[0], reach[2] - reach[3])  # square, so that nothing is stretched
    middle = ((reach[0] + reach[1]) / 2, (reach[2] + reach[3]) / 2)
    axes.set(xlim=(middle[0] - side / 2, middle[0] + side / 2), ylim=(middle[1] + side / 2, middle[1] - side / 2))
    axes.set_facecolor("#e6e8ec")


def _pixels(grid: np.ndarray, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """x and y in pixels counted from 0."""
    height, width = size
    return ((grid[..., 0] + 1) * width - 1) / 2, ((grid[..., 1] + 1) * height - 1) / 2


def _checked(images: Any, grids: Any, crops: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    images, grids, crops = pictures("images", images, 4), pictures("grids", grids, 5), pictures("crops", crops, 5)
    fits = len(images) == len(grids) == len(crops) and grids.shape[1] == crops.shape[1] and grids.shape[-1] == 2
    if not fits or crops.shape[2] != images.shape[1] or grids.shape[2:4] != crops.shape[3:]:
        raise ValueError(
            "images (N, C, height, width), grids (N, K, height', width', 2) and crops (N, K, C, height', width') do "
            f"not belong together: {images.shape}, {grids.shape} and {crops.shape}"
        )
    return images, grids, crops


def shown(images: Any, grids: Any, crops: Any, titles: Sequence[str]) -> list[Picture]:
    """A picture for each image; they share one figure."""
    shared_figure, drawings = partial(figure, images, grids, crops, labels=titles), []
    for row, title in enumerate(titles):
        rows = slice(row, row + 1)
        text = partial(terminal, images[rows], grids[rows], crops[rows])
        drawings.append(
            Picture(title, text, partial(view, images[row], grids[row], crops[row], title=title), shared_figure)
        )
    return drawings
