"""Dot-product attention to learn from in bfloat16 on the CPU, by matrix products.

On a processor that multiplies matrices of bfloat16, SDPA's gradients take longer than in float32, several times as long
for short texts, and its context longer than the products that make it. Here both are made of products over blocks of
scores that stay in the cache; scores and weights are made again for the gradients, not kept:

    W = softmax(scale Q Kᵀ + bias)    U = W ∘ (G Vᵀ − rowsum(W ∘ G Vᵀ))
    dV = Wᵀ G    dQ = scale U K    dK = scale Uᵀ Q
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from regard.kernels._once import no_second_derivative

_BLOCK = 2**19
"""Scores of a block, 1 MB; their gradient takes as much again."""
_ROWS = 64
"""Queries of a block, at least."""


@cache
def has_products() -> bool:
    """Does this processor multiply matrices of bfloat16 faster than those of float32?"""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def fits(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> bool:
    """Are these (B, H, T, D) ones to learn from, and are their gradients faster here than SDPA's?"""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or not torch.is_grad_enabled():
        return False
    tensors = (query, key, value)
    if any(t.dtype != torch.bfloat16 or t.device.type != "cpu" for t in tensors) or query.shape[1] != key.shape[1]:
        return False
    if bias is not None and bias.requires_grad:
        return False
    return any(t.requires_grad for t in tensors) and has_products()


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float) -> Tensor:
    """softmax(scale · q·k + bias) @ value: (B, H, T, D), (B, H, S, D), (B, H, S, E) → (B, H, T, E). The ``bias`` gets
    no gradient; False in a boolean one forbids, and ``causal`` is aligned at the top left, both as in SDPA."""
    return _Attend.apply(query, key, value, bias, causal, scale)


class _Block(NamedTuple):
    above: tuple[slice, slice, slice]
    """Items, heads and queries."""
    below: tuple[slice, slice, slice]
    """Items, heads and keys."""
    weights: Tensor
    """(N, T, S), for the N pairs of an item and a head."""
    query: Tensor
    key: Tensor
    value: Tensor


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, bias)
        ctx.causal, ctx.scale = causal, scale
        with torch.autocast("cpu", enabled=False):
            context = query.new_empty(*query.shape[:-1], value.shape[-1])
            for block in _blocks(query, key, value, bias, causal, scale):
                context[block.above] = torch.bmm(block.weights, block.value).view(context[block.above].shape)
            return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph=True
            no_second_derivative()
        with torch.autocast("cpu", enabled=False):
            query, key, value, bias = ctx.saved_tensors
            gradients = _gradients(query, key, value, bias, grads[0], ctx.causal, ctx.scale)
            return *gradients, None, None, None


def _gradients(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, grad: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of query, key and value."""
    d_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    d_key, d_value = (t.new_zeros(t.shape, dtype=torch.float32) for t in (key, value))
    for above, below, weights, q, k, v in _blocks(query, key, value, bias, causal, scale):
        g = grad[above].flatten(0, 1)
        slopes = torch._softmax_backward_data(torch.bmm(g, v.mT), weights, -1, weights.dtype)
        d_query[above] = torch.bmm(slopes, k).view(d_query[above].shape)
        d_key[below] += torch.bmm(slopes.mT, q).view(d_key[below].shape)
        d_value[below] += torch.bmm(weights.mT, g).view(d_value[below].shape)
    return d_query.mul_(scale), d_key.mul_(scale).to(key.dtype), d_value.to(value.dtype)


def _blocks(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float
) -> Iterator[_Block]:
    """All blocks of scores, one after the other."""
    (items, heads, queries, _), keys = query.shape, key.shape[2]
    if causal:
        bias = torch.ones(queries, keys, dtype=torch.bool).tril()
    if bias is not None and bias.dtype == torch.bool:
        bias = query.new_zeros(bias.shape).masked_fill_(~bias, float("-inf"))
    if bias is not None and not causal:
        bias = bias.to(query.dtype).expand(items, heads, queries, keys)
    for above in _cuts(items, heads, queries, keys):
        columns = slice(0, min(above[2].stop, keys) if causal else keys)
        below = (*above[:2], columns)
        q, k, v = (t[where].flatten(0, 1) for t, where in ((query, above), (key, below), (value, below)))
        if bias is None:
            scores = torch.baddbmm(q.new_empty(()), q, k.mT, beta=0, alpha=scale)
        else:
            added = bias[above[2], columns] if causal else bias[(*above, columns)].flatten(0, 1)
            scores = torch.baddbmm(added, q, k.mT, alpha=scale)
        yield _Block(above, below, torch.softmax(scores, dim=-1), q, k, v)


def _cuts(items: int, heads: int, queries: int, keys: int) -> Iterator[tuple[slice, slice, slice]]:
    """Several whole items, else heads of one item, else queries of one head: not many more than a block of scores."""
    most_items = max(1, _BLOCK // (heads * queries * keys))
    most_heads = heads if most_items > 1 else min(heads, max(1, _BLOCK // (queries * keys)))
    most_rows = queries if most_heads > 1 else min(queries, max(_ROWS, _BLOCK // keys))
    for item in range(0, items, most_items):
        for head in range(0, heads, most_heads):
            for row in range(0, queries, most_rows):
                yield (
                    slice(item, item + most_items),
                    slice(head, head + most_heads),
                    slice(row, min(row + most_rows, queries)),
                )
