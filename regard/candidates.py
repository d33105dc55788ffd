"""The keys that a query looks at: all of them, or those in a window. Both offer score, fade, sum and spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import groups
from regard.kernels.deferred import Deferred
from regard.memory import Memory
from regard.parts import Part, Score, Window


def of(
    window: Window | None, query: Tensor, memory: Memory, allowed: Tensor | None, keywords: dict[Part, dict[str, Any]]
) -> Everywhere | Nearby:
    """The keys that are candidates at all."""
    if window is None or not memory.length:
        keys, values = memory.deferred() if query.shape[-2] == 1 else (None, None)
        return Everywhere(memory.key, memory.value, allowed, memory.group, keys, values)
    return Nearby.within(window, query, memory.key, memory.value, allowed, **keywords[window])


@dataclass(frozen=True, eq=False)
class Everywhere:
    """All S keys. ``mask`` is broadcastable to (…, T, S), where heads are those of the queries; ``keys`` and ``values``
    are the same rows, where their gradients are made later."""

    key: Tensor
    value: Tensor
    mask: Tensor | None
    group: int = 1
    keys: Deferred | None = None
    values: Deferred | None = None
    place = None

    def score(self, score: Score, form: kernels.Form | None, query: Tensor, keywords: dict[str, Any]) -> Tensor:
        """(…, T, S)."""
        if form is None:
            scores = score(groups.fold(query, self.group), self.key, **keywords)
        else:
            scores = kernels.scores(form, self.keys if form.key is self.key else None)
        return groups.unfold(scores, self.group)

    def fade(self, weights: Tensor) -> Tensor:
        return weights

    def sum(self, weights: Tensor) -> Tensor:
        """(…, T, E)."""
        weights = groups.fold(weights, self.group)
        return groups.unfold(weights @ self.value if self.values is None else self.values.sum(weights), self.group)

    def spread(self, weights: Tensor, fill: float = 0.0) -> Tensor:
        return weights

    def later(self, weights: Tensor, fill: float = 0.0) -> Tensor:
        return weights


@dataclass(frozen=True, eq=False)
class Nearby:
    """W keys for each query, read where they lie. Weights and scores are (…, T, W) until someone wants all S.

    Attributes:
        first: (…, T), the place of the first candidate; it may lie outside the keys.
        offset: (…, T, W), how far each candidate lies from the window's left edge.
        mask: (…, T, W), the candidates that exist, are in the window and may be attended.
        factor: (…, T, W) or None, what the window multiplies the weights by.
        place: (…, T), the middle of the window.
    """

    key: Tensor
    value: Tensor
    first: Tensor
    mask: Tensor
    factor: Tensor | None
    place: Tensor

    @classmethod
    def within(
        cls, window: Window, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, state: Any = None
    ) -> Nearby:
        """The candidates of a window."""
        length = key.shape[-2]
        lengths = torch.tensor(length, device=key.device) if allowed is None else allowed.sum(dim=-1)
        start, width = window(query, lengths, state)
        edge = start.detach()
        first = edge.nan_to_num().ceil().long() if edge.is_floating_point() else edge
        places = first.unsqueeze(-1) + torch.arange(width, device=key.device)  # (…, T, W)
        offset = places - start.unsqueeze(-1)
        # Not `offset <= width - 1`: a window at NaN keeps its keys, so that its factor makes NaN of them.
        mask = (places >= 0) & (places < length) & ~(offset.detach() > width - 1)
        if allowed is not None:
            leading = torch.broadcast_shapes(allowed.shape[:-1], places.shape[:-1])
            mask = mask & allowed.expand(*leading, length).gather(-1, places.clamp(0, length - 1))
        return cls(key, value, first, mask, window.factor(offset), start + (width - 1) / 2)

    @property
    def places(self) -> Tensor:
        """(…, T, W), those outside the keys moved to the nearest key."""
        width = self.mask.shape[-1]
        places = self.first.unsqueeze(-1) + torch.arange(width, device=self.first.device)
        return places.clamp(0, self.key.shape[-2] - 1)

    def score(self, score: Score, form: kernels.Form | None, query: Tensor, keywords: dict[str, Any]) -> Tensor:
        """(…, T, W)."""
        if form is not None:
            return kernels.local_scores(form, self.first, self.mask.shape[-1])
        if "positions" in score.needs:
            keywords = {**keywords, "positions": self.places}
        keywords = {
            name: x.unsqueeze(query.ndim - 1) if name not in ("state", "positions") else x
            for name, x in keywords.items()
        }
        rows = kernels.rows(self.key, self.first, self.mask.shape[-1])  # (…, T, W, D)
        return score(query.unsqueeze(-2), rows, **keywords).squeeze(-2)

    def fade(self, weights: Tensor) -> Tensor:
        if self.factor is None:
            return weights
        return weights * torch.where(self.mask, self.factor, 1.0)  # no gradient from what is masked

    def sum(self, weights: Tensor) -> Tensor:
        """(…, T, E)."""
        return kernels.local_sum(weights, self.value, self.first)

    def spread(self, weights: Tensor, fill: float = 0.0) -> Tensor:
        """(…, T, W) → (…, T, S), ``fill`` where no candidate is."""
        length = self.key.shape[-2]
        wide = weights.new_full((*weights.shape[:-1], length + 1), fill)  # a last column for what lies outside
        index = torch.where(self.mask, self.places, length)
        return wide.scatter(-1, index, weights)[..., :length]

    def later(self, weights: Tensor, fill: float = 0.0) -> Narrow:
        return Narrow(self, weights, fill)


@dataclass(frozen=True, eq=False)
class Narrow:
    """Weights or scores of a window, (…, T, W), to be spread over all S keys when someone reads them."""

    keys: Nearby
    held: Tensor
    fill: float

    def __call__(self) -> Tensor:
        return self.keys.spread(self.held, self.fill)
