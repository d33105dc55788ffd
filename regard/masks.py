"""Which keys may be attended: ``True`` = may. One polarity, one shape contract.

A mask is a Boolean tensor or a :class:`Mask`. Rank decides what a tensor means, never its sizes:

======================  ===========================================
shape                   means
======================  ===========================================
(S,)                    the same keys for every query
(B, S)                  per batch item, e.g. padding
(B, T, S)               per query
(B, H, T, S)            per head
======================  ===========================================

Missing dimensions are inserted after B. One (T, S) mask for a whole batch is written ``mask[None]``; only for an
unbatched (T, D) query is 2-D read as (T, S). Masks combine with ``& | ~`` and become tensors only where one is needed::

    regard.masks.lengths(source_lengths) & regard.masks.causal()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard import _warn

Shape = tuple[int, ...]
Span = tuple[Tensor, Tensor]
"""The first key that a query sees, and the first behind them that it does not: (…, T), broadcastable."""


class Mask:
    """A rule that says which key each query may attend; a tensor only once the shapes are known."""

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        """Boolean, of the rank of the scores' ``shape`` (…, T, S) and broadcastable to it."""
        raise NotImplementedError

    def queries(self, rank: int) -> int:
        """The number of queries that this mask is made for, for scores of ``rank`` dimensions; 1 if it fits any."""
        return 1

    def by_query(self, rank: int) -> bool:
        """Whether it may allow one query what it does not allow another, for scores of ``rank`` dimensions."""
        return True

    sparse = False
    """Is it made to leave out most keys, so that it may pay to skip them?"""

    def conjuncts(self) -> list[Mask]:
        """The masks that, joined by ``&``, are this one."""
        return [self]

    def band(self) -> tuple[int | None, int | None] | None:
        """How many keys before and how many behind its own place a query sees, None for all of them, if that is what
        this mask says; a kernel then leaves out the others instead of masking them."""
        return None

    def span(self, shape: Shape, device: torch.device | str | None = None) -> Span | None:
        """The stretch of keys that each query of scores of this shape sees, if it is one."""
        band = self.band()
        if band is None:
            return None
        queries, keys = shape[-2:]
        places = torch.arange(keys - queries, keys, device=device).reshape((1,) * (len(shape) - 2) + (queries,))
        before, behind = (keys if count is None else count for count in band)
        return (places - before).clamp_min(0), (places + behind + 1).clamp_max(keys)

    def select(self, index: Tensor) -> Mask:
        """The mask of the batch items ``index``."""
        return self

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        """This mask for ``count`` more keys behind the S of ``shape``, all of them ``allowed`` or not."""
        return self

    def __and__(self, other: Mask | Tensor) -> Mask:
        return Combined(torch.logical_and, self, _operand(other))

    def __or__(self, other: Mask | Tensor) -> Mask:
        return Combined(torch.logical_or, self, _operand(other))

    def __invert__(self) -> Mask:
        return Inverted(self)

    __rand__, __ror__ = __and__, __or__

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        # `tensor & mask` asks torch first; this hands the operation back to the mask.
        if func in (torch.Tensor.__and__, torch.Tensor.__or__):
            mask, tensor = args[1], args[0]
            return mask & tensor if func is torch.Tensor.__and__ else mask | tensor
        raise TypeError(f"{func.__name__} does not take a regard Mask; mask.tensor((B, T, S)) makes a tensor of it")


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """A Boolean tensor, read by its rank."""

    allowed: Tensor
    bare: bool = False
    """Was it passed as a plain tensor, perhaps with another shape contract in mind?"""

    def __repr__(self) -> str:
        return f"a Boolean {_show(self.allowed.shape)}"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        allowed = self.allowed if device is None else self.allowed.to(device)
        rank = allowed.ndim
        if not 1 <= rank <= len(shape):
            raise ValueError(_misfit(allowed, shape))
        if self.bare and rank == 2 < len(shape) and not torch.compiler.is_compiling():
            _warn_if_square(allowed, shape)
        if rank == 1 or len(shape) == 2:
            reshaped = allowed.reshape((1,) * (len(shape) - rank) + tuple(allowed.shape))
        else:
            inserted = (1,) * (len(shape) - rank)
            reshaped = allowed.reshape((allowed.shape[0], *inserted, *allowed.shape[1:]))
        fits = all(size in (1, expected) for size, expected in zip(reshaped.shape[:-1], shape[:-1], strict=True))
        if not fits or reshaped.shape[-1] != shape[-1]:
            raise ValueError(_misfit(allowed, shape))
        return reshaped

    def queries(self, rank: int) -> int:
        return self.allowed.shape[-2] if self.by_query(rank) else 1

    def by_query(self, rank: int) -> bool:
        return self.allowed.ndim > 2 or self.allowed.ndim == rank == 2

    def select(self, index: Tensor) -> Mask:
        per_item = self.allowed.ndim > 1 and self.allowed.shape[0] != 1
        return Dense(self.allowed.index_select(0, index), self.bare) if per_item else self

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        more = self.allowed.new_full((*self.allowed.shape[:-1], count), allowed)
        return Dense(torch.cat([self.allowed, more], dim=-1))


