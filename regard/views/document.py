"""A document whose words are shaded by how much they were looked at: Hermann et al. 2015 (arXiv:1506.03340), figure 3.

``terminal`` writes it with characters, ``figure`` draws it with matplotlib, and ``view`` prepares it for the page of
:mod:`regard.views.page`. Weights are (S,) for one look, or (L, S) for several, as the Impatient Reader has one for each
word of its question; then each line of the document has one row of shading for each look.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views._fonts import drawable, quiet
from regard.views._shared import (
    BLOCKS,
    INK,
    MUTED,
    PLAIN,
    Tokens,
    as_array,
    coloured,
    darkest,
    legend_of,
    names_of,
    printable,
    shade,
)
from regard.views.page import Quantized, View
from regard.views.picture import Picture
from regard.views.text import ELLIPSIS, cells, labels, pad, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST = 14  # cells of the name of a look


def terminal(
    words: Sequence[str],
    weights: Any,
    *,
    rows: Tokens = None,
    blanks: Sequence[bool] | None = None,
    marked: Collection[int] = (),
    question: str = "",
    prediction: str = "",
    answers: Sequence[str] = (),
    width: int | None = None,
    colour: bool | None = None,
    blocks: bool | None = None,
) -> str:
    """The document as text, under each line of it a line of shades for each look that has any there.

    Args:
        words: S words.
        weights: (S,) or (L, S).
        rows: names of the L looks; one look needs none.
        blanks: for each word, whether a blank stands before it; before all, if None.
        marked: numbers of the words, from 0, that are the answer; they stand in brackets.
        question: the question.
        prediction: what the system answered.
        answers: those that are right, if they are known.
        width: cells in a line; the terminal's if None.
        colour: colour the shades; if None, when stdout is a terminal and NO_COLOR is not set.
        blocks: shade with ``░▒▓█`` instead of ``.:+#``; if None, when stdout can print them.
    """
    matrix, shown, names = _checked(words, weights, rows, blanks, marked)
    width = max(24, shutil.get_terminal_size().columns if width is None else width)
    colour = coloured() if colour is None else colour
    shades = BLOCKS if (printable(BLOCKS) if blocks is None else blocks) else PLAIN
    scale = darkest(matrix)
    names = [shorten(name, _LONGEST) for name in names] if len(matrix) > 1 else [""] * len(matrix)
    margin = max(map(cells, names), default=0)
    margin += 1 if margin else 0
    bracketed = _bracketed(shown, marked)
    lines: list[str] = []
    for line in wrap([cells(word) for word in bracketed], blanks, width - margin, 1):
        text, below = " " * margin, [pad(name, margin) for name in names]
        used = 0
        for place, start in line:
            gap, word = " " * (int(start) - used), bracketed[place]
            text += gap + word
            for look, row in enumerate(matrix):
                below[look] += gap + shade(row[place] / scale, cells(word), shades, colour)
            used = int(start) + cells(word)
        lines.append(text)
        # A look that sees nothing in this line is not written.
        attended = [bool((row[[place for place, _ in line]] >= 0.05 * scale).any()) for row in matrix]
        lines += [row for row, any_seen in zip(below, attended) if any_seen]
    legend, _ = legend_of(scale, shades, colour, width)
    lines += [legend, *(shorten(line, width) for line in _below(question, prediction, answers))]
    text = "\n".join(line.rstrip() for line in lines)
    return text if shades == BLOCKS else text.translate({ord(ELLIPSIS): "~"})


def figure(
    words: Sequence[str],
    weights: Any,
    *,
    rows: Tokens = None,
    blanks: Sequence[bool] | None = None,
    marked: Collection[int] = (),
    question: str = "",
    prediction: str = "",
    answers: Sequence[str] = (),
    title: str | None = None,
    inches: float = 8.0,
    cmap: str = "regard",
) -> Figure:
    """The document as a matplotlib figure, ``inches`` wide and as high as it needs; other arguments as for
    :func:`terminal`. One look shades the words themselves, several make strips under each line."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patches import FancyBboxPatch, Rectangle

    from regard.views._notebook import Figure

    matrix, shown, names = _checked(words, weights, rows, blanks, marked)
    below = _below(question, prediction, answers)
    fonts, (shown, names, below, (heading,)) = drawable(shown, names, below, [title or ""])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}
    scale, shade = darkest(matrix), colormaps[cmap]
    drawing = Figure(dpi=100)
    renderer = FigureCanvasAgg(drawing).get_renderer()

    @cache
    def wide(text: str, size: float, weight: str = "normal") -> float:
        """In inches; measured on large letters, whose widths are not rounded to pixels."""
        drawn = drawing.text(0, 0, text, fontsize=8 * size, fontweight=weight, **plain)
        with quiet():
            width = drawn.get_window_extent(renderer).width / (8 * drawing.dpi)
        drawn.remove()
        return width

    inset, size, blank, high, strip = 0.2, 11.0, 0.07, 0.27, 0.13  # inches, but for the size of letters
    several = len(matrix) > 1
    names = [shorten(name, _LONGEST) for name in names]
    margin = max(wide(name, 7.5) for name in names) + 0.1 if several else 0.0
    bold = set(marked)
    widths = [wide(word, size, "bold" if place in bold else "normal") + 0.02 for place, word in enumerate(shown)]
    laid = wrap(widths, blanks, inches - 2 * inset - margin, blank)
    step = high + (strip * len(matrix) + 0.12 if several else 0.06)
    head = 0.35 if heading else 0.0
    wrapped = [piece for line in below for piece in _folded(line, inches - 2 * inset, wide, size)]
    foot = 0.42 + 0.26 * len(wrapped)
    height = inset + head + step * len(laid) + foot + inset
    drawing.set_size_inches(inches, height)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, inches), ylim=(height, 0))
    axes.set_axis_off()

    def write(x: float, y: float, text: str, **style: Any) -> None:
        axes.text(x, y, text, **plain, **{"fontsize": size, "color": INK, "va": "center", **style})

    if heading:
        write(inset, inset + 0.1, heading, fontsize=12, fontweight="bold")
    for number, line in enumerate(laid):
        top = inset + head + number * step
        for place, start in line:
            x, box = inset + margin + start, widths[place]
            weight = 0.0 if several else float(matrix[0, place]) / scale
            if weight > 0.01:
                axes.add_patch(Rectangle((x - 0.02, top), box + 0.02, high, color=shade(weight), linewidth=0))
            ink = "white" if weight > 0.6 else INK
            write(x, top + high / 2 + 0.005, shown[place], color=ink, fontweight="bold" if place in bold else "normal")
            for look in range(len(matrix) if several else 0):
                y, value = top + high + 0.02 + look * strip, float(matrix[look, place]) / scale
                axes.add_patch(Rectangle((x, y), box, strip - 0.02, color=shade(max(value, 0.03)), linewidth=0))
        for first, last in _runs([place for place, _ in line if place in bold]):
            starts = dict(line)
            x, box = inset + margin + starts[first], starts[last] + widths[last] - starts[first]
            style: dict[str, Any] = {"boxstyle": "round,pad=0.03", "fill": False, "edgecolor": INK, "linewidth": 0.9}
            axes.add_patch(FancyBboxPatch((x, top + 0.03), box - 0.02, high - 0.06, **style))
        for look, name in enumerate(names if several else []):
            y = top + high + 0.01 + (look + 0.5) * strip
            write(inset + margin - 0.08, y, name, ha="right", fontsize=7.5, color=MUTED)
    y = inset + head + step * len(laid) + 0.16
    for number, value in enumerate(np.linspace(0, 1, 60)):
        axes.add_patch(Rectangle((inset + number * 0.02, y - 0.06), 0.021, 0.12, color=shade(value), linewidth=0))
    write(inset + 1.26, y, f"weight 0 to {scale:.2g}", fontsize=8.5, color=MUTED)
    for number, text in enumerate(wrapped):
        write(inset, y + 0.28 + 0.26 * number, text)
    return drawing


