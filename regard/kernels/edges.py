"""Attention along the edges of a graph without a tensor of size E·H·F: score, softmax and sum of a target in one go.

Fused for float32 on the CPU, for three kinds of scores: LeakyReLU(q + k) of one number each (GAT), v·LeakyReLU(q + k)
(GATv2) and q·k. Forward goes through the edges by target and keeps, for each target and head, only the largest score
and the sum of the exponentials. Backward goes by source, computes the weights again, and leaves the gradients of the
scores, (E, H); a second pass by target adds these up for the queries. So no thread ever adds to what belongs to
another. Dropout draws its bits from a hash of seed, edge and head, so that backward can draw them again.

Features of edges, (E, K), are multiplied where it costs least: q·(k + W f) = q·k + (Wᵀq)·f needs Wᵀq once for each
target, Σ α (v + W f) = Σ α v + W Σ α f needs W once for each target, GAT's score one number for each edge and head.
Only GATv2's takes W f for each edge, which the kernel computes edge by edge.

In GAT the nodes look at each other, and query, key and value are one tensor. That is an operator of its own, which adds
up all three gradients where it has the rows at hand anyway, and takes the wide heads of a large graph one by one: a
head's rows are copied together, and the cache, which does not hold the rows of all heads, holds those while the edges
are gone through.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, pad

from regard._heap import large
from regard.kernels import _pool
from regard.kernels._once import differentiable_once, no_vmap
from regard.kernels.forms import DotForm, Featured, LeakyForm, SplitForm, TiedForm
from regard.parts import Normalizer

if TYPE_CHECKING:
    from regard.edges import Edges

EdgeForm = DotForm | LeakyForm | SplitForm | TiedForm
Sizes = tuple[int, int, int, int, int, int]
"""Edges, heads, heads filled up to LANES, width of query and key, width of values, width of features."""
SPLIT, LEAKY, DOT = range(3)  # as in _edge_loops
LANES = 8
# Columns of a head, and numbers of all nodes' rows, from which it pays to go through the edges for each head by itself.
WIDE, MANY = 64, 2**22
PARTS = 128  # of the nodes, each with about as many edges: enough for any number of threads
# Nanoseconds of one thread: a multiplication and addition, what else an edge takes, a number drawn for dropout.
MULTIPLY, EDGE, DRAW = 0.1, 10.0, 0.5


def attend(
    form: EdgeForm,
    normalizer: Normalizer,
    value: Tensor,
    edges: Edges,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    featured: Featured | None = None,
) -> Tensor:
    """Softmax or sigmoid of the form's scores times value (N_s, H, F), summed at each target → (N_t, H, F)."""
    temperature = getattr(normalizer, "temperature", None)
    seed = torch.zeros(2, dtype=torch.int64)
    if dropout:
        seed = torch.randint(2**32, (2,), generator=generator)
    rows = edges.joined("incoming"), edges.joined("outgoing")
    scale = 1.0 if temperature is None else 1 / temperature
    if isinstance(form, TiedForm) and temperature is not None and (featured is None or featured.value is None):
        weight = form.weight if scale == 1.0 else form.weight * scale
        bias = value.new_empty(0) if featured is None else _numbers(featured, value.shape[1], scale)
        return edge_attend_tied(form.rows, weight, bias, *rows, seed, form.slope, dropout)[0]
    value, columns = _filled(value), value.shape[-1]
    kind, query, key, weight, slope = _operands(form, scale)
    features, extra, valued = value.new_empty(0, 0), value.new_empty(0), False
    if featured is not None:
        extra, valued = _extra(featured, kind, query, scale), featured.value is not None
        features = _filled(featured.features) if kind != SPLIT or valued else features
    options = (kind, slope, temperature is None, dropout, valued)
    context, blend = edge_attend(query, key, weight, value, features, extra, *rows, seed, *options)[:2]
    context = context[..., :columns]
    if featured is None or featured.value is None:
        return context
    blend = blend[..., : featured.features.shape[-1]]
    return context + _product(blend.transpose(0, 1), featured.value.mT).transpose(0, 1)


