"""Dot products where each query sees a stretch of the keys: windows, packed sequences, both of them causal or padded.

torch's SDPA computes what a mask then throws away. Here it is given a few queries at a time, each time with the keys
that one of them sees, so that time and memory grow with the length of the stretches and not with the number of keys.
Nothing is copied together for it. On the CPU, in any precision that SDPA has; without double backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from regard.kernels import groups
from regard.kernels._once import no_second_derivative, no_vmap

# Queries at a time: fewer for narrow stretches, of which each block reads as many keys more as it has queries.
LEAST, MOST = 64, 128
APART = 1.25  # how much more work it may be to do the items of a batch together
Block = tuple[slice, slice, slice]
_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True, eq=False)
class Spans:
    """What each query sees.

    Attributes:
        first, stop: (B, T) or (1, T), int64 on the CPU: keys first … stop − 1.
        allowed: Boolean, broadcastable to (B, H, T, S), which of these; None for all.
    """

    first: Tensor
    stop: Tensor
    allowed: Tensor | None = None

    def blocks(self, items: int) -> list[Block]:
        """Batch items, queries and keys that belong together. Queries that see nothing may be in none."""
        queries = self.first.shape[1]
        size = max(LEAST, min(MOST, int((self.stop - self.first).max()) // 8))
        count, dead, far = -(-queries // size), self.stop <= self.first, int(self.stop.max())
        missing = (0, count * size - queries)
        first = pad(self.first.masked_fill(dead, far), missing, value=far).unflatten(1, (count, size))
        stop = pad(self.stop.masked_fill(dead, 0), missing).unflatten(1, (count, size))
        low, high = first.amin(2), stop.amax(2)
        lowest, highest = low.amin(0, keepdim=True), high.amax(0, keepdim=True)
        together = _work(lowest, highest) * low.shape[0]
        apart = low.shape[0] > 1 and together > APART * _work(low, high)
        if not apart:
            low, high = lowest, highest
        found = []
        for item, (starts, stops) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            own = slice(item, item + 1) if apart else slice(0, items)
            for begin, (start, stop) in zip(range(0, queries, size), zip(starts, stops, strict=True), strict=True):
                if start < stop:
                    found.append((own, slice(begin, min(begin + size, queries)), slice(start, stop)))
        return found

    def mask(self, block: Block, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """For a block, what is added to its scores, 0 or −inf, and the queries that see something, (B, H, T, 1); each
        None if there is nothing to say. A query that sees nothing looks at all keys of the block."""
        items, queries, keys = block
        own = slice(None) if self.first.shape[0] == 1 else items
        place = torch.arange(keys.start, keys.stop)
        seen = (place >= self.first[own, queries, None]) & (place < self.stop[own, queries, None])
        seen = seen.unsqueeze(1)  # (B, 1, T, S)
        if self.allowed is not None:
            rest = self.allowed if self.allowed.shape[0] == 1 else self.allowed[items]
            seen = seen & (rest if rest.shape[2] == 1 else rest[:, :, queries])[..., keys]
        if bool(seen.all()):
            return None, None
        alive = seen.any(dim=-1, keepdim=True)
        added = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen & alive, float("-inf"))
        return added, None if bool(alive.all()) else alive


def pays(first: Tensor, stop: Tensor, shape: tuple[int, ...]) -> bool:
    """Are the stretches so short, and the queries so many, that it is faster than to mask all the other keys?"""
    mean = float((stop - first).clamp_min(0).sum()) / first.numel()
    return shape[-2] > LEAST and 2 * (mean + LEAST) <= shape[-1]


def _work(low: Tensor, high: Tensor) -> int:
    return int((high - low).clamp_min(0).sum())


def attend(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float) -> Tensor:
    """softmax(scale · q·k) @ value over the keys that each query sees: query (B, H, T, D), key and value (B, G, S, D),
    G a divisor of H → (B, H, T, D)."""
    group = query.shape[1] // key.shape[1]
    if group > 1 and not _knows_groups():
        key, value = groups.repeat(key, group), groups.repeat(value, group)
    return _Attend.apply(query, key, value, spans, spans.blocks(query.shape[0]), scale)[0]


class _Attend(Function):
    @staticmethod
    def forward(
        query: Tensor, key: Tensor, value: Tensor, spans: Spans, blocks: list[Block], scale: float
    ) -> tuple[Tensor, Tensor]:
        context, logs = torch.zeros_like(query), query.new_empty(0)
        for block in blocks:
            (items, queries, keys), (added, alive) = block, spans.mask(block, query.dtype)
            rows, seen = query[items, :, queries], (key[items, :, keys], value[items, :, keys])
            found, log = _forward(rows, *seen, 0.0, False, attn_mask=added, scale=scale)
            context[items, :, queries] = found if alive is None else found * alive
            if not logs.numel():  # in the order in which backward reads them
                logs = log.new_empty(query.shape[0], query.shape[2], query.shape[1]).transpose(1, 2)
            logs[items, :, queries] = log
        return context, logs

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *rows, ctx.spans, ctx.blocks, ctx.scale = inputs
        ctx.save_for_backward(*rows, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        return *_Gradients.apply(grad, *ctx.saved_tensors, ctx.spans, ctx.blocks, ctx.scale), None, None, None

    vmap = staticmethod(no_vmap)


class _Gradients(Function):
    @staticmethod
    def forward(grad, query, key, value, context, logs, spans, blocks, scale):
        grad_query = torch.zeros_like(query)
        # Sums over blocks, of halves in float32.
        exact = torch.promote_types(key.dtype, torch.float32)
        grad_key, grad_value = (torch.zeros_like(t, dtype=exact) for t in (key, value))
        for block in blocks:
            (items, queries, keys), (added, alive) = block, spans.mask(block, query.dtype)
            given = grad[items, :, queries] if alive is None else grad[items, :, queries] * alive
            rows, seen = query[items, :, queries], (key[items, :, keys], value[items, :, keys])
            state = (context[items, :, queries], logs[items, :, queries])
            found = _backward(given, rows, *seen, *state, 0.0, False, attn_mask=added, scale=scale)
            grad_query[items, :, queries] = found[0]
            grad_key[items, :, keys] += found[1]
            grad_value[items, :, keys] += found[2]
        return grad_query, grad_key.to(key.dtype), grad_value.to(value.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_second_derivative()

    vmap = staticmethod(no_vmap)


@lru_cache(maxsize=1)
def _knows_groups() -> bool:
    """Does this version of torch take fewer heads of keys than of queries here?"""
    query, key = torch.zeros(1, 2, 1, 8), torch.zeros(1, 1, 1, 8)
    try:
        found, logs = _forward(query, key, key, 0.0, False)
        grads = _backward(query, query, key, key, found, logs, 0.0, False)
    except RuntimeError:
        return False
    return grads[1].shape == key.shape
