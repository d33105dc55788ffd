"""The trace of a Stack RNN: what it read, what it expected, and what it did with its stacks.

The table of Joulin & Mikolov 2015, table 3: a line for each symbol; for each stack the action that was taken and the
element that is on top afterwards (−1 is empty). ``figure`` draws it with matplotlib, ``terminal`` as text, and ``view``
prepares it for the interactive page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._shared import INK, MUTED, as_array
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Trace:
    """T steps of a Stack RNN.

    Attributes:
        symbols: what was read, T.
        next: what came next, T.
        predicted: what was expected next, T.
        probability: (T,), of what came next.
        known: (T,), whether the next symbol was determined.
        weights: (T, stacks, actions): the choice between actions.
        tops: (T, stacks): the element on top after the step.
        actions: their names.
    """

    symbols: Sequence[str]
    next: Sequence[str]
    predicted: Sequence[str]
    probability: Any
    known: Any
    weights: Any
    tops: Any
    actions: Sequence[str]

    def __post_init__(self) -> None:
        time, shape = len(self.symbols), as_array(self.weights).shape
        lengths = {"next": len(self.next), "predicted": len(self.predicted)}
        lengths |= {name: len(as_array(getattr(self, name))) for name in ("probability", "known", "tops")}
        for name, length in lengths.items():
            if length != time:
                raise ValueError(f"{time} symbols were read, but {name} has {length} entries")
        if len(shape) != 3 or shape[0] != time or shape[2] != len(self.actions):
            raise ValueError(f"weights are (T, stacks, actions), here ({time}, …, {len(self.actions)}), not {shape}")
        if as_array(self.tops).shape != shape[:2]:
            raise ValueError(f"tops are (T, stacks), here {shape[:2]}, not {as_array(self.tops).shape}")

    def wrong(self) -> list[int]:
        """The steps after which a determined symbol was not expected."""
        known = as_array(self.known) > 0
        return [t for t in range(len(self.symbols)) if known[t] and self.predicted[t] != self.next[t]]

    def busiest(self, most: int = 3) -> list[int]:
        """The stacks whose actions change the most, in their order."""
        weights = as_array(self.weights)
        changes = weights.std(0).sum(-1) if len(weights) else np.zeros(weights.shape[1])
        return sorted(np.argsort(-changes, kind="stable")[:most].tolist())


def _table(trace: Trace, stacks: Sequence[int] | None) -> tuple[list[str], list[list[str]], list[int], np.ndarray]:
    """Headings, cells, the stacks shown, and the action taken with each, (T, shown)."""
    chosen = trace.busiest() if stacks is None else list(stacks)
    number = as_array(trace.weights).shape[1]
    for stack in chosen:
        if not 0 <= stack < number:
            raise ValueError(f"there is no stack {stack}: they are numbered 0 to {number - 1}")
    best = as_array(trace.weights)[:, chosen].argmax(-1)
    heads = ["read", "next", "expected", "p(next)"]
    heads += [head for stack in chosen for head in (f"stack {stack}", "top")]
    rows = []
    probability, tops, known = as_array(trace.probability), as_array(trace.tops), as_array(trace.known) > 0
    wrong = set(trace.wrong())
    for t, symbol in enumerate(trace.symbols):
        sign = " ✗" if t in wrong else " ✓" if known[t] else ""
        cells = [symbol, trace.next[t], trace.predicted[t] + sign, f"{probability[t]:.2f}"]
        for place, stack in enumerate(chosen):
            cells += [trace.actions[best[t, place]].upper(), f"{tops[t, stack]:.2f}".replace("-", "−")]
        rows.append(cells)
    return heads, rows, chosen, best


def terminal(trace: Trace, stacks: Sequence[int] | None = None) -> str:
    """The trace as text. ``✓`` and ``✗`` mark symbols that were determined. Of many stacks, the three busiest."""
    heads, rows, _, _ = _table(trace, stacks)
    widths = [max(len(line[column]) for line in [heads, *rows]) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [heads, *rows]]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


# Of Okabe and Ito's palette, which colour-blind readers tell apart; pale enough for text.
_COLOURS = ("#bfdcf0", "#f7d9a8", "#c9e6d9", "#ead0e0")
_WRONG = "#d55e00"
_ROW, _WIDE = 0.24, (0.55, 0.55, 0.95, 0.8)  # inches


def figure(trace: Trace, stacks: Sequence[int] | None = None, *, title: str | None = None) -> Figure:
    """The trace as a matplotlib figure: actions are coloured, wrong predictions are red; no display is needed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patches import Rectangle

    from regard.views._notebook import Figure

    heads, rows, chosen, best = _table(trace, stacks)
    if not rows:
        raise ValueError("nothing was read, so there is no trace to draw")
    widths = [*_WIDE, *[0.85, 0.6] * len(chosen)]
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    pad, head = 0.15, 0.4 if title else 0.05
    width, height = max(edges[-1] + 2 * pad, 4.0), (len(rows) + 1) * _ROW + head + 2 * pad
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-pad, width - pad), ylim=(height - pad - head, -pad - head))
    axes.axis("off")
    if title:
        title = shorten(visible(title), int((width - 2 * pad) * 72 / (0.68 * 12)))  # bold letters are so wide
        axes.text(0, -head / 2, title, fontsize=12, fontweight="bold", color=INK, va="center", parse_math=False)
    wrong = set(trace.wrong())
    for line, cells in enumerate([heads, *rows]):
        middle = (line + 0.5) * _ROW
        for column, cell in enumerate(cells):
            place = column - len(_WIDE)
            if line and place >= 0 and place % 2 == 0:
                colour = _COLOURS[best[line - 1, place // 2] % len(_COLOURS)]
                corner = (edges[column], line * _ROW)
                axes.add_patch(
                    Rectangle(corner, widths[column], _ROW, facecolor=colour, edgecolor="white", linewidth=1)
                )
            style: dict[str, Any] = {"fontsize": 9, "color": INK if line else MUTED, "va": "center", "ha": "center"}
            if line and line - 1 in wrong and column == 2:
                style |= {"color": _WRONG, "fontweight": "bold"}
            axes.text(edges[column] + widths[column] / 2, middle, cell, parse_math=False, **style)
    axes.plot([0, edges[-1]], [_ROW, _ROW], color="#c9ced6", linewidth=1)
    return drawing


def view(trace: Trace, stacks: Sequence[int] | None = None, *, title: str = "") -> View:
    """The trace for the interactive page, where it can be stepped."""
    _, rows, chosen, _ = _table(trace, stacks)
    if not rows:
        raise ValueError("nothing was read, so there is no trace to show")
    data = {
        **{name: [str(symbol) for symbol in getattr(trace, name)] for name in ("symbols", "next", "predicted")},
        "probability": Quantized(as_array(trace.probability)),
        "known": (as_array(trace.known) > 0).tolist(),
        "weights": Quantized(as_array(trace.weights)),
        "tops": as_array(trace.tops),
        "actions": list(trace.actions),
        "stacks": chosen,
    }
    return View("stack", title or "".join(data["symbols"]), data)


def picture(trace: Trace, stacks: Sequence[int] | None = None, *, title: str = "") -> Picture:
    """The trace in all its forms; arguments as for :func:`terminal`."""
    return Picture(
        title,
        partial(terminal, trace, stacks),
        partial(view, trace, stacks, title=title),
        partial(figure, trace, stacks, title=title),
    )