@dataclass(frozen=True, eq=False)
class Pairs(Mask):
    """A (T, S) tensor that holds for every batch item and head."""

    allowed: Tensor

    def __repr__(self) -> str:
        return f"a Boolean (T, S) = {_show(self.allowed.shape)}"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        leading = (1,) * (len(shape) - 2)
        if tuple(self.allowed.shape) != tuple(shape[-2:]):
            raise ValueError(f"a (T, S) mask of shape {_show(self.allowed.shape)} for T={shape[-2]} and S={shape[-1]}")
        return self.allowed.to(device).reshape(leading + tuple(self.allowed.shape))

    def queries(self, rank: int) -> int:
        return self.allowed.shape[0]

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        more = self.allowed.new_full((self.allowed.shape[0], count), allowed)
        return Pairs(torch.cat([self.allowed, more], dim=-1))


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    """The first ``lengths[b]`` keys of each batch item."""

    lengths: Tensor
    _last: tuple[Any, Tensor] | None = field(default=None, init=False, repr=False)
    """The last tensor, with the arguments it was made for: all layers of a model need the same one."""

    def __repr__(self) -> str:
        printable = self.lengths.numel() <= 8 and may_look(self.lengths)
        return f"lengths({self.lengths.tolist() if printable else _show(self.lengths.shape)})"

    def by_query(self, rank: int) -> bool:
        return False

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        if _traced(self.lengths) or torch.is_inference_mode_enabled() or self.lengths.is_inference():
            return self._computed(shape, device)
        arguments, cached = (len(shape), shape[0], shape[-1], device, self.lengths._version), self._last
        if cached is None or cached[0] != arguments:
            cached = arguments, self._computed(shape, device)
            object.__setattr__(self, "_last", cached)
        return cached[1]

    def _checked(self, shape: Shape, device: torch.device | str | None) -> Tensor:
        lengths = self.lengths if device is None else self.lengths.to(device)
        items = 1 if len(shape) == 2 else shape[0]
        if lengths.numel() != items and lengths.numel() != 1:
            raise ValueError(f"{lengths.numel()} lengths for a batch of {items}")
        if may_look(lengths) and lengths.numel() and int(lengths.max()) > shape[-1]:
            raise ValueError(f"a length of {int(lengths.max())} is more than the {shape[-1]} keys there are")
        return lengths

    def _computed(self, shape: Shape, device: torch.device | str | None) -> Tensor:
        lengths = self._checked(shape, device)
        positions = torch.arange(shape[-1], device=lengths.device)
        return positions < lengths.reshape((-1,) + (1,) * (len(shape) - 1))

    def span(self, shape: Shape, device: torch.device | str | None = None) -> Span:
        lengths = self._checked(shape, device).reshape((-1,) + (1,) * (len(shape) - 2))
        return torch.zeros_like(lengths), lengths

    def select(self, index: Tensor) -> Mask:
        return self if self.lengths.numel() == 1 else Lengths(self.lengths.index_select(0, index))

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        flat = self.tensor((*shape[:1], 1, shape[-1]) if len(shape) > 2 else shape)
        return Dense(flat.reshape(-1, shape[-1]) if len(shape) > 2 else flat[0]).grow(shape, count, allowed)


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """Query t may see the keys up to its own place, counted from the end."""

    def __repr__(self) -> str:
        return "causal()"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        return _distance(shape, device) >= 0

    def band(self) -> tuple[int | None, int | None]:
        return None, 0


