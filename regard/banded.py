"""Masks that leave each query the keys around its own place: only those are looked at, whatever the score.

Queries are cut into N blocks of C. The keys that some query of a block sees are C + before + behind in a row, and the
recipe takes the blocks for N items of a batch. So time and memory grow with T·(C + W), on any device and in any
precision, by plain tensor operations; :mod:`regard.kernels.spans` is the faster twin for dot products on the CPU. Few
queries, as in a decoder's step, are one block, and the keys before it are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard import masks
from regard.masks import Mask

SIZE = 128  # queries of a block


@dataclass(frozen=True)
class Band:
    """A query sees at most ``before`` keys before its place and ``behind`` after it; of these, what ``rest`` allows."""

    before: int
    behind: int
    rest: Mask | None

    @classmethod
    def of(cls, mask: Mask) -> Band | None:
        """What a mask says of places, if it says that a query sees neither all before it nor all behind it."""
        before: int | None = None
        behind: int | None = None
        rest: Mask | None = None
        for part in mask.conjuncts():
            band = part.band()
            if band is None:
                rest = masks.both(rest, part)
            else:
                before, behind = _less(before, band[0]), _less(behind, band[1])
        return None if before is None or behind is None else cls(before, behind, rest)


def _less(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)


def in_front(cut: int, weights: Tensor, fill: float = 0.0) -> Tensor:
    """(…, T, S − cut) → (…, T, S): ``fill`` for the keys in front, which were left out."""
    return pad(weights, (cut, 0), value=fill)


@dataclass(frozen=True)
class Blocks:
    """T queries (…, H, T, D) as N blocks, (…, N, H, C, D), and S keys as those that each block sees, (…, N, G, K, D).
    The last query stands at the last key."""

    queries: int
    keys: int
    band: Band

    @property
    def count(self) -> int:
        """N."""
        return -(-self.queries // SIZE)

    @property
    def width(self) -> int:
        """K."""
        return SIZE + self.band.before + self.band.behind

    @property
    def start(self) -> int:
        """The place of the first key of the first block; negative where there is none."""
        return self.keys - self.queries - self.band.before

    def cut(self, rows: Tensor, axis: int) -> Tensor:
        """(…, T, …) with T at ``axis`` → (…, N, H, C, …)."""
        filled = self._filled(rows, axis, 0, self.count * SIZE - self.queries)
        return _outwards(filled.unflatten(axis, (self.count, SIZE)), axis)

    def seen(self, rows: Tensor) -> Tensor:
        """(…, G, S, D) → (…, N, G, K, D). A view, where nothing has to be added at the ends."""
        stop = self.start + (self.count - 1) * SIZE + self.width
        rows = rows[..., max(self.start, 0) :, :]
        filled = self._filled(rows, rows.ndim - 2, max(-self.start, 0), stop - self.keys)
        return _outwards(filled.unfold(-2, self.width, SIZE), rows.ndim - 2).mT

    def allowed(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Boolean, broadcastable to (…, N, H, C, K), for scores of ``shape`` (…, H, T, S)."""
        block, query = (torch.arange(n, device=device) for n in (self.count, SIZE))
        offset = torch.arange(self.width, device=device) - query.unsqueeze(1)  # (C, K)
        near = (offset >= 0) & (offset <= self.band.before + self.band.behind)
        place = self._places(device)  # (N, K)
        exists = ((place >= 0) & (place < self.keys)).unsqueeze(1)  # (N, 1, K)
        asks = (block.unsqueeze(1) * SIZE + query < self.queries).unsqueeze(2)  # (N, C, 1)
        inside = _ranked(near & exists & asks, shape)
        return inside if self.band.rest is None else inside & self._rest(self.band.rest, shape, device)

    def _rest(self, mask: Mask, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """(…, H, T, S) → (…, N, H, C, K) of what remains of the mask; one query or head where all are the same."""
        allowed, axis = mask.tensor(shape, device), len(shape) - 2
        place = self._places(device).clamp(0, self.keys - 1)  # (N, K)
        if allowed.shape[-2] == 1:
            return _outwards(allowed[..., 0, place], axis).unsqueeze(-2)
        rows = self.cut(allowed, axis)  # (…, N, H, C, S)
        index = _ranked(place.unsqueeze(1), shape)
        return rows.gather(-1, index.expand(*rows.shape[:-1], self.width))

    def join(self, rows: Tensor, axis: int) -> Tensor:
        """(…, N, H, C, …) → (…, T, …), T at ``axis``."""
        inwards = rows.movedim(axis - 1, axis) if axis > 1 else rows
        return inwards.flatten(axis, axis + 1).narrow(axis, 0, self.queries)

    def spread(self, weights: Tensor, fill: float = 0.0) -> Tensor:
        """(…, N, H, C, K) → (…, H, T, S), ``fill`` where a query sees nothing."""
        joined = self.join(weights, weights.ndim - 3)  # (…, T, K)
        place = self._places(weights.device).repeat_interleave(SIZE, dim=0)[: self.queries]  # (T, K)
        index = torch.where((place >= 0) & (place < self.keys), place, self.keys)
        wide = joined.new_full((*joined.shape[:-1], self.keys + 1), fill)  # a last column for what lies outside
        return wide.scatter(-1, index.expand_as(joined), joined)[..., : self.keys]

    def _places(self, device: torch.device) -> Tensor:
        """(N, K): where among the keys those of each block are; some are nowhere."""
        block, key = (torch.arange(n, device=device) for n in (self.count, self.width))
        return self.start + block.unsqueeze(1) * SIZE + key

    @staticmethod
    def _filled(rows: Tensor, axis: int, front: int, back: int) -> Tensor:
        """With zeros before and behind the rows, or with fewer of them behind."""
        if front == 0 and back == 0:
            return rows
        return pad(rows, (0, 0) * (rows.ndim - 1 - axis) + (front, back))


def _ranked(blocks: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, C, K) as (…, N, H, C, K), for scores of ``shape`` (…, H, T, S)."""
    blocks = blocks.unsqueeze(1) if len(shape) > 3 else blocks
    return blocks[(None,) * (len(shape) + 1 - blocks.ndim)]


def _outwards(rows: Tensor, axis: int) -> Tensor:
    """The blocks, at ``axis``, before the heads, so that those stay what comes before queries and keys."""
    return rows.movedim(axis, axis - 1) if axis > 1 else rows
