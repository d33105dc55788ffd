"""The hypotheses of a beam below each other, the best first, each with its alignment to the one source.

``figure`` draws them with matplotlib, ``terminal`` writes them with characters; for the interactive page they are
:func:`regard.views.alignment.beam`. A hypothesis is a :class:`regard.views.alignment.Reading` with weights (T, S).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views import alignment
from regard.views._fonts import drawable, wrapped
from regard.views._shared import INK, MUTED, Tokens, as_matrix, darkest
from regard.views.alignment import Reading
from regard.views.text import cells, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 5
"""Hypotheses in a picture."""


def _checked(readings: Sequence[Reading], columns: Tokens) -> list[tuple[np.ndarray, list[str], list[str], str]]:
    """Weights, target words, source words and a heading of each."""
    if not readings:
        raise ValueError("a beam has at least one hypothesis")
    panels = []
    for number, reading in enumerate(readings[:MOST], 1):
        matrix, rows, names = as_matrix(reading.weights, reading.rows, columns)
        if 0 in matrix.shape:
            raise ValueError(f"hypothesis {number} is empty: weights {matrix.shape}")
        score = "" if reading.score is None else f"{reading.score:.2f}".replace("-", "−") + "  "
        text = visible(reading.text or alignment.sentence(rows))
        panels.append((matrix, rows, names, f"{number}.  {score}{text}"))
    widths = {matrix.shape[1] for matrix, *_ in panels}
    if len(widths) > 1:
        raise ValueError(f"hypotheses of one beam look at one source, but these look at {sorted(widths)} words")
    return panels


def terminal(readings: Sequence[Reading], columns: Tokens = None, **options: Any) -> str:
    """Each hypothesis under its score; ``options`` are those of :func:`regard.views.alignment.terminal`."""
    parts = [
        f"{heading}\n{alignment.terminal(matrix, rows, names, **options)}"
        for matrix, rows, names, heading in _checked(readings, columns)
    ]
    return "\n\n".join(parts)


def figure(
    readings: Sequence[Reading], columns: Tokens = None, *, title: str | None = None, cmap: str = "regard"
) -> Figure:
    """At most five hypotheses below each other, the source above all of them.

    Args:
        readings: the best first.
        columns: S source tokens.
        title: a heading.
        cmap: a sequential colour map; the default grows evenly darker and serves colour-blind readers.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    panels = _checked(readings, columns)
    source = [shorten(name, 18) for name in panels[0][2]]
    targets = [[shorten(name, 18) for name in rows] for _, rows, _, _ in panels]
    heading = visible(title) if title else ""
    fonts, (source, (heading, *headings), *targets) = drawable(
        source, [heading, *(text for *_, text in panels)], *targets
    )
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}

    wide = len(source)
    cell = min(max(6 / wide, 0.16), 0.27)
    size = min(max(36 * cell, 7.0), 10.0)
    letter = 0.62 * size / 72
    left = 0.25 + letter * max(cells(name) for rows in targets for name in rows)
    over = 0.2 + letter * max(map(cells, source)) * 0.72
    width = max(left + wide * cell + letter * max(map(cells, source)) * 0.72 + 0.3, 4.6)
    heading = wrapped(heading, width - 0.24, 12) if heading else ""
    head = 0.12 + (0.21 * (heading.count("\n") + 1) + 0.12 if heading else 0.0)
    headings = [wrapped(text, width - 0.24, 9.5) for text in headings]
    gaps = [0.28 + 0.16 * (text.count("\n") + 1) for text in headings]  # above each, for its words
    height = head + over + sum(cell * len(rows) + gap for rows, gap in zip(targets, gaps)) + 0.15
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    if heading:
        style: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "color": INK, "va": "top"}
        drawing.text(0.12 / width, 1 - 0.12 / height, heading, **style, **plain)
    top = max(darkest(matrix) for matrix, *_ in panels)
    y = height - head
    for number, ((matrix, *_), rows, text, gap) in enumerate(zip(panels, targets, headings, gaps)):
        drawing.text(0.12 / width, (y - 0.16) / height, text, fontsize=9.5, color=INK, va="top", **plain)
        y -= gap if number else gap + over
        tall = cell * len(rows)
        axes = drawing.add_axes((left / width, (y - tall) / height, wide * cell / width, tall / height))
        axes.pcolormesh(matrix, vmin=0, vmax=top, cmap=cmap, edgecolors="white", linewidth=0.6)
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, pad=3, top=True, bottom=False, labeltop=number == 0, labelbottom=False, colors=INK)
        axes.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=size, **plain)
        axes.set_xticks([])
        if number == 0:
            axes.set_xticks(np.arange(wide) + 0.5, source, fontsize=size, **plain)
            for label in axes.get_xticklabels():
                label.set(rotation=45, rotation_mode="anchor", ha="left", va="baseline", color=MUTED)
        y -= tall
    return drawing
