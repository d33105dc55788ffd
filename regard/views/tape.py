"""What :func:`regard.record` saw, as views: ``views(tape)`` for a page, ``html(tape)`` for a notebook.

    page.write("attention.html", tape.views(recorded))

Attentions of one shape whose names differ only in numbers, ``decoder.layers.0.cross`` and ``decoder.layers.1.cross``,
become the layers of one view; an attention along edges becomes a graph. Tokens are those of :meth:`regard.Tape.label`.
"""

from __future__ import annotations

import html as markup
import math
import re
from typing import TYPE_CHECKING

import numpy as np

from regard.views import alignment, graph
from regard.views._shared import LARGEST, as_array
from regard.views.alignment import Reading
from regard.views.page import View, frame

if TYPE_CHECKING:
    from regard.tape import Entry, Tape

MOST = 1 << 22
"""Weights that a notebook shows; a tape with more shows its table."""


MEMBERS = 16
"""Items of a batch on a page, at most."""


def views(tape: Tape, *, batch: int | None = None) -> list[View]:
    """A view for each group of attentions, in the order in which they ran.

    Args:
        tape: of :func:`regard.record`.
        batch: which member of the batch; if None, the page can choose among the first ``MEMBERS``.

    Of an attention whose calls cannot be joined, the last call is shown.
    """
    collected: list[View] = []
    groups: dict[tuple[object, ...], list[tuple[Entry, np.ndarray]]] = {}
    for name in tape:
        entry = tape[name]
        look = entry.calls[-1]
        if look.edges is not None:
            weights, index = look.weights.cpu(), look.edges.cpu()
            if index.shape[1] and weights.ndim == 2:
                most = int(np.bincount(index[1].numpy()).argmax())
                collected.append(graph.view(weights, index, most, title=name))
            continue
        try:
            array = as_array(entry.weights)
        except ValueError:  # calls that cannot be joined
            array = as_array(look.weights)
        if array.ndim < 2 or 0 in array.shape:
            continue
        if array.ndim == 2:
            array = array[None]
        if array.ndim > 4:  # more than one dimension before the heads: its first member
            array = array.reshape(-1, *array.shape[-3:])[:1]
        array = array[:MEMBERS] if batch is None else array[[min(batch, len(array) - 1)]]
        array = array if array.ndim == 4 else array[:, None]  # (B, H, T, S)
        key = (re.sub(r"\d+", "*", name), array.shape, tuple(entry.rows or ()), tuple(entry.columns or ()))
        groups.setdefault(key, []).append((entry, array))
    for (pattern, *_), members in groups.items():
        entries, arrays = zip(*members)
        stacked, rows, columns = np.stack(arrays, 1), entries[0].rows, entries[0].columns  # (B, L, H, T, S)
        names = [entry.name for entry in entries] if len(entries) > 1 else None
        title = str(pattern) if names else entries[0].name
        most = max(1, LARGEST // max(1, stacked[0].size))
        readings = [Reading(rows, member, text=f"number {i + 1}") for i, member in enumerate(stacked[:most])]
        alignments = alignment.beam(readings, columns, layers=names, title=title)
        square = stacked.shape[-1] == stacked.shape[-2]
        focus = {"word": None} if square else {}
        collected.append(
            View("heads" if square else "alignment", title, {**alignments.data, **focus, "several": "in the batch"})
        )
    return collected


def html(tape: Tape) -> str:
    """For a notebook: the interactive viewer in a frame or, if there is nothing to show or too much, the table."""
    size = sum(math.prod(look.shape) for name in tape for look in tape[name].calls)
    shown = views(tape) if 0 < size <= MOST else []
    if not shown:
        note = f"\n{size:,} weights are too many to show at once: record(model, only=…)" if size else ""
        return f"<pre>{markup.escape(repr(tape) + note)}</pre>"
    return frame(shown, "Attention")