def view(
    words: Sequence[str],
    weights: Any,
    *,
    rows: Tokens = None,
    blanks: Sequence[bool] | None = None,
    marked: Collection[int] = (),
    question: str = "",
    prediction: str = "",
    answers: Sequence[str] = (),
    title: str = "",
) -> View:
    """The same for the interactive page; arguments as for :func:`terminal`."""
    matrix, _, names = _checked(words, weights, rows, blanks, marked)
    data = {
        "words": [str(word) for word in words],
        "weights": Quantized(matrix),
        "rows": names,
        "blanks": [True] * len(words) if blanks is None else [bool(blank) for blank in blanks],
        "marked": sorted(marked),
        "question": question,
        "text": prediction,
        "answers": list(answers),
    }
    return View("document", title or question or " ".join(words[:8]), data)


def wrap(
    widths: Sequence[float], blanks: Sequence[bool] | None, room: float, blank: float
) -> list[list[tuple[int, float]]]:
    """Words of these widths in lines of at most ``room``: for each line, numbers of words and where they begin. Words
    without a blank between them stay together, if they fit."""
    lines: list[list[tuple[int, float]]] = [[]]
    used: float = 0
    place = 0
    while place < len(widths):
        after = place + 1
        while blanks is not None and after < len(widths) and not blanks[after]:
            after += 1
        if sum(widths[place:after]) > room:
            after = place + 1  # nothing keeps such a chain together
        gap = blank if lines[-1] and (blanks is None or blanks[place]) else 0
        if lines[-1] and used + gap + sum(widths[place:after]) > room:
            lines.append([])
            used = gap = 0
        used += gap
        for number in range(place, after):
            lines[-1].append((number, used))
            used += widths[number]
        place = after
    return lines if widths else []


