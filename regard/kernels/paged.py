"""Attention of one query to keys that are stored in no order, for float32 on the CPU.

The hypotheses of a beam share their source, and most of what they have written. Where each finds its keys is a table,
so that reordering a beam moves numbers of rows, and the rows themselves stay (Kwon et al. 2023, arXiv:2309.06180, have
the same idea for servers).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import _pool
from regard.kernels.forms import DotForm
from regard.parts import Normalizer, Score

ENTRY = 0.15  # nanoseconds of one thread


class Pages(NamedTuple):
    """Keys and values of N batch items.

    Attributes:
        key, value: (R, …, D) and (R, …, E), stored in any order.
        place: (N, S), which row is the s-th of an item.
    """

    key: Tensor
    value: Tensor
    place: Tensor

    @classmethod
    def of(cls, key: Tensor, value: Tensor) -> Pages:
        """(N, …, S, D) and (N, …, S, E), item after item."""
        count, length = key.shape[0], key.shape[-2]
        place = torch.arange(count * length, device=key.device).view(count, length)
        rows = key.movedim(-2, 1).flatten(0, 1)
        return cls(rows, rows if value is key else value.movedim(-2, 1).flatten(0, 1), place)

    def select(self, index: Tensor) -> Pages:
        """The items ``index``, in that order."""
        return self._replace(place=self.place.index_select(0, index))

    def gather(self, rows: Tensor) -> Tensor:
        """(N, …, S, D): keys or values in order."""
        return rows.index_select(0, self.place.flatten()).unflatten(0, self.place.shape).movedim(1, -2)


def look(
    score: Score, normalizer: Normalizer, query: Tensor, pages: Pages, allowed: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Context (N, H, 1, E) and weights (N, H, 1, S) of queries (N, H, 1, D); None where another way is to be taken."""
    from regard.normalizers.softmax import Softmax

    if query.ndim != 4 or query.shape[-2] != 1 or type(normalizer) is not Softmax or torch.compiler.is_compiling():
        return None
    if torch.is_grad_enabled() or not kernels._fits_numba(query, pages.key, pages.value) or not pages.place.numel():
        return None
    seen = pages.key.movedim(0, -2)  # (H, R, D), as one item with R keys
    form = score.form(query, seen)
    if not isinstance(form, DotForm) or form.key is not seen or form.bias is not None or form.shift is not None:
        return None
    (count, length), heads = pages.place.shape, query.shape[1]
    if allowed is not None and allowed.shape[1:-1] != (1, 1):
        return None  # a mask for each head

    from regard.kernels import _text_loops

    width, depth = query.shape[-1], pages.value.shape[-1]
    context, weights = query.new_empty(count, heads, depth), query.new_empty(count, heads, length)
    may = torch.empty(0, 0, dtype=torch.bool) if allowed is None else allowed[:, 0, 0].expand(count, length)
    rows = [array.reshape(-1) for array in _pool.arrays(form.query, pages.key, pages.value)]
    scale = _text_loops.f32(form.scale / normalizer.temperature)
    given = (heads, width, depth, *rows, *_pool.arrays(pages.place, may), scale)
    cost = ENTRY * weights.numel() * (width + depth)
    _pool.run(_text_loops.look, count, cost, *given, weights.numpy().reshape(-1), context.numpy().reshape(-1))
    return context[:, :, None], weights[:, :, None]
