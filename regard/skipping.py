"""Masks that leave few keys to a query, such as sliding windows: the other keys are skipped instead of masked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from regard import banded, kernels
from regard.attended import Attended
from regard.banded import Band, Blocks
from regard.call import Call
from regard.kernels import shortcut
from regard.masks import Mask
from regard.memory import Memory
from regard.parts import Parts
from regard.spoiled import harmless, later

Look = Callable[[Parts, Tensor, Memory, Call], Attended]


def look(parts: Parts, query: Tensor, memory: Memory, call: Call, whole: Look) -> Attended | None:
    """Attention over the keys alone that the mask leaves; None unless it leaves few, and it is known where.
    ``whole`` is attention over all keys that it is given."""
    mask = memory.mask
    if mask is None or kernels.chosen("plain") or not any(part.sparse for part in mask.conjuncts()):
        return None
    if parts.window or parts.refiner or parts.score.positional or parts.normalizer.stochastic:
        return None
    return _along(parts, query, memory, call, mask) or _around(parts, query, memory, call, mask, whole)


def _along(parts: Parts, query: Tensor, memory: Memory, call: Call, mask: Mask) -> Attended | None:
    """By the kernel for stretches of keys, unless something that it should not have read did harm."""
    out = shortcut.along(parts, query, memory, call, mask)
    return out if out is not None and harmless(out, memory) else None


def _around(parts: Parts, query: Tensor, memory: Memory, call: Call, mask: Mask, whole: Look) -> Attended | None:
    """At the keys around each query's place: those of many queries in blocks, those of few in one."""
    band, keys, queries = Band.of(mask), memory.length, query.shape[-2]
    if band is None:
        return None
    shape, axis = (*query.shape[:-1], keys), query.ndim - 2
    spread: Callable[..., Tensor]
    if queries <= banded.SIZE:
        cut = keys - queries - band.before
        if cut <= 0:
            return None
        call = call.within(mask.tensor(shape, query.device)[..., cut:])
        out, spread = whole(parts, query, memory.last(keys - cut), call), partial(banded.in_front, cut)
    else:
        blocks = Blocks(queries, keys, band)
        if not kernels.blocks_pay(blocks.width, keys):
            return None
        extras = {name: blocks.cut(tensor, axis) for name, tensor in call.extras.items()}
        call = call.within(blocks.allowed(shape, query.device), extras)
        seen = Memory(blocks.seen(memory.key), blocks.seen(memory.value), group=memory.group)
        out, spread = whole(parts, blocks.cut(query, axis), seen, call), blocks.spread
        out.context = blocks.join(out.context, axis)
    out.weights = later(spread, out._weights)
    out.scores = later(partial(spread, fill=float("-inf")), out._scores)
    return out
