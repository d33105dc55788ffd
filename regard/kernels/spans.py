"""Dot products where each query sees a stretch of the keys: windows, packed sequences, both of them causal or padded.

torch's SDPA computes what a mask then throws away. Here it is given a few queries at a time, each time with the keys
that one of them sees, so that time and memory grow with the length of the stretches and not with the number of keys.
Nothing is copied together for it. On the CPU, in any precision that SDPA has; without double backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from regard.kernels import groups
from regard.kernels._once import no_second_derivative, no_vmap

# Queries at a time: each block reads as many keys more as it has queries, but fewer are slower products.
LEAST, MOST = 64, 128
TINY = 32  # queries that are not worth a block of their own
# What a block costs besides its scores, as a number of these, and what a score costs, where one among all keys is 1.
BEGIN, EACH = 2**14, 1.25
Block = tuple[slice, slice, slice]
_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True, eq=False)
class Spans:
    """What each query sees.

    Attributes:
        first, stop: (B, T) or (1, T), int64 on the CPU: keys first … stop − 1. Neither ever decreases with T, except
            where a query sees nothing.
        allowed: Boolean, broadcastable to (B, H, T, S), which of these; None for all.
        blocks: batch items, queries and keys that belong together. Queries that see nothing may be in none.
    """

    first: Tensor
    stop: Tensor
    allowed: Tensor | None
    blocks: list[Block]

    @classmethod
    def of(cls, first: Tensor, stop: Tensor, items: int, allowed: Tensor | None = None) -> Spans:
        """With the blocks of each item, or with those of all items together where that is no more work."""
        dead = stop <= first
        low, high = first.masked_fill(dead, int(stop.max())), stop.masked_fill(dead, 0)
        together = _blocks(low.amin(0), high.amax(0), slice(0, items))
        if first.shape[0] > 1:
            item_blocks = (_blocks(low[item], high[item], slice(item, item + 1)) for item in range(items))
            apart = [block for blocks in item_blocks for block in blocks]
            if _work(apart) < _work(together):
                together = apart
        return cls(first, stop, allowed, together)

    def pay(self, scores: int, heads: int) -> bool:
        """Is it faster than computing all N scores and masking them?"""
        return EACH * heads * _work(self.blocks) + BEGIN * len(self.blocks) <= scores

    def mask(self, block: Block, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """For a block, what is added to its scores, 0 or −inf, and the queries that see something, (B, H, T, 1); each
        None if there is nothing to say. A query that sees nothing looks at all keys of the block."""
        items, queries, keys = block
        first, stop = (end if end.shape[0] == 1 else end[items] for end in (self.first, self.stop))
        first, stop = first[:, queries], stop[:, queries]
        if self.allowed is None and int(first.max()) <= keys.start and int(stop.min()) >= keys.stop:
            return None, None
        place = torch.arange(keys.start, keys.stop)
        visible = ((place >= first.unsqueeze(-1)) & (place < stop.unsqueeze(-1))).unsqueeze(1)  # (B, 1, T, S)
        if self.allowed is not None:
            rest = self.allowed if self.allowed.shape[0] == 1 else self.allowed[items]
            visible = visible & (rest if rest.shape[2] == 1 else rest[:, :, queries])[..., keys]
        alive = visible.any(dim=-1, keepdim=True)
        added = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible & alive, float("-inf"))
        return added, None if bool(alive.all()) else alive


def _blocks(first: Tensor, stop: Tensor, items: slice) -> list[Block]:
    """The blocks of queries that see keys first … stop − 1, both (T,). Where a query sees none of the keys that those
    before it see, a block ends; else it has LEAST to MOST queries, or more if all see the same."""
    past = stop.cummax(0).values
    breaks = ((first[1:] >= past[:-1]) & (first[1:] < stop[1:])).nonzero().flatten() + 1
    starts, stops = first.tolist(), stop.tolist()
    blocks: list[Block] = []
    for begin, end in pairwise([0, *breaks.tolist(), len(starts)]):
        longest = max(stops[at] - starts[at] for at in (begin, (begin + end) // 2, end - 1))
        size = max(LEAST, min(MOST, longest // 8))
        if starts[begin] == starts[end - 1] and stops[begin] == stops[end - 1]:
            size = end - begin
        for at in range(begin, end, size):
            rows = slice(at, min(at + size, end))
            keys = slice(min(starts[rows]), max(stops[rows]))
            before = blocks[-1] if blocks else None
            if before is not None and rows.stop - before[1].start <= TINY and before[1].stop == rows.start:
                blocks[-1] = (items, slice(before[1].start, rows.stop), _union(before[2], keys))
            else:
                blocks.append((items, rows, keys))
    return [block for block in blocks if block[2].start < block[2].stop]


def _union(first: slice, second: slice) -> slice:
    if second.start >= second.stop:
        return first
    return second if first.start >= first.stop else slice(min(first.start, second.start), max(first.stop, second.stop))


def _work(blocks: list[Block]) -> int:
    """Scores to be computed."""
    sizes = ([part.stop - part.start for part in block] for block in blocks)
    return sum(items * queries * keys for items, queries, keys in sizes)


def attend(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float) -> Tensor:
    """softmax(scale · q·k) @ value over the keys that each query sees: query (B, H, T, D), key and value (B, G, S, D),
    G a divisor of H → (B, H, T, D)."""
    group = query.shape[1] // key.shape[1]
    if group > 1 and not _knows_groups():
        key, value = groups.repeat(key, group), groups.repeat(value, group)
    return _Attend.apply(query, key, value, spans, scale)[0]


class _Attend(Function):
    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float) -> tuple[Tensor, Tensor]:
        context, logs = torch.zeros_like(query), query.new_empty(0)
        for block in spans.blocks:
            (items, queries, keys), (added, alive) = block, spans.mask(block, query.dtype)
            rows, pair = query[items, :, queries], (key[items, :, keys], value[items, :, keys])
            part, log = _forward(rows, *pair, 0.0, False, attn_mask=added, scale=scale)
            context[items, :, queries] = part if alive is None else part * alive
            if not logs.numel():  # in the order in which backward reads them
                logs = log.new_empty(query.shape[0], query.shape[2], query.shape[1]).transpose(1, 2)
            logs[items, :, queries] = log
        return context, logs

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *rows, ctx.spans, ctx.scale = inputs
        ctx.save_for_backward(*rows, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        return *_Gradients.apply(grad, *ctx.saved_tensors, ctx.spans, ctx.scale), None, None

    vmap = staticmethod(no_vmap)


class _Gradients(Function):
    @staticmethod
    def forward(grad, query, key, value, context, logs, spans, scale):
        grad_query = torch.zeros_like(query)
        # Sums over blocks, of halves in float32.
        exact = torch.promote_types(key.dtype, torch.float32)
        grad_key, grad_value = (torch.zeros_like(t, dtype=exact) for t in (key, value))
        for block in spans.blocks:
            (items, queries, keys), (added, alive) = block, spans.mask(block, query.dtype)
            grad_rows = grad[items, :, queries] if alive is None else grad[items, :, queries] * alive
            rows, pair = query[items, :, queries], (key[items, :, keys], value[items, :, keys])
            state = (context[items, :, queries], logs[items, :, queries])
            gradients = _backward(grad_rows, rows, *pair, *state, 0.0, False, attn_mask=added, scale=scale)
            grad_query[items, :, queries] = gradients[0]
            grad_key[items, :, keys] += gradients[1]
            grad_value[items, :, keys] += gradients[2]
        return grad_query, grad_key.to(key.dtype), grad_value.to(value.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_second_derivative()

    vmap = staticmethod(no_vmap)


def _knows_groups() -> bool:
    """Does this version of torch take fewer heads of keys than of queries here? It cannot be tried: torch 2.6 does not
    refuse them, and reads and writes behind the end of the keys."""
    return torch.__version__ >= "2.13"
