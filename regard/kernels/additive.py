"""Additive scores without the (N, T, S, D) tensor: e[t, s] = v · tanh(q[t] + k[s]) (Bahdanau, Cho & Bengio, 2015).

Fused for float32 on the CPU. All leading dimensions are folded into N; row n uses ``weight[n % G]``: G is 1, or the
number of heads. The backward pass computes the tanh again, so that beyond inputs and outputs each thread needs
memory for (T+S)·D numbers only.
"""

import numpy as np
import torch
from torch import Tensor

from regard.kernels import _pool
from regard.kernels._once import differentiable_once, no_vmap

# Nanoseconds of one thread for an element that shares the exponentials of its rows, and for one with a tanh of its own.
SHARED, OWN = 0.1, 0.3
# With so few queries or keys, the exponentials of the rows cost more than they save.
FEW = 3


@torch.library.custom_op("regard::additive_scores", mutates_args=(), device_types="cpu")
def additive_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """query (N, T, D), key (N, S, D), weight (G, D) with N a multiple of G → (N, T, S)."""
    from regard.kernels import _loops

    out = _empty_scores(query, key, weight)
    n, t, s = out.shape
    elements = out.numel() * query.shape[2]
    if min(t, s) <= FEW:
        windows = query.new_zeros(n, t, dtype=torch.int64)  # that begin at key 0 and hold all
        arrays = _pool.arrays(query, key, weight, windows, out)
        _pool.run(_loops.local_additive, n * t, elements * OWN, *arrays)
    else:
        parts = _pool.pieces(n, t, 8)
        arrays = _pool.arrays(query, key, weight, out)
        _pool.run(_loops.additive, n * parts, elements * SHARED, parts, *arrays)
    return out


@torch.library.custom_op("regard::additive_scores_backward", mutates_args=(), device_types="cpu")
def additive_scores_backward(grad: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """grad (N, T, S) → the gradients of query, key and weight."""
    from regard.kernels import _loops

    n, t, d = query.shape
    grads = query.new_empty(query.shape), key.new_empty(key.shape), query.new_empty(n, d)
    elements = grad.numel() * d
    q, k, v, *out = _pool.arrays(*_pool.cut(n, query, key, weight, *grads))
    items = n * q.shape[2]
    if min(t, key.shape[1]) <= FEW:
        windows = query.new_zeros(n, t, dtype=torch.int64)
        arrays = (q, k, v, *_pool.arrays(windows, grad), *out)
        _pool.run(_loops.local_additive_backward, items, 2 * elements * OWN, *arrays)
    else:
        arrays = (q, k, v, *_pool.arrays(grad), *out)
        _pool.run(_loops.additive_backward, items, 2 * elements * SHARED, *arrays)
    return grads[0], grads[1], sum_groups(grads[2], weight.shape[0])


@additive_scores.register_fake
def _empty_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    check(query, key, weight)
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1])


@additive_scores_backward.register_fake
def _empty_gradients(grad: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), weight.new_empty(weight.shape)


def sum_groups(rows: Tensor, groups: int) -> Tensor:
    """(N, D) → (G, D): the sum of the rows that share a weight.

    In numpy, since torch would wake all its threads for this little and, on a busy machine, wait for them.
    """
    total = rows.numpy().reshape(-1, groups, rows.shape[1]) if rows.numel() else np.zeros((1, groups, rows.shape[1]))
    return torch.from_numpy(total.sum(0, dtype=np.float64).astype(np.float32))


def check(query: Tensor, key: Tensor, weight: Tensor) -> None:
    """Refuse what the additive kernels would misread."""
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, weight {tuple(weight.shape)}"
    if (query.ndim, key.ndim, weight.ndim) != (3, 3, 2) or not query.shape[2] == key.shape[2] == weight.shape[1]:
        raise ValueError(f"expected query (N, T, D), key (N, S, D), weight (G, D), got {shapes}")
    if query.shape[0] != key.shape[0] or weight.shape[0] == 0 or query.shape[0] % weight.shape[0] != 0:
        raise ValueError(f"expected one N for query and key, and a multiple of G, got {shapes}")
    if not query.dtype == key.dtype == weight.dtype == torch.float32:
        raise ValueError(f"the fused kernel is for float32, not {query.dtype}, {key.dtype}, {weight.dtype}")


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    return additive_scores_backward(grad, *ctx.saved_tensors)


additive_scores.register_autograd(_backward, setup_context=_save)
additive_scores.register_vmap(no_vmap)
differentiable_once(additive_scores_backward)