@dataclass(frozen=True, eq=False)
class Near(Mask):
    """Query t may see the keys at most ``radius`` from its own place."""

    radius: int
    sparse = True

    def __repr__(self) -> str:
        return f"window({self.radius})"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        return _distance(shape, device).abs() <= self.radius

    def band(self) -> tuple[int | None, int | None]:
        return self.radius, self.radius


@dataclass(frozen=True, eq=False)
class Segments(Mask):
    """Query t may see the keys of its own segment."""

    ids: Tensor
    sparse = True
    _last: tuple[Any, Span | None] | None = field(default=None, init=False, repr=False)
    """The last span, with the arguments it was made for."""

    def __repr__(self) -> str:
        return f"segments({_show(self.ids.shape)})"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        queries, keys = self._placed(shape, device)
        return (queries.unsqueeze(-1) == keys.unsqueeze(-2)) & (keys >= 0).unsqueeze(-2)

    def span(self, shape: Shape, device: torch.device | str | None = None) -> Span | None:
        if not may_look(self.ids):
            return None
        if torch.is_inference_mode_enabled() or self.ids.is_inference():
            return self._span(shape, device)
        arguments, cached = (tuple(shape), device, self.ids._version), self._last
        if cached is None or cached[0] != arguments:
            cached = arguments, self._span(shape, device)
            object.__setattr__(self, "_last", cached)
        return cached[1]

    def _span(self, shape: Shape, device: torch.device | str | None) -> Span | None:
        """Where the segment of each query begins and ends, if none is in several pieces."""
        _, ids = self._placed(shape, device)
        if ids.shape[-1] == 0:
            return None
        place, edge = torch.arange(ids.shape[-1], device=ids.device), ids[..., :1] == ids[..., :1]
        new = ids[..., 1:] != ids[..., :-1]
        ordered = ids.sort(dim=-1).values
        if bool((new.sum(-1) != (ordered[..., 1:] != ordered[..., :-1]).sum(-1)).any()):
            return None
        first = torch.where(torch.cat([edge, new], -1), place, 0).cummax(-1).values
        ends = torch.where(torch.cat([new, edge], -1), place + 1, len(place))
        stop = ends.flip(-1).cummin(-1).values.flip(-1)
        stop = torch.where(ids < 0, first, stop)
        earlier = len(place) - shape[-2]
        return first[..., earlier:], stop[..., earlier:]

    def _placed(self, shape: Shape, device: torch.device | str | None) -> tuple[Tensor, Tensor]:
        """The segments of queries and of keys, (…, T) and (…, S)."""
        ids = self.ids if device is None else self.ids.to(device)
        queries, keys = shape[-2:]
        if ids.ndim == 2 and len(shape) == 2:
            ids = ids.squeeze(0)
        items = shape[0] if ids.ndim == 2 else 1
        if ids.shape[-1] != keys or (ids.ndim == 2 and ids.shape[0] not in (1, items)) or ids.ndim > len(shape) - 1:
            raise ValueError(f"segments of shape {_show(self.ids.shape)} do not fit scores of shape {_show(shape)}")
        if queries > keys:
            raise ValueError(f"the queries are the last of the {keys} places that have segments, and not {queries}")
        if len(shape) > 2:
            ids = ids.reshape((ids.shape[0] if ids.ndim == 2 else 1,) + (1,) * (len(shape) - 3) + (keys,))
        return ids[..., keys - queries :], ids

    def queries(self, rank: int) -> int:
        return self.ids.shape[-1]

    def select(self, index: Tensor) -> Mask:
        return Segments(self.ids.index_select(0, index)) if self.ids.ndim == 2 and self.ids.shape[0] != 1 else self

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        last = self.ids[..., -1:]
        return Segments(torch.cat([self.ids, last.expand(*last.shape[:-1], count)], dim=-1))


@dataclass(frozen=True, eq=False)
class Combined(Mask):
    """Two masks joined by ``&`` or ``|``."""

    operation: Callable[[Tensor, Tensor], Tensor]
    left: Mask
    right: Mask

    def __repr__(self) -> str:
        sign = "&" if self.operation is torch.logical_and else "|"
        return f" {sign} ".join(_inside(mask, self.operation) for mask in (self.left, self.right))

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        return self.operation(self.left.tensor(shape, device), self.right.tensor(shape, device))

    def conjuncts(self) -> list[Mask]:
        if self.operation is not torch.logical_and:
            return [self]
        return [*self.left.conjuncts(), *self.right.conjuncts()]

    def queries(self, rank: int) -> int:
        return max(self.left.queries(rank), self.right.queries(rank))

    def by_query(self, rank: int) -> bool:
        return self.left.by_query(rank) or self.right.by_query(rank)

    def select(self, index: Tensor) -> Mask:
        return Combined(self.operation, self.left.select(index), self.right.select(index))

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        return Combined(self.operation, self.left.grow(shape, count, allowed), self.right.grow(shape, count, allowed))


