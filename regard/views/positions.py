"""Encodings of positions: the map of their numbers, and how alike any two positions are.

The picture that goes with Vaswani et al. 2017, section 3.5: PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) the cosine.
``figure`` draws any table of encodings, learned ones too, and ``view`` prepares it for the interactive page.

Encodings are (P, D): P positions with D numbers each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._pixels import pictures
from regard.views._shared import INK, LARGEST, MUTED
from regard.views.page import View
from regard.views.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def likeness(values: Any) -> np.ndarray:
    """(P, D) → (P, P): the cosine of the angle between any two positions."""
    array = pictures("encodings", values, 2).astype(np.float64)
    length = np.linalg.norm(array, axis=1, keepdims=True)
    unit = array / np.where(length > 0, length, 1.0)
    return unit @ unit.T


def figure(values: Any, *, title: str | None = None, cmap: str = "regard_signed") -> Figure:
    """The encodings, positions downwards and dimensions to the right, and beside them the likeness of positions.

    Args:
        values: (P, D).
        title: a heading.
        cmap: a diverging colour map, white at 0; the default serves colour-blind readers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    array = pictures("encodings", values, 2)
    drawing = Figure(figsize=(9.6, 4.3 if title else 3.95), dpi=100, layout="constrained")
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(1, 2, width_ratios=(1.25, 1))
    top = float(np.abs(array).max()) or 1.0
    for axes, shown, most, names in (
        (panels[0], array, top, ("dimension", "position", "encoding")),
        (panels[1], likeness(array), 1.0, ("position", "position", "likeness (cosine)")),
    ):
        high, wide = shown.shape
        drawn = axes.imshow(
            shown, vmin=-most, vmax=most, cmap=cmap, aspect="auto" if axes is panels[0] else "equal",
            extent=(0.5, wide + 0.5, high + 0.5, 0.5), interpolation="nearest",
        )  # fmt: skip
        axes.set_xlabel(names[0], fontsize=9.5, color=MUTED)
        axes.set_ylabel(names[1], fontsize=9.5, color=MUTED)
        axes.set_title(names[2], fontsize=10, color=INK, loc="left")
        axes.tick_params(length=2, labelsize=8.5, colors=MUTED)
        axes.spines[:].set_color("#c9ced6")
        legend = drawing.colorbar(drawn, ax=axes, shrink=0.9, pad=0.02, ticks=np.linspace(-most, most, 5))
        legend.outline.set_visible(False)
        legend.ax.tick_params(length=0, labelsize=8.5, colors=MUTED)
        legend.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}".replace("-", "−"))
    if title:
        drawing.suptitle(visible(title), x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK, parse_math=False)
    return drawing


def view(values: Any, *, title: str = "") -> View:
    """For the interactive page."""
    array = pictures("encodings", values, 2)
    if array.size > LARGEST:
        raise ValueError(f"a page takes {LARGEST:,} numbers, and these are {array.size:,}")
    return View("positions", title or "positions", {"values": array})
