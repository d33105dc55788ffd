"""A story with where each hop looked: the table of Sukhbaatar et al. 2015 (arXiv:1503.08895), figure 2.

Rows are sentences, the oldest first; columns are hops; the darker, the more. ``terminal`` writes the table with
characters, ``figure`` draws it with matplotlib, and ``view`` prepares it for the page of :mod:`regard.views.page`.

Weights are (K, S) tensors or arrays: K hops over S sentences.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable, quiet, wrapped
from regard.views._shared import BLOCKS, INK, MUTED, PLAIN, as_array, coloured, printable, shade
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import ELLIPSIS, cells, labels, pad, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.axes import Axis
    from regard.views.between import Side

_HOP = 7  # cells of a column of weights: "0.98 ██"
_SUPPORT = "support"


def terminal(
    story: Sequence[str],
    weights: Any,
    *,
    question: str = "",
    prediction: str = "",
    answer: str | None = None,
    support: Collection[int] = (),
    width: int | None = None,
    colour: bool | None = None,
    blocks: bool | None = None,
) -> str:
    """The table as text.

    Args:
        story: S sentences, the oldest first.
        weights: (K, S).
        question: the question.
        prediction: what the system answered.
        answer: the right answer, if it is known.
        support: numbers of the sentences, from 0, that lead to the answer; without any there is no such column.
        width: cells in a line; the terminal's if None.
        colour: colour the shades; if None, when stdout is a terminal and NO_COLOR is not set.
        blocks: shade with ``░▒▓█`` instead of ``.:+#``; if None, when stdout can print them.
    """
    matrix, sentences = _checked(story, weights, support)
    width = max(40, shutil.get_terminal_size().columns if width is None else width)
    colour = coloured() if colour is None else colour
    shades = BLOCKS if (printable(BLOCKS) if blocks is None else blocks) else PLAIN
    beside = (len(_SUPPORT) + 2 if support else 0) + (_HOP + 2) * len(matrix)
    room = min(max([5, *map(cells, sentences)]), max(12, width - beside))
    sentences = [shorten(sentence, room) for sentence in sentences]
    head = pad("story", room) + (f"  {_SUPPORT}" if support else "")
    lines = [head + "".join(f"  {pad(f'hop {hop}', _HOP)}" for hop in range(1, len(matrix) + 1))]
    for place, sentence in enumerate(sentences):
        marked = f"  {pad('yes' if place in support else '', len(_SUPPORT))}" if support else ""
        looked = "".join(f"  {weight:4.2f} {shade(weight, 2, shades, colour)}" for weight in matrix[:, place])
        lines.append(pad(sentence, room) + marked + looked)
    lines += [shorten(line, width) for line in _below(question, prediction, answer)]
    text = "\n".join(line.rstrip() for line in lines)
    return text if shades == BLOCKS else text.translate({ord(ELLIPSIS): "~"})


def figure(
    story: Sequence[str],
    weights: Any,
    *,
    question: str = "",
    prediction: str = "",
    answer: str | None = None,
    support: Collection[int] = (),
    title: str | None = None,
    cmap: str = "regard",
) -> Figure:
    """The table as a matplotlib figure, large enough for every sentence; arguments as for :func:`terminal`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    matrix, sentences = _checked(story, weights, support)
    sentences = [shorten(sentence, 70) for sentence in sentences]
    below = _below(question, prediction, answer)
    fonts, (sentences, below, (heading,)) = drawable(sentences, below, [title or ""])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    hops, count = matrix.shape
    cell, high, inset = 0.72, 0.3, 0.15  # inches
    drawing = Figure(dpi=100)
    renderer = FigureCanvasAgg(drawing).get_renderer()

    def measure(texts: Sequence[str], size: float, weight: str = "normal") -> tuple[float, float]:
        """The width of the widest and the height of the tallest, in inches."""
        drawn = [drawing.text(0, 0, text or " ", fontsize=size, fontweight=weight, **plain) for text in texts]
        with quiet():
            boxes = [drawn_text.get_window_extent(renderer) for drawn_text in drawn]
        for drawn_text in drawn:
            drawn_text.remove()
        return max(box.width for box in boxes) / drawing.dpi, max(box.height for box in boxes) / drawing.dpi

    beside = measure(sentences, 10, "bold")[0] + 0.2
    marks = 0.75 if support else 0.0
    width = max(inset + beside + marks + hops * cell + inset, measure(below, 10.5)[0] + 2 * inset if below else 0.0)
    text = wrapped(heading, width - 2 * inset, 12) if heading else ""
    head = measure([text], 12, "bold")[1] + 0.15 if heading else 0.0
    foot = inset + 0.26 * len(below) + (0.1 if below else 0.0)
    height = foot + count * high + 0.32 + head + inset
    drawing.set_size_inches(width, height)

    def write(x: float, y: float, text: str, **style: Any) -> None:
        style = {"fontsize": 10, "color": INK, "va": "center", **style}
        drawing.text(x / width, y / height, text, **plain, **style)

    left, top = inset + beside + marks, foot + count * high
    axes = drawing.add_axes((left / width, foot / height, hops * cell / width, count * high / height))
    axes.pcolormesh(matrix.T.clip(0, 1), vmin=0, vmax=1, cmap=cmap, edgecolors="white", linewidth=1.5)
    axes.invert_yaxis()
    axes.set_axis_off()
    for hop in range(hops):
        write(left + (hop + 0.5) * cell, top + 0.16, f"hop {hop + 1}", ha="center", fontsize=9.5, color=MUTED)
        for place, weight in enumerate(matrix[hop]):
            ink = "white" if weight > 0.6 else INK
            write(left + (hop + 0.5) * cell, top - (place + 0.5) * high, f"{weight:.2f}", ha="center", color=ink)
    if support:
        write(left - marks / 2, top + 0.16, _SUPPORT, ha="center", fontsize=9.5, color=MUTED)
    for place, sentence in enumerate(sentences):
        y = top - (place + 0.5) * high
        write(inset, y, sentence, ha="left", fontweight="bold" if place in support else "normal")
        if place in support:
            write(left - marks / 2, y, "yes", ha="center", fontweight="bold")
    for place, line in enumerate(below):
        write(inset, foot - 0.1 - 0.26 * (place + 0.5), line, ha="left", fontsize=10.5)
    if heading:
        write(inset, height - inset, text, ha="left", va="top", fontsize=12, fontweight="bold", linespacing=1.25)
    return drawing


