"""What pictures of pictures share: pixels in a terminal, on axes, and in an animation."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._files import replace
from regard.views._shared import BLOCKS, INK, PLAIN, as_array, printable
from regard.views.page import Quantized

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of Okabe and Ito's palette, which colour-blind readers tell apart, and which are seen on black.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#cc79a7")


def pictures(name: str, values: Any, dimensions: int) -> np.ndarray:
    """An array with ``dimensions`` dimensions, none of them empty, of finite numbers."""
    array = as_array(values)
    if array.ndim != dimensions or 0 in array.shape:
        raise ValueError(f"{name} should have {dimensions} dimensions and no empty one, not the shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite; there is no colour for them")
    return array


def packed(values: np.ndarray) -> Quantized:
    """Pictures from 0 to 1 for the interactive page."""
    return Quantized(values.clip(0, 1))


def shaded(image: np.ndarray, blocks: bool | None = None) -> list[str]:
    """An image (height, width) from 0 to 1 as lines of text; two rows share a line, since letters are tall."""
    shades = BLOCKS if (printable(BLOCKS) if blocks is None else blocks) else PLAIN
    rows = np.concatenate([image, image[-1:]]) if len(image) % 2 else image
    levels = (rows.reshape(-1, 2, rows.shape[1]).mean(1).clip(0, 1) * (len(shades) - 1)).round().astype(int)
    return ["".join(shades[level] for level in row) for row in levels]


def beside(panels: Sequence[tuple[str, list[str]]], width: int, gap: int = 2) -> str:
    """Blocks of lines next to each other under their names, as many in a row as fit, the others below."""
    bands: list[list[tuple[str, list[str]]]] = [[]]
    used = 0
    for name, lines in panels:
        wide = max(len(name), *map(len, lines))
        if bands[-1] and used + wide > width:
            bands.append([])
            used = 0
        bands[-1].append((name, lines))
        used += wide + gap
    text: list[str] = []
    for band in bands:
        text += [""] if text else []
        tall = max(len(lines) for _, lines in band)
        columns = [[name, *lines, *[""] * (tall - len(lines))] for name, lines in band]
        widths = [max(map(len, column)) for column in columns]
        for row in zip(*columns):
            text.append((" " * gap).join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())
    return "\n".join(text)


def paint(axes: Axes, image: np.ndarray) -> None:
    """An image (C, height, width) on axes without ticks: 3 channels are colours, others are shown as their mean."""
    shown = image.transpose(1, 2, 0).clip(0, 1) if len(image) == 3 else image.mean(0)
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color="#c9ced6", linewidth=0.8)


def sheet(
    rows: int,
    columns: Sequence[str],
    *,
    side: float,
    tall: float | None = None,
    title: str | None = None,
    labels: Sequence[str] | None = None,
    gap: float = 0.08,
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of rows × columns panels, ``side`` inches wide and ``tall`` inches high, square by default, with names
    above the columns and beside the rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    if labels is not None and len(labels) != rows:
        raise ValueError(f"{rows} pictures are drawn, but {len(labels)} labels came")
    pad, tall = 0.15, side if tall is None else tall
    left = pad + (0.09 * max(map(len, labels)) + 0.08 if labels else 0.0)
    head = (0.24 if title else 0.0) + 0.26
    wide = left + len(columns) * (side + gap) - gap + pad
    width = max(wide, 0.1 * len(title or "") + 2 * pad)
    height = head + rows * (tall + gap) - gap + pad + pad
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    if title:
        style: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "color": INK, "va": "top", "parse_math": False}
        drawing.text(pad / width, 1 - pad / height, title, **style)
    panels: list[list[Axes]] = []
    for row in range(rows):
        bottom = height - pad - head - (row + 1) * (tall + gap) + gap
        panels.append([])
        for column, name in enumerate(columns):
            box = ((left + column * (side + gap)) / width, bottom / height, side / width, tall / height)
            axes = drawing.add_axes(box)
            axes.set(xticks=[], yticks=[])
            if row == 0:
                axes.set_title(name, fontsize=9.5, color=INK, pad=4)
            panels[-1].append(axes)
        if labels:
            middle = (bottom + tall / 2) / height
            drawing.text(pad / width, middle, labels[row], fontsize=9.5, color=INK, va="center", parse_math=False)
    return drawing, panels


def save_animation(frames: Sequence[Figure], path: str | os.PathLike[str], *, seconds: float = 0.5) -> None:
    """Figures of one size as a .gif that runs for ever; the last stays three times as long."""
    from PIL import Image

    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise ValueError(f"{path}: an animation is written as .gif")
    if not frames:
        raise ValueError(f"{path}: an animation needs at least one picture")
    images = []
    for frame in frames:
        data = io.BytesIO()
        frame.savefig(data, format="png", dpi=100)
        images.append(Image.open(data).convert("RGB").quantize(64))
    long = round(1000 * seconds)
    written = io.BytesIO()
    images[0].save(
        written,
        "GIF",
        save_all=True,
        append_images=images[1:],
        loop=0,
        duration=[long] * (len(images) - 1) + [3 * long],
    )
    replace(path, written.getvalue())