@dataclass(frozen=True, eq=False)
class Inverted(Mask):
    """The keys that a mask does not allow."""

    mask: Mask

    def __repr__(self) -> str:
        return f"~{_inside(self.mask)}"

    def tensor(self, shape: Shape, device: torch.device | str | None = None) -> Tensor:
        return ~self.mask.tensor(shape, device)

    def queries(self, rank: int) -> int:
        return self.mask.queries(rank)

    def by_query(self, rank: int) -> bool:
        return self.mask.by_query(rank)

    def __invert__(self) -> Mask:
        return self.mask

    def select(self, index: Tensor) -> Mask:
        return Inverted(self.mask.select(index))

    def grow(self, shape: Shape, count: int, allowed: bool = True) -> Mask:
        return Inverted(self.mask.grow(shape, count, not allowed))


def lengths(lengths: Tensor) -> Mask:
    """The first ``lengths[b]`` keys of item b may be attended; what follows is padding. ``lengths`` is (B,)
    integers.
    """
    if not isinstance(lengths, Tensor):
        lengths = torch.as_tensor(lengths)
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool or lengths.is_complex():
        raise ValueError(f"lengths are integers, not {lengths.dtype} (NaN cannot be a length): write lengths.long()")
    if lengths.ndim > 1:
        raise ValueError(f"lengths are one number per batch item, (B,), not {_show(lengths.shape)}")
    if may_look(lengths) and lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"a length cannot be negative: {int(lengths.min())}")
    return Lengths(lengths)


def causal() -> Mask:
    """No query sees a key behind its own place. Aligned to the end: the last query sees every key, so that it is right
    for cached decoding, where T new queries meet S ≥ T keys. (torch's ``is_causal`` is aligned to the beginning.)"""
    return Causal()


def window(radius: int) -> Near:
    """A query sees the keys at most ``radius`` from its own place, aligned to the end as in :func:`causal`.

    Alone, or joined by ``&`` with other masks, it makes attention cheaper: the keys outside the window are not read,
    and time and memory grow with T·radius instead of T·S.
    """
    if radius < 0:
        raise ValueError(f"the radius of a window cannot be negative: {radius}")
    return Near(radius)


def segments(ids: Tensor) -> Mask:
    """Several sequences in one row: a query sees the keys of its own.

    ``ids`` is (B, S) or (S,), integers: equal numbers belong together, and a negative one is padding, which no query
    sees and which sees nothing. ``torch.arange(len(lengths)).repeat_interleave(lengths)`` are those of sequences of
    these lengths. As in :func:`causal`, T queries are the last of the S places. Where each sequence is in one piece,
    the keys of the others are not read.
    """
    if not isinstance(ids, Tensor):
        ids = torch.as_tensor(ids)
    if ids.dtype.is_floating_point or ids.dtype == torch.bool or ids.is_complex():
        raise ValueError(f"segments are numbered by integers, not {ids.dtype}: write ids.long()")
    if ids.ndim not in (1, 2):
        raise ValueError(f"segments are one number for each place, (B, S) or (S,), not {_show(ids.shape)}")
    return Segments(ids)


def from_torch(
    *, key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None, heads: int | None = None
) -> Mask | None:
    """The masks of ``nn.MultiheadAttention``, where True = ignore, turned round.

    Args:
        key_padding_mask: (B, S) or (S,), Boolean or 0/−inf.
        attn_mask: (T, S), or (B·H, T, S), which needs ``heads``. Boolean or 0/−inf; other numbers are a bias, not a
            mask.
        heads: the number of heads folded into a 3-D ``attn_mask``.
    """
    mask: Mask | None = None
    if key_padding_mask is not None:
        mask = Dense(~_ignored(key_padding_mask, "key_padding_mask"))
    if attn_mask is not None:
        allowed = ~_ignored(attn_mask, "attn_mask")
        if allowed.ndim == 3 and (heads is None or allowed.shape[0] % heads):
            raise ValueError(
                f"a 3-D attn_mask {_show(allowed.shape)} is (B·H, T, S): pass heads=H, a divisor of its size"
            )
        pairs = Pairs(allowed) if allowed.ndim == 2 else Dense(allowed.unflatten(0, (-1, heads)))
        mask = both(mask, pairs)
    return mask