def view(
    story: Sequence[str],
    weights: Any,
    *,
    title: str = "",
    text: str = "",
    answer: str | None = None,
    support: Collection[int] = (),
) -> View:
    """The table for the interactive page.

    Args:
        title: the question, which is also its name in the page's list.
        text: what the system answered.
        answer: the right answer, if it is known.
        support: as in :func:`terminal`.
    """
    matrix, _ = _checked(story, weights, support)
    answers = {"question": title, "prediction": text, "answer": answer, "support": sorted(support)}
    return View("hops", title or "story", {"story": list(story), "weights": Quantized(matrix), **answers})


def _checked(story: Sequence[str], weights: Any, support: Collection[int]) -> tuple[np.ndarray, list[str]]:
    matrix = as_array(weights)
    if matrix.ndim != 2 or matrix.shape[1] != len(story) or 0 in matrix.shape:
        raise ValueError(f"weights of a table are (hops, sentences), not {matrix.shape} for {len(story)} sentences")
    if not np.isfinite(matrix).all():
        raise ValueError("weights hold NaN or infinity; there is no colour for that")
    if outside := [place for place in support if not 0 <= place < len(story)]:
        raise ValueError(f"support names sentence {outside[0]} of {len(story)}; they count from 0")
    return matrix, labels(story)


def _below(question: str, prediction: str, answer: str | None) -> list[str]:
    if not question:
        return []
    judged = "" if answer is None else "   right" if answer == prediction else f"   wrong, it is {answer}"
    return [question, f"→ {prediction}{judged}"]


def picture(
    story: Sequence[str],
    weights: Any,
    *,
    question: str = "",
    prediction: str = "",
    answer: str | None = None,
    support: Collection[int] = (),
    title: str = "",
) -> Picture:
    """The table in all its forms; arguments as for :func:`terminal`, ``title`` above a figure."""
    options: dict[str, Any] = dict(question=question, prediction=prediction, answer=answer, support=support)
    return Picture(
        question or "story",
        partial(terminal, story, weights, **options),
        partial(view, story, weights, title=question, text=prediction, answer=answer, support=support),
        partial(figure, story, weights, title=title, **options),
    )


def between(sides: Sequence[Side], columns: Axis, *, title: str = "") -> Picture:
    """Weights of hops over sentences; see :mod:`regard.views.between`."""
    return picture(columns.labels, sides[0].weights, title=title)
