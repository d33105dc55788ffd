"""Weights of a softmax over dot products that nobody has read yet: :class:`Later`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from regard.normalizers._masked import masked_softmax
from regard.tape.slabs import kept


@dataclass(frozen=True, eq=False)
class Later:
    """softmax(scale · q·k + bias) over the allowed keys, from which (…, T, S) weights are computed when asked for.

    Attributes:
        query: (…, T, D).
        key: (…, S, D); with fewer heads than the query, each serves a group of heads that follow one another.
        scale: what multiplies the products.
        bias: added to the scores, broadcastable to (…, T, S).
        allowed: which keys may be attended, boolean and broadcastable to (…, T, S).
        causal: query t may attend the keys up to t + ``causal``; None if any.
        dtype: that of the weights.
    """

    query: Tensor
    key: Tensor
    scale: float
    bias: Tensor | None
    allowed: Tensor | None
    causal: int | None
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weights."""
        leading, key_leading = self.query.shape[:-3], self.key.shape[:-3]
        if leading != key_leading:
            leading = torch.broadcast_shapes(leading, key_leading)
        return (*leading, *self.query.shape[-3:-1], self.key.shape[-2])

    @property
    def pays(self) -> bool:
        """Does it take less memory than the weights? Not for a decoder's single queries, each with all its keys."""
        sizes = [t.numel() * t.element_size() for t in (self.query, self.key, self.bias, self.allowed) if t is not None]
        return sum(sizes) < torch.Size(self.shape).numel() * self.dtype.itemsize

    def weights(self) -> Tensor:
        """(…, T, S). A row without an allowed key is 0."""
        wide = torch.promote_types(self.query.dtype, torch.float32)
        scores = self.query.to(wide) @ spread(self.key, self.query).to(wide).mT * self.scale
        if self.bias is not None:
            scores = scores + self.bias
        return masked_softmax(scores, self.permitted()).to(self.dtype)

    def permitted(self) -> Tensor | None:
        """Which keys may be attended, broadcastable to (…, T, S)."""
        if self.causal is None:
            return self.allowed
        queries, keys = (torch.arange(t.shape[-2], device=t.device) for t in (self.query, self.key))
        before = keys <= queries[:, None] + self.causal
        return before if self.allowed is None else before & self.allowed

    def own(self) -> Self:
        """The same in copies, which nothing that a model does next can change."""
        copies: dict[str, Any] = {name: kept(t) for name, t in vars(self).items() if isinstance(t, Tensor)}
        return replace(self, **copies)

    def last(self, count: int) -> Self:
        """Only the last ``count`` queries."""
        first = max(self.query.shape[-2] - count, 0)
        rows: dict[str, Any] = {name: t[..., first:, :] for name, t in self._beside() if t.ndim > 1 and t.shape[-2] > 1}
        causal = None if self.causal is None else self.causal + first
        return replace(self, query=self.query[..., first:, :], causal=causal, **rows)

    def heads(self, index: Tensor) -> Self:
        """Only the heads ``index``, which are the third dimension from the end."""
        chosen: dict[str, Any] = {
            name: t.index_select(-3, index) for name, t in self._beside() if t.ndim > 2 and t.shape[-3] > 1
        }
        key = spread(self.key, self.query)
        return replace(self, query=self.query.index_select(-3, index), key=key.index_select(-3, index), **chosen)

    def item(self) -> Self:
        """The only item of the batch, without that dimension."""
        rank = self.query.ndim
        beside: dict[str, Any] = {name: t[0] for name, t in self._beside() if t.ndim == rank}
        return replace(self, query=self.query[0], key=self.key[0], **beside)

    def _beside(self) -> list[tuple[str, Tensor]]:
        return [(name, t) for name, t in (("bias", self.bias), ("allowed", self.allowed)) if t is not None]


def spread(key: Tensor, query: Tensor) -> Tensor:
    """Keys or values with as many heads as the queries, (…, H, S, D)."""
    if key.ndim < 3 or key.shape[-3] in (1, query.shape[-3]):
        return key
    return key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)


def unmasked(scores: Tensor) -> Tensor:
    """Which keys may be attended if masks were added to scores, as −∞, −10⁹ or −10⁴: no score is so far below the best
    of its row by itself."""
    best = scores.amax(dim=-1, keepdim=True) if scores.shape[-1] else 0
    return scores >= best - 5000
