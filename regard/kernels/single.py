"""Attention of a single query, T = 1: what a decoder does at each step, for float32 on the CPU and without gradients.

Two matrix products would do, but they are so small that what is around them counts. Here one pass over keys and values
scores, normalizes and sums. It reads them where they lie, in a cache that grows as in one that is in order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.kernels import _pool, groups
from regard.kernels.forms import AdditiveForm, DotForm, SquareForm

Form = DotForm | AdditiveForm | SquareForm
# Nanoseconds of one thread for a number that is read, and for one with a tanh.
READ, TANH = 0.2, 0.25
LEAST = torch.finfo(torch.float32).min


def look(
    form: Form, value: Tensor, allowed: Tensor | None, temperature: float, place: Tensor | None = None, group: int = 1
) -> tuple[Tensor, Tensor]:
    """softmax(scores/τ) @ value, (…, 1, E), and the scores, (…, 1, S): query (…, 1, D), key (…, S, D), value (…, S, E).

    There are up to two leading dimensions, and nothing is empty. With ``place`` (N, S), key and value are (H, R, D) and
    (H, R, E), or (R, D) and (R, E): rows for all items, of which each has its own list. With a ``group`` of R, key and
    value have fewer heads, and the query is folded, as in :mod:`~regard.kernels.groups`.
    """
    return _run(form, value, value.shape[-1], allowed, temperature, place, group)


def scores(form: Form) -> Tensor:
    """The scores alone, (…, 1, S)."""
    return _run(form, form.key, 0, None, 1.0, None, 1)[1]


def _run(
    form: Form,
    value: Tensor,
    depth: int,
    allowed: Tensor | None,
    temperature: float,
    place: Tensor | None,
    group: int,
) -> tuple[Tensor, Tensor]:
    from regard.kernels import _loops

    query, key, value = _rows(groups.unfold(form.query, group)), _rows(form.key), _rows(value)
    leading, width = query.shape[:-2], query.shape[-1]
    items, heads = (*leading, 1, 1)[:2]
    length = key.shape[-2] if place is None else place.shape[1]
    pieces = -(-length // _loops.PIECE)
    if isinstance(form, AdditiveForm):
        weight = form.weight.contiguous()
        kind, scale, vector = _loops.ADDITIVE, 1.0, (weight.data_ptr(), width if weight.ndim == 2 else 0)
        cost = items * heads * length * width * TANH
    else:
        kind, scale, vector = _loops.DOT if isinstance(form, DotForm) else _loops.SQUARE, float(form.scale), (0, 0)
        cost = items * heads * length * (width + depth) * READ

    shared = place is not None
    keys, values = where(key, shared), where(value, shared)
    flags = (0, 0, 0, 0) if allowed is None else where(allowed.expand(*leading, 1, length).mT)
    table = (0, 0, 0) if place is None else (place.data_ptr(), *place.stride())
    beside = keys[2] < keys[3] and values[2] < values[3] and not flags[2] and items * pieces >= torch.get_num_threads()
    # The heads of a group go together too, since they read the same keys, unless they may attend different ones.
    together = heads if beside and group == 1 else 1 if flags[2] else group

    scores, context = query.new_empty(*leading, 1, length), query.new_empty(*leading, pieces, depth)
    logs = query.new_empty(*leading, 1, pieces) if pieces > 1 else None
    arguments = (kind, (heads, together, group, length, width, depth), where(query), keys, values, vector, flags, table)
    into = (scores.data_ptr(), 0 if logs is None else logs.data_ptr(), context.data_ptr())
    _pool.run(_loops.single, items * heads // together * pieces, cost, *arguments, scale, 1 / temperature, *into)
    if logs is not None:  # a piece without an allowed key has −inf, and where all have, their contexts are 0
        context = torch.softmax(logs.clamp_min(LEAST), -1) @ context
    return context, scores


def _rows(rows: Tensor) -> Tensor:
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def where(rows: Tensor, shared: bool = False) -> tuple[int, int, int, int]:
    """Address and strides of item, head and row of (…, S, D); of ``shared`` rows there is one item."""
    strides = rows.stride() if not shared else (0, *rows.stride())
    return rows.data_ptr(), strides[0] if len(strides) > 2 else 0, strides[1] if len(strides) > 3 else 0, strides[-2]