def _bracketed(words: Sequence[str], marked: Collection[int]) -> list[str]:
    """Words, those that are marked between brackets, one pair around a run of them."""
    marked_words = []
    for place, word in enumerate(words):
        before = "[" if place in marked and place - 1 not in marked else ""
        behind = "]" if place in marked and place + 1 not in marked else ""
        marked_words.append(before + word + behind)
    return marked_words


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of numbers that follow each other."""
    starts = [place for place in places if place - 1 not in places]
    return list(zip(starts, (place for place in places if place + 1 not in places)))


def _folded(text: str, room: float, wide: Callable[[str, float], float], size: float) -> list[str]:
    """A text in lines of at most ``room`` inches."""
    words = text.split(" ")
    lines = wrap([wide(word, size) for word in words], None, room, 0.07)
    return [" ".join(words[place] for place, _ in line) for line in lines]


def _checked(
    words: Sequence[str], weights: Any, rows: Tokens, blanks: Sequence[bool] | None, marked: Collection[int]
) -> tuple[np.ndarray, list[str], list[str]]:
    """Weights (L, S), the words made visible, and the names of the looks."""
    matrix = as_array(weights)
    matrix = matrix[None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.shape[1] != len(words) or 0 in matrix.shape:
        raise ValueError(
            f"weights of a document are (words,) or (looks, words), not {matrix.shape} for {len(words)} words"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("weights hold NaN or infinity; there is no colour for that")
    if blanks is not None and len(blanks) != len(words):
        raise ValueError(f"{len(blanks)} blanks came for {len(words)} words")
    if outside := [place for place in marked if not 0 <= place < len(words)]:
        raise ValueError(f"word {outside[0]} is marked, of {len(words)}; they count from 0")
    names = names_of(rows, len(matrix), "rows", matrix.shape)
    return matrix, labels(words), labels(names)


def _below(question: str, prediction: str, answers: Sequence[str]) -> list[str]:
    if not question:
        return []
    right = "" if not answers else "   right" if prediction in answers else f"   wrong, it is {answers[0]}"
    return [question, f"→ {prediction}{right}"]


def picture(words: Sequence[str], weights: Any, *, title: str = "", **options: Any) -> Picture:
    """The document in all its forms; arguments as for :func:`terminal`."""
    return Picture(
        title or options.get("question", ""),
        partial(terminal, words, weights, **options),
        partial(view, words, weights, title=title, **options),
        partial(figure, words, weights, **options),
    )
