"""Scores and sums over a window of keys for each query, read where they lie: nothing is gathered, time is free of S.

Query t of row n sees the ``width`` keys from ``first[n, t]`` on; ``first`` is any integer, and a place where no key
exists gets score 0 and weighs nothing. Fused for float32 on the CPU; leading dimensions are folded into N.

The gradients of `local_dot`, `local_sum` and `local_scatter` are these three again, so they can be differentiated any
number of times; `local_additive` once.
"""

import torch
from torch import Tensor

from regard.kernels import _pool, additive
from regard.kernels._once import differentiable_once, no_vmap

MULTIPLY = 0.05  # nanoseconds of one thread for a multiplication and addition


@torch.library.custom_op("regard::local_dot", mutates_args=(), device_types="cpu")
def local_dot(query: Tensor, key: Tensor, first: Tensor, width: int) -> Tensor:
    """query (N, T, D), key (N, S, D), first (N, T) → (N, T, W): e[t, w] = q[t] · k[first[t] + w]."""
    from regard.kernels import _loops

    out = _empty_windows(query, key, first, width)
    cost = out.numel() * query.shape[2] * MULTIPLY
    _pool.run(_loops.local_dot, first.numel(), cost, *_pool.arrays(query, key, first, out))
    return out


@torch.library.custom_op("regard::local_sum", mutates_args=(), device_types="cpu")
def local_sum(weights: Tensor, value: Tensor, first: Tensor) -> Tensor:
    """weights (N, T, W), value (N, S, E), first (N, T) → (N, T, E): Σ_w weights[t, w] value[first[t] + w]."""
    from regard.kernels import _loops

    out = _empty_sums(weights, value, first)
    cost = weights.numel() * value.shape[2] * MULTIPLY
    _pool.run(_loops.local_sum, first.numel(), cost, *_pool.arrays(weights, value, first, out))
    return out


@torch.library.custom_op("regard::local_scatter", mutates_args=(), device_types="cpu")
def local_scatter(weights: Tensor, rows: Tensor, first: Tensor, keys: int) -> Tensor:
    """weights (N, T, W), rows (N, T, E), first (N, T) → (N, S, E): Σ_{t,w: first[t]+w=s} weights[t, w] rows[t]."""
    from regard.kernels import _loops

    check_windows(weights, rows, first, same_rows=True)
    n, _, e = rows.shape
    out = rows.new_empty(n, keys, e)
    cost = weights.numel() * e * MULTIPLY
    cut_rows, cut_out = _pool.cut(n, rows, out)
    arrays = _pool.arrays(weights, cut_rows, first, cut_out)
    _pool.run(_loops.local_scatter, n * cut_out.shape[2], cost, *arrays)
    return out


@torch.library.custom_op("regard::local_additive", mutates_args=(), device_types="cpu")
def local_additive(query: Tensor, key: Tensor, weight: Tensor, first: Tensor, width: int) -> Tensor:
    """query (N, T, D), key (N, S, D), weight (G, D), first (N, T) → (N, T, W): v · tanh(q[t] + k[first[t] + w])."""
    from regard.kernels import _loops

    out = _empty_additive(query, key, weight, first, width)
    cost = out.numel() * query.shape[2] * additive.OWN
    _pool.run(_loops.local_additive, first.numel(), cost, *_pool.arrays(query, key, weight, first, out))
    return out