def scores(form: EdgeForm, edges: Edges, featured: Featured | None = None) -> Tensor:
    """The form's scores of the edges, (E, H), as ``edges.index`` lists them."""
    kind, query, key, weight, slope = _operands(form, 1.0)
    extra = query.new_empty(0) if featured is None else _extra(featured, kind, query, 1.0)
    if kind == SPLIT:
        source, target = edges.index
        both = query[target] + key[source]
        return leaky_relu(both if featured is None else both + extra, slope)
    rows = edges.joined("incoming"), edges.joined("outgoing")
    features = query.new_empty(0, 0) if featured is None else _filled(featured.features)
    by_source = edge_scores(query, key, weight, features, extra, *rows, kind, slope)
    edge, place = edges.outgoing.edge, edges.outgoing.place
    return by_source.index_select(0, torch.empty_like(place).index_copy(0, edge.long(), place))


def _numbers(featured: Featured, heads: int, scale: float) -> Tensor:
    """What features add to scores that take one number, (E, H)."""
    if featured.key is None:
        return (featured.features * scale).expand(-1, heads)
    return _product(featured.features, featured.key[:, 0].T * scale)


def _extra(featured: Featured, kind: int, query: Tensor, scale: float) -> Tensor:
    """What the operators make of features in scores; see `_edge_loops.score`. query is that of :func:`_operands`."""
    heads, key = query.shape[1], featured.key
    if kind == SPLIT:
        return _numbers(featured, heads, scale)
    if kind == LEAKY:
        if key is None:
            key = torch.eye(featured.features.shape[1]).expand(heads, -1, -1)
        return _filled(_filled(key.permute(2, 0, 1)).movedim(0, -1)).movedim(-1, 0)  # (K, H, D), both filled up
    if key is None:
        return query
    return _filled(_product(query[..., : key.shape[1]].transpose(0, 1), key).transpose(0, 1))  # (N_t, H, K)


def _product(x: Tensor, y: Tensor) -> Tensor:
    """x @ y in float32, which autocast would round."""
    with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
        return x @ y


def _operands(form: EdgeForm, scale: float) -> tuple[int, Tensor, Tensor, Tensor, float]:
    """kind, query, key, weight and slope for the operators, of ``scale`` times the form's scores."""
    if isinstance(form, TiedForm):
        query, key = (head_dot(_filled(form.rows), weight).T.unsqueeze(-1) for weight in _filled(form.weight))
        form = SplitForm(query, key, form.slope)
    none = form.query.new_empty(0)
    query, key = form.query.transpose(0, 1), form.key.transpose(0, 1)  # (N, H, D)
    if isinstance(form, SplitForm):
        query, key = query.squeeze(-1), key.squeeze(-1)
        if scale != 1.0:
            query, key = query * scale, key * scale  # LeakyReLU(c x) = c LeakyReLU(x) for c > 0
        return SPLIT, query, key, none, form.slope
    if isinstance(form, LeakyForm):
        weight = form.weight if scale == 1.0 else form.weight * scale
        weight = weight.expand(query.shape[1], -1)  # (H, D)
        return LEAKY, _filled(query), _filled(key), _filled(weight), form.slope
    if form.scale * scale != 1.0:
        query = query * (form.scale * scale)
    if form.bias is not None:  # a number for each key is one column more, beside a 1 for the queries
        query, key = _beside(query), _beside(key, form.bias.mT.transpose(0, 1) * scale)
    if form.shift is not None:
        query, key = _beside(query, form.shift.transpose(0, 1) * scale), _beside(key)
    return DOT, _filled(query), _filled(key), none, 0.0


def _beside(rows: Tensor, column: Tensor | None = None) -> Tensor:
    """(N, H, D) with one more column, of ones if none is given."""
    column = rows.new_ones(*rows.shape[:-1], 1) if column is None else column
    return torch.cat([rows, column], dim=-1)


def _filled(tensor: Tensor) -> Tensor:
    """(…, D) with zeros up to a multiple of LANES."""
    missing = -tensor.shape[-1] % LANES
    return pad(tensor, (0, missing)) if missing else tensor