def as_mask(mask: Mask | Tensor | None) -> Mask | None:
    """What users pass as ``mask=``, checked: Boolean tensors are wrapped, other tensors refused with the line that
    helps.
    """
    if mask is None or isinstance(mask, Mask):
        return mask
    if not isinstance(mask, Tensor):
        raise ValueError(
            f"a mask is a Boolean tensor or a regard Mask, not {type(mask).__name__}: torch.as_tensor(mask)"
        )
    if mask.dtype == torch.bool:
        return Dense(mask, bare=True)
    if mask.dtype.is_floating_point:
        raise ValueError(
            f"a mask is Boolean (True = may be attended), not {mask.dtype}: write `mask > 0.5` for a 0/1 mask, "
            "`mask == 0` for an additive 0/-inf mask"
        )
    raise ValueError(f"a mask is Boolean (True = may be attended), not {mask.dtype}: write `mask.bool()`")


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """The keys that both allow; None allows all."""
    if first is None or second is None:
        return first if second is None else second
    return Combined(torch.logical_and, first, second)  # not `&`, which torch.compile of torch 2.6 refuses


def _operand(other: Mask | Tensor) -> Mask:
    mask = as_mask(other)
    if mask is None:
        raise ValueError("None cannot be combined with a mask; leave it out")
    return mask


def _distance(shape: Shape, device: torch.device | str | None) -> Tensor:
    """How far each key lies before each query, (…, T, S), when the last query stands at the last key."""
    queries, keys = shape[-2:]
    places = torch.arange(keys - queries, keys, device=device)
    distance = places[:, None] - torch.arange(keys, device=device)
    return distance.reshape((1,) * (len(shape) - 2) + (queries, keys))


def _ignored(mask: Tensor, name: str) -> Tensor:
    if mask.dtype == torch.bool:
        return mask
    ignored = torch.isneginf(mask) if mask.dtype.is_floating_point else None
    if ignored is None or (may_look(mask) and not bool((ignored | (mask == 0)).all())):
        raise ValueError(
            f"{name} ({mask.dtype}) must be Boolean or hold only 0 and -inf; other values are a bias, not a mask"
        )
    return ignored


def may_look(tensor: Tensor) -> bool:
    """Reading values is free on an eager CPU tensor; elsewhere it stalls a device or breaks a trace."""
    return tensor.device.type == "cpu" and not _traced(tensor)


def _traced(tensor: Tensor) -> bool:
    """Is it part of a trace or of a vmap, so that nothing made of it may be cached?"""
    return torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(tensor)


def _warn_if_square(mask: Tensor, shape: Shape) -> None:
    """Warn once that a square mask of rank 2 is read as (B, S), since (T, S) may be meant."""
    n = shape[0]
    if n > 1 and tuple(mask.shape) == (n, n) == tuple(shape[-2:]):
        _warn.once(
            "square mask",
            f"a mask of shape {_show(mask.shape)} for {n} batch items, {n} queries and {n} keys is read as (B, S): the "
            "keys of each item that may be attended. If it is (T, S), the same for all items, write mask[None]; "
            "if it is (B, S), mask[:, None] or regard.masks.lengths says so",
        )


def _misfit(mask: Tensor, shape: Shape) -> str:
    batched = len(shape) > 2
    expected = "(S,), (B, S), (B, T, S) or one mask dimension for each of the scores'" if batched else "(S,) or (T, S)"
    text = f"a mask of shape {_show(mask.shape)} does not fit scores of shape {_show(shape)}; a mask is {expected}"
    if batched and tuple(mask.shape) == tuple(shape[-2:]):
        text += "; a (T, S) mask for a batch is written mask[None]"
    return text


def _inside(mask: Mask, operation: Any = None) -> str:
    """A mask as part of a larger one."""
    apart = isinstance(mask, Combined) and mask.operation is not operation
    return f"({mask})" if apart else f"{mask}"


def _show(shape: Any) -> str:
    return "(" + ", ".join(str(int(size)) for size in shape) + ("," if len(shape) == 1 else "") + ")"
