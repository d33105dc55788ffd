"""Additive scores in slices of plain torch operations: any device, any dtype, memory O(N·T·S).

The twin of `regard.kernels.additive` for where numba does not go. The (n, t, S, D) temporary holds ``LIMIT`` bytes, or
one query if that is more, and the backward pass computes it again instead of keeping it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd import Function

from regard.kernels._once import no_second_derivative, no_vmap

LIMIT = 2**24


def additive_scores_chunked(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """query (N, T, D), key (N, S, D), weight (G, D) with N a multiple of G → (N, T, S): v · tanh(q[t] + k[s])."""
    return _Scores.apply(query, key, weight)


def slices(query: Tensor, key: Tensor) -> Iterator[tuple[slice, slice]]:
    """Ranges of rows and of queries that together cover all, each with a temporary within the limit."""
    (n, t, d), s = query.shape, key.shape[1]
    fit = max(1, LIMIT // max(1, s * d * query.element_size()))  # queries at a time
    rows, queries = (fit // t, t) if fit >= t > 0 else (1, fit)
    for first in range(0, n, rows):
        for start in range(0, t, queries):
            yield slice(first, first + rows), slice(start, start + queries)


def _hidden(query: Tensor, key: Tensor) -> Tensor:
    return (query.unsqueeze(2) + key.unsqueeze(1)).tanh_()  # (n, t, S, D)


class _Scores(Function):
    @staticmethod
    def forward(query, key, weight):
        out = query.new_empty(query.shape[0], query.shape[1], key.shape[1])
        weights = weight.repeat(query.shape[0] // weight.shape[0], 1)  # (N, D)
        for rows, queries in slices(query, key):
            hidden = _hidden(query[rows, queries], key[rows])
            out[rows, queries] = (hidden @ weights[rows, None, :, None]).squeeze(-1)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return _Gradients.apply(grad, *ctx.saved_tensors)

    vmap = staticmethod(no_vmap)


class _Gradients(Function):
    """dq = v Σ_s e(1-y²), dk = v Σ_t e(1-y²), dv = Σ e·y, with y = tanh(q+k). Sums of halves are kept in float32."""

    @staticmethod
    def forward(grad, query, key, weight):
        exact = torch.promote_types(query.dtype, torch.float32)
        grad_query = torch.empty_like(query, dtype=exact)
        grad_key = torch.zeros_like(key, dtype=exact)
        grad_weights = query.new_zeros(query.shape[0], query.shape[2], dtype=exact)
        for rows, queries in slices(query, key):
            hidden = _hidden(query[rows, queries], key[rows])
            e = grad[rows, queries]  # (n, t, S)
            grad_weights[rows] += (e.flatten(1).unsqueeze(1) @ hidden.flatten(1, 2)).squeeze(1)
            slope = hidden.square_().neg_().add_(1).mul_(e.unsqueeze(-1))
            grad_query[rows, queries] = slope.sum(2, dtype=exact)
            grad_key[rows] += slope.sum(1, dtype=exact)
        weights = weight.repeat(query.shape[0] // weight.shape[0], 1).unsqueeze(1)  # (N, 1, D)
        grad_weight = grad_weights.unflatten(0, (-1, weight.shape[0])).sum(0)
        return (
            (grad_query * weights).to(query.dtype),
            (grad_key * weights).to(key.dtype),
            grad_weight.to(weight.dtype),
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        no_second_derivative()

    vmap = staticmethod(no_vmap)
