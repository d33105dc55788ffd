"""Curves with intervals over a few named places, such as quality over length, or over a setting of a recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STYLES = (("#0b4f8a", "o"), ("#2e86c9", "s"), ("#7fb8e6", "^"), ("#c0392b", "X"), ("#7d8a99", "D"), ("#2f9e6e", "v"))


def draw(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    names: Sequence[str],
    path: str | os.PathLike[str],
    *,
    along: str,
    metric: str,
    bottom: float | None = None,
) -> None:
    """Write a figure.

    Args:
        curves: title → (value, half of its interval) at each place.
        names: of the places.
        along, metric: what the two axes show.
        bottom: where the vertical axis begins; as the values are if None.
    """
    from regard.views._notebook import Figure
    from regard.views._shared import INK, MUTED, save

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    ordered = all(any(map(str.isdigit, name)) for name in names)  # nothing lies between true and false
    for number, (title, points) in enumerate(curves.items()):
        colour, marker = STYLES[number % len(STYLES)]
        # Side by side, so that the intervals can be told apart.
        places = np.arange(len(points)) + 0.06 * (number - (len(curves) - 1) / 2)
        values, halves = np.array(points, dtype=float).T
        line: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6, "label": title}
        if not ordered:
            line["linestyle"] = "none"
        axes.errorbar(places, values, np.nan_to_num(halves), elinewidth=0.9, capsize=2, **line)
    axes.set_xticks(range(len(names)), names)
    if not ordered:
        axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(along, color=MUTED)
    axes.set_ylabel(metric, color=MUTED)
    if bottom is not None:
        axes.set_ylim(bottom=bottom)
    axes.tick_params(length=2, labelsize=9, colors=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c9ced6")
    axes.grid(axis="y", color="#e8ebef", linewidth=0.8)
    axes.set_axisbelow(True)
    if any(curves):
        axes.legend(frameon=False, fontsize=9, labelcolor=INK, ncols=2, loc="lower left" if bottom == 0 else "best")
    save(figure, path)
