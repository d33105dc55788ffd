"""All layers and heads of an attention, and all that one word looks at.

``figure`` draws a small heat map for each head, ``word`` the lines from one word to those it looks at, in the colours
of the heads (the pictures of Vaswani et al. 2017, figures 3 to 5), and ``terminal`` writes a row of shades for each
head. ``view`` prepares them for the page of :mod:`regard.views.page`.

Weights are (L, H, T, S), or (H, T, S) for one layer, as tensors or arrays. ``rows`` are T queries, ``columns`` S keys;
in self-attention they are the same words, and one list does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._lazy import nearest
from regard.views import alignment
from regard.views._fonts import drawable, wrapped
from regard.views._shared import INK, MUTED, Tokens, as_array, darkest, names_of
from regard.views.alignment import Reading
from regard.views.page import View
from regard.views.picture import Picture
from regard.views.text import cells, labels, shorten, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b3a800", "#7f7f7f")
"""Of heads, told apart by colour-blind readers (Okabe and Ito, its yellow darker for white paper)."""
NAMED = 24
"""Words on an axis of a small heat map; of more, none is written."""
_LINES = 34  # words in a picture of one word's lines


def _checked(weights: Any, rows: Tokens, columns: Tokens) -> tuple[np.ndarray, list[str], list[str]]:
    """Weights (L, H, T, S) and the tokens of both axes."""
    array = as_array(weights)
    array = array[None] if array.ndim == 3 else array
    if array.ndim != 4 or 0 in array.shape:
        raise ValueError(
            f"weights of heads are (L, H, T, S) or (H, T, S), none of them 0, not {as_array(weights).shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError("weights hold NaN or infinity; there is no colour for that")
    if columns is None and rows is not None and array.shape[-1] == array.shape[-2]:
        columns = rows
    high, wide = array.shape[-2:]
    return array, names_of(rows, high, "rows", array.shape), names_of(columns, wide, "columns", array.shape)


def _layers(layers: Sequence[str] | None, count: int) -> list[str]:
    if layers is not None and len(layers) != count:
        raise ValueError(f"there are {count} layers, but {len(layers)} names came")
    return [f"layer {number}" for number in range(1, count + 1)] if layers is None else labels(layers)


def spread(weights: Any) -> np.ndarray:
    """(…, T, S) → (…): the effective number of words that a query attends to: the exponential of the mean
    entropy of the rows that have any weight."""
    array = as_array(weights).astype(np.float64)
    total = array.sum(-1)
    share = array / np.where(total > 0, total, 1.0)[..., None]
    entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(-1)
    return np.exp(entropy.sum(-1) / np.maximum((total > 0).sum(-1), 1))


def place_of(word: str | int, tokens: Sequence[str]) -> int:
    """The index of a word, from its text (first occurrence) or its number from 0."""
    if isinstance(word, int):
        if not 0 <= word < len(tokens):
            raise ValueError(f"there is no word {word}: they are 0 to {len(tokens) - 1}")
        return word
    if word not in tokens:
        raise ValueError(f"no word is {word!r}: {nearest(word, set(tokens))}")
    return list(tokens).index(word)


def terminal(
    weights: Any, rows: Tokens = None, columns: Tokens = None, *, word: str | int | None = None, **options: Any
) -> str:
    """As text: where ``word`` looks, a row for each head; without one, the mean of the heads of the last layer.

    Args:
        weights: (L, H, T, S) or (H, T, S).
        rows: T queries.
        columns: S keys; the queries, if None and as many.
        word: one of the rows, or its number from 0.
        options: those of :func:`regard.views.alignment.terminal`.
    """
    array, row_names, column_names = _checked(weights, rows, columns)
    if word is None:
        return alignment.terminal(array[-1].mean(0), row_names, column_names, **options)
    place = place_of(word, row_names)
    count, heads = array.shape[:2]
    names = [f"{layer + 1}.{head + 1}" for layer in range(count) for head in range(heads)]
    return alignment.terminal(array[:, :, place].reshape(count * heads, -1), names, column_names, **options)


def figure(
    weights: Any,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    layers: Sequence[str] | None = None,
    title: str | None = None,
    cmap: str = "regard",
) -> Figure:
    """A small heat map for each head, layers downwards and heads to the right, as a matplotlib figure.

    Args:
        weights: (L, H, T, S) or (H, T, S).
        rows: T queries, downwards.
        columns: S keys, to the right; the queries, if None and as many.
        layers: names of the layers.
        title: a heading.
        cmap: a sequential colour map; the default grows evenly darker and serves colour-blind readers.

    Below each is :func:`spread`, the effective number of words. Words are written at the left and below, where there
    are at most 24.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from regard.views._notebook import Figure

    array, row_names, column_names = _checked(weights, rows, columns)
    count, heads, high, wide = array.shape
    layer_names = [shorten(name, 16) for name in _layers(layers, count)]
    texts = [[shorten(name, 14) for name in labels(names)] for names in (row_names, column_names)]
    heading = visible(title) if title else ""
    fonts, (left_names, below_names, layer_names, (heading,)) = drawable(*texts, layer_names, [heading])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}

    written = high <= NAMED, wide <= NAMED
    longest = 2.0 if any(written) else 1.25  # inches of the longer side of a panel
    longest = max(min(longest, 15 / max(heads, count)), 0.45)
    cell = longest / max(high, wide)
    tall, broad = max(high * cell, 0.25), max(wide * cell, 0.25)
    small = min(max(60 * cell, 4.5), 8.5)  # points of a word
    across, down = 0.12, 0.3  # between panels; below each stands a number
    left = 0.4 + (0.62 * small / 72 * max(map(cells, left_names)) if written[0] else 0.0)
    below = 0.12 + (0.62 * small / 72 * max(map(cells, below_names)) if written[1] else 0.0)
    head = 0.34 + (0.36 if heading else 0.0)
    right = 0.85
    width = max(left + heads * (broad + across) - across + right, 0.1 * len(heading) + 0.3)
    height = head + count * (tall + down) + below + 0.1
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    if heading:
        style: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "color": INK, "va": "top"}
        drawing.text(0.12 / width, 1 - 0.12 / height, heading, **style, **plain)
    top, spreads = darkest(array), spread(array)
    for layer in range(count):
        bottom = height - head - (layer + 1) * (tall + down) + down
        middle = (bottom + tall / 2) / height
        if count > 1:
            name: dict[str, Any] = {"rotation": 90, "ha": "left", "va": "center", "fontsize": 9, "color": MUTED}
            drawing.text(0.12 / width, middle, layer_names[layer], **name, **plain)
        for number in range(heads):
            x = left + number * (broad + across)
            axes = drawing.add_axes((x / width, bottom / height, broad / width, tall / height))
            shown = axes.imshow(
                array[layer, number], vmin=0, vmax=top, cmap=cmap, aspect="auto", interpolation="nearest"
            )
            axes.spines[:].set(color="#c9ced6", linewidth=0.7)
            axes.set(xticks=[], yticks=[])
            axes.tick_params(length=0, pad=2, colors=INK)
            if layer == 0 and heads > 1:
                axes.set_title(f"head {number + 1}", fontsize=9, color=MUTED, pad=4)
            if number == 0 and written[0]:
                axes.set_yticks(range(high), left_names, fontsize=small, **plain)
            if layer == count - 1 and written[1]:
                axes.tick_params(pad=14)
                axes.set_xticks(range(wide), below_names, fontsize=small, rotation=90, **plain)
                axes.tick_params(axis="y", pad=2)
            label = f"{spreads[layer, number]:.1f}"
            axes.text(
                0.5, -0.03 / tall, label, transform=axes.transAxes, ha="center", va="top", fontsize=7.5, color=MUTED
            )
    bar = min(count * (tall + down) - down, 2.4)
    beside = drawing.add_axes(
        (
            (left + heads * (broad + across) - across + 0.18) / width,
            1 - (head + bar) / height,
            0.12 / width,
            bar / height,
        )
    )
    legend = drawing.colorbar(shown, cax=beside, ticks=np.linspace(0, top, 5 if bar > 1.4 else 3))
    legend.outline.set_visible(False)
    beside.tick_params(length=0, labelsize=8.5, colors=MUTED)
    beside.yaxis.set_major_formatter(lambda weight, _: f"{100 * weight:.{0 if top >= 0.2 else 1}f} %")
    return drawing