@torch.library.custom_op("regard::local_additive_backward", mutates_args=(), device_types="cpu")
def local_additive_backward(
    grad: Tensor, query: Tensor, key: Tensor, weight: Tensor, first: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """grad (N, T, W) → the gradients of query, key and weight."""
    from regard.kernels import _loops

    n, _, d = query.shape
    grads = query.new_empty(query.shape), key.new_empty(key.shape), query.new_empty(n, d)
    cost = 2 * grad.numel() * d * additive.OWN
    q, k, v, *out = _pool.arrays(*_pool.cut(n, query, key, weight, *grads))
    arrays = (q, k, v, *_pool.arrays(first, grad), *out)
    _pool.run(_loops.local_additive_backward, n * q.shape[2], cost, *arrays)
    return grads[0], grads[1], additive.sum_groups(grads[2], weight.shape[0])


@local_dot.register_fake
def _empty_windows(query: Tensor, key: Tensor, first: Tensor, width: int) -> Tensor:
    check_windows(query, key, first, same_width=True)
    return query.new_empty(query.shape[0], query.shape[1], width)


@local_sum.register_fake
def _empty_sums(weights: Tensor, value: Tensor, first: Tensor) -> Tensor:
    check_windows(weights, value, first)
    return value.new_empty(weights.shape[0], weights.shape[1], value.shape[2])


@local_scatter.register_fake
def _empty_keys(weights: Tensor, rows: Tensor, first: Tensor, keys: int) -> Tensor:
    check_windows(weights, rows, first, same_rows=True)
    return rows.new_empty(rows.shape[0], keys, rows.shape[2])


@local_additive.register_fake
def _empty_additive(query: Tensor, key: Tensor, weight: Tensor, first: Tensor, width: int) -> Tensor:
    additive.check(query, key, weight)
    return _empty_windows(query, key, first, width)


@local_additive_backward.register_fake
def _empty_gradients(
    grad: Tensor, query: Tensor, key: Tensor, weight: Tensor, first: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), weight.new_empty(weight.shape)


def check_windows(
    queries: Tensor, keys: Tensor, first: Tensor, *, same_rows: bool = False, same_width: bool = False
) -> None:
    """Refuse what the kernels would misread: a compiled loop checks no bounds."""
    fits = queries.ndim == keys.ndim == 3 and first.shape == queries.shape[:2] and queries.shape[0] == keys.shape[0]
    fits = fits and (not same_rows or queries.shape[1] == keys.shape[1])
    fits = fits and (not same_width or queries.shape[2] == keys.shape[2])
    if not fits:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (queries, keys, first))
        raise ValueError(f"shapes that do not belong together: {shapes}; see the operator's docstring")
    if not (queries.dtype == keys.dtype == torch.float32 and first.dtype == torch.int64):
        raise ValueError(
            f"the local kernels are for float32 and an int64 first, not {queries.dtype}, {keys.dtype}, {first.dtype}"
        )


def _save(ctx, inputs, output):
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))


def _backward_dot(ctx, grad):
    query, key, first = ctx.saved_tensors
    needs = ctx.needs_input_grad
    grad_query = local_sum(grad, key, first) if needs[0] else None
    grad_key = local_scatter(grad, query, first, key.shape[1]) if needs[1] else None
    return grad_query, grad_key, None, None


def _backward_sum(ctx, grad):
    weights, value, first = ctx.saved_tensors
    needs = ctx.needs_input_grad
    grad_weights = local_dot(grad, value, first, weights.shape[2]) if needs[0] else None
    grad_value = local_scatter(weights, grad, first, value.shape[1]) if needs[1] else None
    return grad_weights, grad_value, None


def _backward_scatter(ctx, grad):
    weights, rows, first = ctx.saved_tensors
    needs = ctx.needs_input_grad
    grad_weights = local_dot(rows, grad, first, weights.shape[2]) if needs[0] else None
    grad_rows = local_sum(weights, grad, first) if needs[1] else None
    return grad_weights, grad_rows, None, None


def _backward_additive(ctx, grad):
    return *local_additive_backward(grad, *ctx.saved_tensors), None, None


for _op, _backward in (
    (local_dot, _backward_dot),
    (local_sum, _backward_sum),
    (local_scatter, _backward_scatter),
    (local_additive, _backward_additive),
):
    _op.register_autograd(_backward, setup_context=_save)
    _op.register_vmap(no_vmap)
differentiable_once(local_additive_backward)
