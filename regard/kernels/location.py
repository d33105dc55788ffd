"""Location-aware scores without an (N, S, D) tensor of the location features (Chorowski et al. 2015):
e[t, s] = v · tanh(q[t] + k[s] + U f[s]), f = F ∗ α.

Fused for float32 on the CPU. The convolution, its mixing and the tanh are one pass over the keys; the backward pass
computes them again. All leading dimensions are folded into N.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.kernels import _pool
from regard.kernels._once import differentiable_once, no_vmap

LANES = 16  # numbers of a vector, of which a filter should have a multiple
# Nanoseconds of one thread for a number of a key, and for a product.
OWN, PRODUCT = 0.3, 0.05


def scores(query: Tensor, key: Tensor, weight: Tensor, last: Tensor, filters: Tensor, mix: Tensor) -> Tensor:
    """query (N, T, D), key (N, S, D), weight (D,), last (N, S), filters (F, K), mix (D, F) → (N, T, S), past torch's
    dispatcher."""
    from regard.kernels import _location_loops

    out = _empty_scores(query, key, weight, last, filters, mix)
    parts = _pool.pieces(len(key), key.shape[1], 16)
    arrays = _pool.arrays(query, key, weight, *_laid_out(last, filters, mix), out)
    _pool.run(_location_loops.scores, len(key) * parts, _cost(key, query, filters), parts, *arrays)
    return out


@torch.library.custom_op("regard::location_scores", mutates_args=(), device_types="cpu")
def location_scores(query: Tensor, key: Tensor, weight: Tensor, last: Tensor, filters: Tensor, mix: Tensor) -> Tensor:
    """:func:`scores` as an operator of torch, with gradients."""
    return scores(query, key, weight, last, filters, mix)


@torch.library.custom_op("regard::location_scores_backward", mutates_args=(), device_types="cpu")
def location_scores_backward(
    grad: Tensor, query: Tensor, key: Tensor, weight: Tensor, last: Tensor, filters: Tensor, mix: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """grad (N, T, S) → the gradients of the other inputs."""
    from regard.kernels import _location_loops

    n, kernel = len(key), filters.shape[1]
    rows, wide, turned = _laid_out(last, filters, mix)
    into = tuple(
        np.empty((n, *shape), np.float32) for shape in (weight.shape, rows.shape[1:], wide.shape, turned.shape)
    )
    whole = query.new_empty(query.shape), key.new_empty(key.shape)
    arrays = _pool.arrays(grad, query, key, weight, rows, wide, turned)
    grad_query, grad_key = _pool.arrays(*whole)
    cost = 3 * _cost(key, query, filters)
    _pool.run(_location_loops.scores_backward, n, cost, *arrays, (grad_query, grad_key, *into))
    grad_weight, grad_rows, grad_filters, grad_mix = into
    sums = [torch.from_numpy(items.sum(0)) for items in (grad_weight, grad_filters[..., :kernel], grad_mix)]
    half = kernel // 2
    grad_last = torch.from_numpy(np.ascontiguousarray(grad_rows[:, half : half + last.shape[1]]))
    return *whole, sums[0], grad_last, sums[1], sums[2].T.contiguous()


def _laid_out(last: Tensor, filters: Tensor, mix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (N, S + L + 2) with zeros around them, filters (F, L) with zeros behind, and mix (F, D)."""
    kernel = filters.shape[1]
    more = -kernel % LANES
    # The loops read keys in fours, the last of which may lie outside.
    return pad(last, (kernel // 2, kernel // 2 + more + 3)), pad(filters, (0, more)), mix.T


def _cost(key: Tensor, query: Tensor, filters: Tensor) -> float:
    n, s, d = key.shape
    return n * s * (d * (query.shape[1] * OWN + len(filters) * PRODUCT) + filters.numel() * PRODUCT)


@location_scores.register_fake
def _empty_scores(query: Tensor, key: Tensor, weight: Tensor, last: Tensor, filters: Tensor, mix: Tensor) -> Tensor:
    n, t, d = query.shape
    shapes = {"key": (n, key.shape[1], d), "weight": (d,), "last": (n, key.shape[1]), "mix": (d, filters.shape[0])}
    tensors = {"key": key, "weight": weight, "last": last, "mix": mix}
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(
                f"{name} is {tuple(tensors[name].shape)} and not {shape} beside query {tuple(query.shape)} and filters "
                f"{tuple(filters.shape)}"
            )
    return query.new_empty(n, t, key.shape[1])


@location_scores_backward.register_fake
def _empty_gradients(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, weight, last, filters, mix = (tensor.new_empty(tensor.shape) for tensor in inputs)
    return query, key, weight, last, filters, mix


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    return location_scores_backward(grad, *ctx.saved_tensors)


location_scores.register_autograd(_backward, setup_context=_save)
location_scores.register_vmap(no_vmap)
differentiable_once(location_scores_backward)