def word(
    weights: Any,
    which: str | int,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    layer: int | None = None,
    title: str | None = None,
) -> Figure:
    """Where one word looks: the words twice, lines from it to all, in the colours of the heads.

    Args:
        weights: (L, H, T, S) or (H, T, S).
        which: one of the rows, or its number from 0.
        rows: T queries, at the left.
        columns: S keys, at the right; the queries, if None and as many.
        layer: which, from 1; the last if None.
        title: a heading.

    Of a text of more than 34 words, the words around ``which`` and the most looked at are drawn.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    from regard.views._notebook import Figure

    array, row_names, column_names = _checked(weights, rows, columns)
    place = place_of(which, row_names)
    if layer is not None and not 1 <= layer <= len(array):
        raise ValueError(f"there is no layer {layer}: layers are 1 to {len(array)}")
    looks = array[-1 if layer is None else layer - 1, :, place]  # (H, S)
    start = min(max(0, place - _LINES // 2), max(0, len(row_names) - _LINES))
    near = list(range(start, min(start + _LINES, len(row_names))))
    far = sorted(np.argsort(-looks.sum(0), kind="stable")[:_LINES].tolist())
    texts = [
        [shorten(visible(names[i]), 22) for i in chosen] for names, chosen in ((row_names, near), (column_names, far))
    ]
    heading = visible(title) if title else ""
    fonts, (left_names, right_names, (heading,)) = drawable(*texts, [heading])
    plain: dict[str, Any] = {"fontfamily": fonts, "parse_math": False}

    line, size, between, square = 0.25, 10.0, 2.1, 0.15  # inches, points
    sides = [0.095 * max(map(cells, names)) + 0.15 for names in (left_names, right_names)]
    heads = len(looks)
    room = square * heads + 0.1
    below = 0.2 + 0.24 * -(-heads // 6)
    tall = line * max(len(near), len(far))
    width = max(sides[0] + between + room + sides[1] + 0.3, 5.0)
    between = width - sides[0] - room - sides[1] - 0.3
    heading = wrapped(heading, width - 0.24, 12)
    head = 0.22 + 0.21 * (heading.count("\n") + 1) if heading else 0.1
    height = head + tall + below + 0.1
    drawing = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(drawing)
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    if heading:
        axes.text(0.12, 0.12, heading, fontsize=12, fontweight="bold", color=INK, va="top", **plain)

    def height_of(index: int, count: int) -> float:
        return head + (tall - line * count) / 2 + line * (index + 0.5)

    left, right = 0.15 + sides[0], 0.15 + sides[0] + between
    for index, (number, name) in enumerate(zip(near, left_names)):
        own = number == place
        style: dict[str, Any] = {"fontsize": size, "fontweight": "bold" if own else "normal", "ha": "right"}
        axes.text(
            left - 0.06, height_of(index, len(near)), name, color=INK if own else MUTED, va="center", **style, **plain
        )
    begin = height_of(near.index(place), len(near))
    top = darkest(looks)
    for index, (number, name) in enumerate(zip(far, right_names)):
        y, strong = height_of(index, len(far)), looks[:, number].max() >= 0.2 * top
        axes.text(right + room, y, name, fontsize=size, color=INK if strong else MUTED, va="center", **plain)
        for h in range(heads):
            share = float(looks[h, number]) / top
            colour = COLOURS[h % len(COLOURS)]
            axes.plot((left, right), (begin, y), color=colour, linewidth=0.5 + 2.6 * share, alpha=min(1.0, share**0.8))
            corner = (right + 0.05 + square * h, y - square / 2)
            axes.add_patch(Rectangle(corner, square, square, facecolor=colour, alpha=min(1.0, share), linewidth=0))
    marks = [Line2D([], [], color=COLOURS[h % len(COLOURS)], linewidth=4) for h in range(heads)]
    drawing.legend(
        marks, [f"head {h + 1}" for h in range(heads)], loc="lower left", bbox_to_anchor=(0.1 / width, 0),
        frameon=False, ncols=min(heads, 6), fontsize=8.5, labelcolor=MUTED, handlelength=1.0,
        columnspacing=1.0, borderaxespad=0.3,
    )  # fmt: skip
    return drawing


def view(
    weights: Any,
    rows: Tokens = None,
    columns: Tokens = None,
    *,
    layers: Sequence[str] | None = None,
    word: str | int | None = None,
    title: str = "",
) -> View:
    """For the interactive page, with ``word`` in focus at first."""
    array, row_names, column_names = _checked(weights, rows, columns)
    place = None if word is None else place_of(word, row_names)
    all_heads = alignment.beam([Reading(row_names, array)], column_names, title=title, layers=layers)
    return View("heads", all_heads.title, {**all_heads.data, "word": place})


_figure_of_word = word


def picture(
    weights: Any, words: Sequence[str], *, word: str | None = None, layer: int | None = None, title: str = ""
) -> Picture:
    """All heads of a sentence's self-attention or, with ``word``, what that word looks at (drawn in ``layer``)."""
    if word is not None:
        place_of(word, words)  # an error should come now
    drawn = partial(figure, weights, words, title=title)
    if word is not None:
        drawn = partial(_figure_of_word, weights, word, words, layer=layer, title=title)
    text, on_page = partial(terminal, weights, words, word=word), partial(view, weights, words, word=word, title=title)
    return Picture(title, text, on_page, drawn)
