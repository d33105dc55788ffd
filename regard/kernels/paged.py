"""Keys and values that are stored in no order.

The hypotheses of a beam share their source, and most of what they have written. Where each finds its keys is a table,
so that reordering a beam moves numbers of rows, and the rows themselves stay (Kwon et al. 2023, arXiv:2309.06180, have
the same idea for servers). :mod:`regard.kernels.single` reads them by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import groups
from regard.parts import Normalizer, Score


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
        return Pages(self.key, self.value, self.place.index_select(0, index))

    def gather(self, rows: Tensor) -> Tensor:
        """(N, …, S, D): keys or values in order."""
        return rows.index_select(0, self.place.flatten()).unflatten(0, self.place.shape).movedim(1, -2)

    def look(
        self,
        score: Score,
        keywords: dict[str, Any],
        normalizer: Normalizer,
        query: Tensor,
        allowed: Tensor | None,
        group: int = 1,
    ) -> tuple[Tensor, Tensor] | None:
        """Context (N, …, 1, E) and scores (N, …, 1, S) of queries (N, …, 1, D), read where the rows lie; None where
        they must be put in order first."""
        if query.shape[-2] != 1 or score.positional or torch.is_grad_enabled():
            return None
        rows = self.key.movedim(0, -2)  # (…, R, D), as one item with R keys
        form = kernels.lower(score, groups.fold(query, group), rows, keywords)
        if form is None or form.key is not rows:
            return None
        return kernels.single_query(form, normalizer, self.value.movedim(0, -2), allowed, self.place, group)