def _attend(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    value: Tensor,
    features: Tensor,
    extra: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    seed: Tensor,
    kind: int,
    slope: float,
    sigmoid: bool,
    dropout: float,
    valued: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """query (N_t, H, D) or (N_t, H), key (N_s, H, D) or (N_s, H), weight (H, D) or (0,), value (N_s, H, F), features
    (E, K) or (0, 0), and for scores ``extra``: (0,), (E, H), (N_t, H, K) or (K, H, D), see `_edge_loops.score` →
    context (N_t, H, F), the same sums of features, (N_t, H, K), if ``valued``, and for backward minus the largest score
    and 1 / Σ exp, (N_t, lanes). D, F and K are multiples of LANES; edges come as of :meth:`regard.Edges.joined`.
    """
    from regard.kernels import _edge_loops

    check(query, key, weight, value, incoming, outgoing, kind)
    check_features(features, extra, query, outgoing, key, kind, valued)
    context, blend, low, part = _empty_attended(
        *(query, key, weight, value, features, extra, incoming, outgoing, seed),
        *(kind, slope, sigmoid, dropout, valued),
    )
    _run(
        _edge_loops.forward,
        incoming,
        _sizes(query, value, incoming, kind, features),
        (kind, sigmoid, _drop(seed, dropout), np.float32(slope)),
        *_nodes(kind, query, key),
        weight,
        value,
        features,
        extra,
        context,
        low,
        part,
        blend,
    )
    return context, blend, low, part


def _attend_backward(
    grad: Tensor,
    grad_blend: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    value: Tensor,
    features: Tensor,
    extra: Tensor,
    context: Tensor,
    blend: Tensor,
    low: Tensor,
    part: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    seed: Tensor,
    kind: int,
    slope: float,
    sigmoid: bool,
    dropout: float,
    valued: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """grad (N_t, H, F) and grad_blend (N_t, H, K) → the gradients of query, key, weight, value, features and extra."""
    from regard.kernels import _edge_loops

    sizes = _sizes(query, value, incoming, kind, features)
    grads = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (query, key, value)]
    grad_features = torch.zeros_like(features, memory_format=torch.contiguous_format)
    grad_scores = grad.new_empty(_count(incoming, query) * query.shape[1] + LANES)  # read in vectors, beyond the end
    summaries = low.new_empty(low.shape[0], 3, low.shape[1])
    q, k = _nodes(kind, query, key)
    grad, grad_blend = grad.contiguous(), grad_blend.contiguous()
    if not sigmoid:
        _run(_edge_loops.summarize, incoming, sizes, (), context, grad, low, part, blend, grad_blend, summaries)
    _run(
        _edge_loops.backward,
        outgoing,
        sizes,
        (kind, sigmoid, _drop(seed, dropout), np.float32(slope)),
        q,
        k,
        weight,
        value,
        features,
        extra,
        summaries,
        grad,
        grad_blend,
        grads[1],
        grads[2],
        grad_scores,
        grad_features,
    )
    grad_weight, grad_extra = _pull(
        incoming, sizes, kind, slope, q, k, weight, features, extra, grad_scores, grads[0], grad_features
    )
    return grads[0], grads[1], grad_weight, grads[2], grad_features, grad_extra


# Not decorated: the operator for tied rows calls them as the functions they are.
_OPERATOR: dict[str, Any] = {"mutates_args": (), "device_types": "cpu"}
edge_attend = torch.library.custom_op("regard::edge_attend", _attend, **_OPERATOR)
edge_attend_backward = torch.library.custom_op("regard::edge_attend_backward", _attend_backward, **_OPERATOR)


@torch.library.custom_op("regard::edge_attend_tied", mutates_args=(), device_types="cpu")
def edge_attend_tied(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    seed: Tensor,
    slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A softmax of SPLIT scores of nodes that look at each other: rows (N, H, F) are the values, and times weight,
    (2, H, F), the queries and keys; bias is what features add, (E, H) or (0,). → context (N, H, F), and for backward
    queries and keys, (2, N, H), and as :func:`edge_attend`; if heads are taken one by one, those are (2, H, N),
    −log Σ exp, (H, N), and (0,)."""
    from regard.kernels import _edge_loops

    check_tied(rows, weight, incoming, outgoing)
    none = rows.new_empty(0, 0)
    check_features(none, bias, rows[..., 0], outgoing, rows, SPLIT, False)
    value, weight, columns = _filled(rows).contiguous(), _filled(weight), rows.shape[2]
    context, dots, low, part = _empty_tied(value, weight)
    if not _by_head(value.shape):
        _run_even(_edge_loops.head_dots, value, weight, dots)
        arguments = (dots[0], dots[1], weight[:0], value, none, bias, incoming, outgoing, seed)
        context, _, low, part = _attend(*arguments, SPLIT, slope, False, dropout, False)
    else:
        sizes, by_head = _sizes(value, value, incoming, SPLIT, none), (_drop(seed, dropout), np.float32(slope))
        head_rows = large(value.new_empty(value.shape[0], value.shape[2]))  # the rows of one head
        large(context)
        for head in range(value.shape[1]):
            _run_even(_edge_loops.spread, value, weight, head_rows, dots, options=(head,))
            _run(_edge_loops.forward_head, incoming, sizes, (*by_head, head), dots, head_rows, bias, context, low)
    return context[..., :columns].contiguous(), dots, low, part


@torch.library.custom_op("regard::edge_attend_tied_backward", mutates_args=(), device_types="cpu")
def edge_attend_tied_backward(
    grad: Tensor,
    rows: Tensor,
    weight: Tensor,
    bias: Tensor,
    context: Tensor,
    dots: Tensor,
    low: Tensor,
    part: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    seed: Tensor,
    slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """grad (N, H, F) → the gradients of rows, weight and bias."""
    from regard.kernels import _edge_loops

    grad, value, weight, context = (_filled(tensor) for tensor in (grad, rows, weight, context))
    value, columns = value.contiguous(), rows.shape[2]
    nodes, heads, width = value.shape
    none = rows.new_empty(0, 0)
    if not _by_head(value.shape):
        state, options = (none, low, part, incoming, outgoing, seed), (SPLIT, slope, False, dropout, False)
        query, key, _, grad_rows, _, grad_bias = _attend_backward(
            grad, none, dots[0], dots[1], weight[:0], value, none, bias, context, *state, *options
        )
    else:
        sizes, by_head = _sizes(value, value, incoming, SPLIT, none), (_drop(seed, dropout), np.float32(slope))
        head_grad, summaries = large(grad.new_empty(nodes, width)), low.new_empty(nodes, 4)
        grad_rows, grad_scores = large(torch.empty_like(value)), low.new_empty(sizes[0] * heads + LANES)
        query, key = low.new_empty(2, nodes, heads)
        for head in range(heads):
            head_grad.copy_(grad[:, head])
            _run_even(_edge_loops.summarize_head, context, head_grad, dots, low, summaries, options=(head,))
            tensors = (dots, value, bias, summaries, head_grad, key, grad_rows, grad_scores)
            _run(_edge_loops.backward_head, outgoing, sizes, (*by_head, head), *tensors)
        _, grad_bias = _pull(incoming, sizes, SPLIT, slope, query, query, weight, none, bias, grad_scores, query, none)
    grad_parts = weight.new_zeros(PARTS, *weight.shape)
    _run_even(_edge_loops.add_head_dots_backward, value, weight, query, key, grad_rows, grad_parts)
    return grad_rows[..., :columns].contiguous(), _sum_parts(grad_parts)[..., :columns].contiguous(), grad_bias


@torch.library.custom_op("regard::edge_scores", mutates_args=(), device_types="cpu")
def edge_scores(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    features: Tensor,
    extra: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    kind: int,
    slope: float,
) -> Tensor:
    """query (N_t, H, D), key (N_s, H, D), weight (H, D) or (0,), features and extra as in :func:`edge_attend` → (E, H),
    sorted by source."""
    from regard.kernels import _edge_loops

    check(query, key, weight, key, incoming, outgoing, kind)
    check_features(features, extra, query, outgoing, key, kind, False)
    out = _empty_scores(query, key, weight, features, extra, incoming, outgoing, kind, slope)
    sizes = _sizes(query, key, incoming, kind, features)
    _run(_edge_loops.pairs, incoming, sizes, (kind, np.float32(slope)), query, key, weight, features, extra, out)
    return out


@torch.library.custom_op("regard::edge_scores_backward", mutates_args=(), device_types="cpu")
def edge_scores_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    features: Tensor,
    extra: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    kind: int,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """grad (E, H), sorted by source → the gradients of query, key, weight, features and extra."""
    sizes, more = _sizes(query, key, incoming, kind, features), (weight, features, extra, grad)
    grads = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (query, key)]
    grad_features = torch.zeros_like(features, memory_format=torch.contiguous_format)
    grad_weight, grad_extra = _pull(incoming, sizes, kind, slope, query, key, *more, grads[0], grad_features)
    _pull(outgoing, sizes, kind, slope, key, query, *more, grads[1])
    return grads[0], grads[1], grad_weight, grad_features, grad_extra


@torch.library.custom_op("regard::head_dot", mutates_args=(), device_types="cpu")
def head_dot(x: Tensor, weight: Tensor) -> Tensor:
    """x (N, H, D), weight (H, D) → (N, H), D a multiple of LANES."""
    from regard.kernels import _edge_loops

    if x.ndim != 3 or x.shape[1:] != weight.shape or x.shape[2] % LANES or not x.dtype == weight.dtype == torch.float32:
        raise ValueError(f"expected float32 x (N, H, D), weight (H, D), got {tuple(x.shape)}, {tuple(weight.shape)}")
    out = _empty_dots(x, weight)
    _run_even(_edge_loops.head_dot, x, weight, out)
    return out


@torch.library.custom_op("regard::head_dot_backward", mutates_args=(), device_types="cpu")
def head_dot_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """grad (N, H) → the gradients of x and weight."""
    from regard.kernels import _edge_loops

    grad_x, grad_parts = (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        weight.new_zeros(PARTS, *weight.shape),
    )
    _run_even(_edge_loops.head_dot_backward, x, weight, grad, grad_x, grad_parts)
    return grad_x, _sum_parts(grad_parts)


@torch.library.custom_op("regard::sparse_product", mutates_args=(), device_types="cpu")
def sparse_product(start: Tensor, column: Tensor, value: Tensor, matrix: Tensor) -> Tensor:
    """A sparse tensor in CSR, (N + 1,), (E,) and (E,), times (K, M), M a multiple of LANES → (N, M)."""
    from regard.kernels import _edge_loops

    if matrix.ndim != 2 or matrix.shape[1] % LANES or not value.dtype == matrix.dtype == torch.float32:
        raise ValueError(f"expected a float32 matrix, {LANES} or a multiple wide, got {tuple(matrix.shape)}")
    out = _empty_product(start, column, value, matrix)
    arrays = [t.contiguous() for t in (start.to(torch.int32), column.to(torch.int32), value, matrix, out)]
    cuts = np.empty(PARTS + 1, np.int64)
    _edge_loops.cut(arrays[0].numpy(), cuts)
    cost = column.shape[0] * (EDGE + matrix.shape[1] * MULTIPLY)
    addresses = (tensor.data_ptr() for tensor in arrays)
    _pool.run(_edge_loops.sparse_product, PARTS, cost, cuts, *addresses, matrix.shape[1])
    return out


@sparse_product.register_fake
def _empty_product(start: Tensor, column: Tensor, value: Tensor, matrix: Tensor) -> Tensor:
    return matrix.new_empty(start.shape[0] - 1, matrix.shape[1])


# torch 2.6 cannot read list[int], so the schema is written out.
_DRAWN = "(Tensor seed, SymInt[] size, float share) -> Tensor"


@torch.library.custom_op("regard::drawn", mutates_args=(), device_types="cpu", schema=_DRAWN)
def drawn(seed: Tensor, size: list[int], share: float) -> Tensor:
    """What dropout multiplies a tensor of this size by: 0 for a share of its numbers, 1 / (1 − share) for the rest."""
    from regard.kernels import _edge_loops

    vectors = -(-math.prod(size) // LANES)
    out = torch.empty(vectors * LANES, dtype=torch.float32)
    _pool.run(_edge_loops.draw_all, vectors, vectors * LANES * DRAW, out.data_ptr(), _drop(seed, share))
    return out[: math.prod(size)].view(size)


@drawn.register_fake
def _empty_drawn(seed: Tensor, size: list[int], share: float) -> Tensor:
    return torch.empty(size, dtype=torch.float32)


def short(*counts: int) -> bool:
    """Do these numbers fit into int32, which the kernels read?"""
    return max(counts) < 2**31 - 1


def sort_nodes(nodes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(E,) nodes, each below ``count`` → start (count + 1,) and order (E,): the edges of node n are
    order[start[n] : start[n + 1]], in the order they were given in. int32 where that is wide enough."""
    small = short(count, nodes.shape[0])
    if nodes.device.type == "cpu":
        return edge_sort(nodes, count, small)
    kind = torch.int32 if small else torch.int64
    order = torch.sort(nodes, stable=True).indices
    start = pad(torch.bincount(nodes, minlength=count).cumsum(0), (1, 0))
    return start.to(kind), order.to(kind)


@torch.library.custom_op("regard::edge_sort", mutates_args=(), device_types="cpu")
def edge_sort(nodes: Tensor, count: int, short: bool) -> tuple[Tensor, Tensor]:
    """As :func:`sort_nodes`, on the CPU."""
    from regard.kernels import _edge_loops

    start, order = _empty_sorted(nodes, count, short)
    _edge_loops.sort(*_pool.arrays(nodes, start, order))
    return start, order


@edge_attend.register_fake
def _empty_attended(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    value: Tensor,
    features: Tensor,
    extra: Tensor,
    incoming: Tensor,
    outgoing: Tensor,
    seed: Tensor,
    kind: int,
    slope: float,
    sigmoid: bool,
    dropout: float,
    valued: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    targets, lanes = query.shape[0], query.shape[1] + -query.shape[1] % LANES
    context = value.new_empty(targets, *value.shape[1:])
    blend = value.new_empty(targets if valued else 0, value.shape[1], features.shape[1])
    shape = (0 if sigmoid else targets, lanes)
    return context, blend, value.new_empty(shape), value.new_empty(shape)


@edge_attend_backward.register_fake
def _empty_gradients(
    grad: Tensor,
    grad_blend: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    value: Tensor,
    features: Tensor,
    extra: Tensor,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, weight, value, features, extra = (
        tensor.new_empty(tensor.shape) for tensor in (query, key, weight, value, features, extra)
    )
    return query, key, weight, value, features, extra


@edge_attend_tied.register_fake
def _empty_tied(rows: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, heads = rows.shape[:2]
    context = rows.new_empty(rows.shape)
    if not _by_head(rows.shape):
        state = (nodes, heads + -heads % LANES)
        return context, rows.new_empty(2, nodes, heads), rows.new_empty(state), rows.new_empty(state)
    return context, rows.new_empty(2, heads, nodes), rows.new_empty(heads, nodes), rows.new_empty(0)


@edge_attend_tied_backward.register_fake
def _empty_tied_gradients(
    grad: Tensor, rows: Tensor, weight: Tensor, bias: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return rows.new_empty(rows.shape), weight.new_empty(weight.shape), bias.new_empty(bias.shape)


@edge_scores.register_fake
def _empty_scores(
    query: Tensor, key: Tensor, weight: Tensor, features: Tensor, extra: Tensor, incoming: Tensor, *_: Any
) -> Tensor:
    return query.new_empty(_count(incoming, query), query.shape[1])


@edge_scores_backward.register_fake
def _empty_score_gradients(
    grad: Tensor, query: Tensor, key: Tensor, weight: Tensor, features: Tensor, extra: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, weight, features, extra = (t.new_empty(t.shape) for t in (query, key, weight, features, extra))
    return query, key, weight, features, extra


@head_dot.register_fake
def _empty_dots(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[:2])


@head_dot_backward.register_fake
def _empty_dot_gradients(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


@edge_sort.register_fake
def _empty_sorted(nodes: Tensor, count: int, short: bool) -> tuple[Tensor, Tensor]:
    kind = torch.int32 if short else torch.int64
    return nodes.new_empty(count + 1, dtype=kind), nodes.new_empty(nodes.shape[0], dtype=kind)


def _count(rows: Tensor, nodes: Tensor) -> int:
    """How many edges are joined there, which have these nodes at their one end."""
    return (rows.shape[0] - nodes.shape[0] - 1) // 3


def check(
    query: Tensor, key: Tensor, weight: Tensor, value: Tensor, incoming: Tensor, outgoing: Tensor, kind: int
) -> None:
    """Refuse what the kernels would misread: a compiled loop checks no bounds."""
    rank = 2 if kind == SPLIT else 3
    fits = query.ndim == key.ndim == rank and value.ndim == 3 and query.shape[1:] == key.shape[1:]
    fits = fits and query.shape[1] == value.shape[1] and key.shape[0] == value.shape[0]
    fits = fits and value.shape[2] % LANES == 0 and (kind == SPLIT or query.shape[2] % LANES == 0)
    fits = fits and (kind != LEAKY or weight.shape == query.shape[1:])
    fits = fits and incoming.shape[0] == query.shape[0] + 1 + 3 * _count(outgoing, key)
    if not fits:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, weight, value, incoming, outgoing))
        raise ValueError(f"shapes that do not belong together: {shapes}; see the operator's docstring")
    if not query.dtype == key.dtype == weight.dtype == value.dtype == torch.float32:
        raise ValueError(f"the edge kernels are for float32, not {query.dtype}, {key.dtype}, {value.dtype}")
    if not incoming.dtype == outgoing.dtype == torch.int32:
        raise ValueError(f"the edge kernels number edges in int32, not {incoming.dtype}, {outgoing.dtype}")


def check_features(
    features: Tensor, extra: Tensor, query: Tensor, outgoing: Tensor, key: Tensor, kind: int, valued: bool
) -> None:
    """:func:`check` for features of edges."""
    edges, heads, wide = _count(outgoing, key), query.shape[1], features.shape[-1]
    has_features = features.shape == (edges, wide) and wide and wide % LANES == 0
    fitting = {SPLIT: (edges, heads), DOT: (query.shape[0], heads, wide), LEAKY: (wide, heads, query.shape[-1])}
    scored = extra.shape != (0,)
    needed = valued or (scored and kind != SPLIT)
    if (scored and extra.shape != fitting[kind]) or not (has_features or (features.shape == (0, 0) and not needed)):
        shapes = f"{edges} edges, {heads} heads, {tuple(features.shape)}, {tuple(extra.shape)}"
        raise ValueError(f"shapes that do not belong together: {shapes}; see the operator's docstring")
    if not features.dtype == extra.dtype == torch.float32:
        raise ValueError(f"the edge kernels are for float32, not {features.dtype}, {extra.dtype}")


def check_tied(rows: Tensor, weight: Tensor, incoming: Tensor, outgoing: Tensor) -> None:
    """:func:`check` for nodes that are sources and targets."""
    if rows.ndim != 3 or weight.shape != (2, *rows.shape[1:]):
        shapes = f"{tuple(rows.shape)}, {tuple(weight.shape)}"
        raise ValueError(f"shapes that do not belong together: {shapes}; see the operator's docstring")
    value = _filled(rows)
    check(value, value, _filled(weight[0]), value, incoming, outgoing, LEAKY)


def _by_head(shape: torch.Size) -> bool:
    """Are the heads of rows of this shape, (N, H, F), taken one by one?"""
    nodes, heads, columns = shape
    columns += -columns % LANES
    return columns >= WIDE and (heads == 1 or nodes * heads * columns >= MANY)


def _sizes(query: Tensor, value: Tensor, incoming: Tensor, kind: int, features: Tensor) -> Sizes:
    heads = query.shape[1]
    width = 1 if kind == SPLIT else query.shape[2]
    return _count(incoming, query), heads, heads + -heads % LANES, width, value.shape[2], features.shape[1]


def _nodes(kind: int, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return (_filled(query), _filled(key)) if kind == SPLIT else (query, key)


def _drop(seed: Tensor, share: float) -> tuple[np.uint32, np.uint32, np.uint32, np.float32]:
    first, second = (np.uint32(word) for word in seed.tolist())
    limit = np.uint32(min(round(share * 2**32), 2**32 - 1))
    return first, second, limit, np.float32(0.0 if share == 1.0 else 1 / (1 - share))


def _run(kernel: Any, rows: Tensor, sizes: Sizes, options: tuple[Any, ...], *tensors: Tensor) -> None:
    """Run a kernel over the parts of the nodes that ``rows`` sorts edges by."""
    from regard.kernels import _edge_loops

    rows, arrays = rows.contiguous(), [tensor.contiguous() for tensor in tensors]  # alive until the kernel is done
    edges, heads, _, width, columns, wide = sizes
    nodes = rows.shape[0] - 3 * edges - 1
    cuts = np.empty(PARTS + 1, np.int64)
    _edge_loops.cut(rows.numpy()[: nodes + 1], cuts)
    start = rows.data_ptr()
    node = start + 4 * (nodes + 1)
    place = node + 4 * edges
    rows_at = (start, node, place, place + 4 * edges)
    cost = edges * (EDGE + heads * (width + columns + wide) * MULTIPLY) + nodes * heads * columns * MULTIPLY
    addresses = (tensor.data_ptr() for tensor in arrays)
    _pool.run(kernel, PARTS, cost, cuts, rows_at, sizes, *options, *addresses)


def _pull(
    rows: Tensor,
    sizes: Sizes,
    kind: int,
    slope: float,
    own_rows: Tensor,
    other_rows: Tensor,
    weight: Tensor,
    features: Tensor,
    extra: Tensor,
    grad_scores: Tensor,
    out: Tensor,
    grad_features: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Into ``out`` the gradients of the rows of nodes; returns those of the weight and, if ``rows`` sorts by target and
    so grad_features is given, to which is added, of ``extra``."""
    from regard.kernels import _edge_loops

    weight_parts = weight.new_zeros(PARTS if kind == LEAKY else 0, *weight.shape)
    needs_extra, leaky = grad_features is not None and extra.numel() > 0, kind == LEAKY and extra.numel() > 0
    grad_extra, weighted = extra.new_empty(0), extra * weight if leaky else extra.new_empty(0)
    if needs_extra:
        grad_extra = extra.new_zeros((PARTS, *extra.shape) if leaky else extra.shape)
    arrays = (own_rows, other_rows, weight, features, extra, weighted, grad_scores, out, weight_parts, grad_extra)
    grad_features = features if grad_features is None else grad_features  # to which nothing is written then
    _run(_edge_loops.pull, rows, sizes, (kind, np.float32(slope)), *arrays, grad_features)
    grad_weight = _sum_parts(weight_parts) if kind == LEAKY else torch.empty_like(weight)
    if not needs_extra:
        return grad_weight, torch.zeros_like(extra, memory_format=torch.contiguous_format)
    return grad_weight, _sum_parts(grad_extra) * weight if leaky else grad_extra


def _run_even(kernel: Any, *tensors: Tensor, options: tuple[Any, ...] = ()) -> None:
    """Run a kernel over parts of equally many nodes of the first of the tensors, (N, H, D)."""
    nodes, heads, width = tensors[0].shape
    arrays = [tensor.contiguous() for tensor in tensors]
    addresses = [tensor.data_ptr() for tensor in arrays]
    cuts = np.arange(PARTS + 1) * nodes // PARTS
    _pool.run(kernel, PARTS, 2 * nodes * heads * width * MULTIPLY, cuts, (heads, width), *options, *addresses)


def _sum_parts(parts: Tensor) -> Tensor:
    """The sum over parts, in numpy: torch would wake all its threads for this little and wait for them."""
    return torch.from_numpy(parts.numpy().sum(0, dtype=np.float64).astype(np.float32))


def _save(ctx, inputs, output):
    *tensors, incoming, outgoing, seed = inputs[:9]
    ctx.options = inputs[9:]
    ctx.save_for_backward(*tensors, *output, incoming, outgoing, seed)


def _backward(ctx, grad, grad_blend, *_):
    return *edge_attend_backward(grad, grad_blend, *ctx.saved_tensors, *ctx.options), *(None,) * 8


def _save_tied(ctx, inputs, output):
    rows, weight, bias, incoming, outgoing, seed, *ctx.options = inputs
    ctx.save_for_backward(rows, weight, bias, *output, incoming, outgoing, seed)


def _backward_tied(ctx, grad, *_):
    return *edge_attend_tied_backward(grad, *ctx.saved_tensors, *ctx.options), *(None,) * 5


def _save_scores(ctx, inputs, output):
    *tensors, kind, slope = inputs
    ctx.options = kind, slope
    ctx.save_for_backward(*tensors)


def _backward_scores(ctx, grad):
    return *edge_scores_backward(grad, *ctx.saved_tensors, *ctx.options), *(None,) * 4


def _save_dot(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward_dot(ctx, grad):
    return head_dot_backward(grad, *ctx.saved_tensors)


head_dot.register_autograd(_backward_dot, setup_context=_save_dot)
edge_attend.register_autograd(_backward, setup_context=_save)
edge_attend_tied.register_autograd(_backward_tied, setup_context=_save_tied)
edge_scores.register_autograd(_backward_scores, setup_context=_save_scores)
for _op in (edge_attend, edge_attend_tied, edge_scores, head_dot):
    _op.register_vmap(no_vmap)
for _op in (edge_attend_backward, edge_attend_tied_backward, edge_scores_backward, head_dot_backward):
    differentiable_once(_op)
