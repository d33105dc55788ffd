"""Attention along edges: against loops, against dense attention, against PyG, and what must not happen."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracle
import oracle_edges
import regard
from regard import EdgeAttention, Edges, attend_edges
from regard.normalizers import Sigmoid, Softmax
from regard.scores import Additive, Cosine, Dot, Gaussian, General, LeakyAdditive, LeakyConcat, ScaledDot


def array(tensor):
    return tensor.detach().double().numpy()


def leaky_concat(d, h):
    score = LeakyConcat(d, d, heads=h)
    return score, [partial(oracle.leaky_concat, query=array(score.query)[n], key=array(score.key)[n]) for n in range(h)]


def leaky_additive(d, h):
    score = LeakyAdditive(d, heads=h)
    return score, [partial(oracle.leaky_additive, v=array(score.v)[n]) for n in range(h)]


def shared(make, rule, numbers):
    """A score that all heads share."""

    def build(d, h):
        score = make(d)
        return score, [partial(rule, **numbers(score))] * h

    return build


SCORES = {
    "leaky_concat": leaky_concat,
    "leaky_additive": leaky_additive,
    "leaky_concat, shared": shared(
        lambda d: LeakyConcat(d, d), oracle.leaky_concat, lambda s: {"query": array(s.query), "key": array(s.key)}
    ),
    "leaky_additive, shared": shared(LeakyAdditive, oracle.leaky_additive, lambda s: {"v": array(s.v)}),
    "dot": shared(lambda d: Dot(), oracle.dot, lambda s: {}),
    "scaled_dot": shared(lambda d: ScaledDot(), oracle.scaled_dot, lambda s: {}),
    "general": shared(lambda d: General(d, d), oracle.general, lambda s: {"w": array(s.key.weight)}),
    "cosine": shared(lambda d: Cosine(gain=2.0), oracle.cosine, lambda s: {"gain": 2.0}),
    "gaussian": shared(lambda d: Gaussian(), oracle.gaussian, lambda s: {}),
    "additive": shared(
        lambda d: Additive(d, d, 3), oracle.additive, lambda s: {"w": array(s.joint.weight), "v": array(s.v)}
    ),
}
NORMALIZERS = {
    "softmax": lambda: Softmax(),
    "softmax, τ=2": lambda: Softmax(2.0),
    "sigmoid": lambda: Sigmoid(),
}


def draw(nodes=6, edges=14, heads=2, width=3, columns=4, targets=None, seed=0):
    """query, key, value in float64 and an index; some nodes have no edge, some edges come twice."""
    generator = torch.Generator().manual_seed(seed)
    targets = nodes if targets is None else targets
    sizes = ((targets, heads, width), (nodes, heads, width), (nodes, heads, columns))
    tensors = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes]
    ends = [torch.randint(max(n, 1), (edges if n else 0,), generator=generator) for n in (nodes, targets)]
    return *tensors, torch.stack([end[: min(map(len, ends))] for end in ends])


# ---------------------------------------------------------------------------------------------------------
# the equation


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("name", SCORES)
def test_equation(name, normalizer):
    """Plain in float64 and whatever is chosen for float32, on graphs of any shape."""

    @settings(max_examples=60)
    @given(
        st.integers(1, 6),
        st.one_of(st.none(), st.integers(1, 4)),
        st.integers(0, 15),
        st.integers(1, 3),
        st.integers(1, 4),
        st.integers(0, 2**16),
    )
    def check(nodes, targets, edges, heads, width, seed):
        torch.manual_seed(seed)
        score, rules = SCORES[name](width, heads)
        attention = EdgeAttention(score, NORMALIZERS[normalizer]())
        *inputs, index = draw(nodes, edges, heads, width, 1 + seed % 9, targets, seed)
        graph = Edges(index, (nodes, nodes if targets is None else targets))
        more = {"temperature": 2.0} if "τ" in normalizer else {}
        kind = normalizer.split(",")[0]
        expected = oracle_edges.attend(*map(array, inputs), index.T.tolist(), rules, kind, **more)
        for dtype, limit in ((torch.float32, 2e-5), (torch.float64, 1e-6)):  # the parameters are float32 numbers
            out = attention.to(dtype)(*(x.to(dtype) for x in inputs), graph)
            size = 1 + max(np.abs(x).max(initial=0.0) for x in expected)
            for found, right in zip((out.context, out.weights, out.scores), expected, strict=True):
                assert found.dtype == dtype and tuple(found.shape) == right.shape
                np.testing.assert_allclose(array(found), right, atol=limit * size)
            assert out.edges is graph

    check()


@pytest.mark.parametrize("name", SCORES)
def test_gradients(name):
    torch.manual_seed(1)
    attention = EdgeAttention(SCORES[name](3, 2)[0]).double()
    *inputs, index = draw(seed=1)
    graph = Edges(index, 6)
    leaves = [x.requires_grad_() for x in inputs]

    def both(*leaves):
        out = attention(*leaves[:3], graph)
        return out.context, out.weights

    assert torch.autograd.gradcheck(both, leaves)
    assert torch.autograd.gradgradcheck(lambda *x: both(*x)[0], leaves)


@pytest.mark.parametrize("name", ["scaled_dot", "leaky_concat", "leaky_additive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_complete_graph_is_dense_attention(name, dtype):
    score = SCORES[name](3, 2)[0].to(dtype)
    query, key, value, _ = (x.to(dtype) for x in draw(5, 0, targets=4))
    index = torch.cartesian_prod(torch.arange(5), torch.arange(4)).T
    out = EdgeAttention(score)(query, key, value, index)
    dense = regard.Attention(score)(*(x.transpose(0, 1) for x in (query, key, value)))
    torch.testing.assert_close(out.context, dense.context.transpose(0, 1), atol=1e-5, rtol=1e-5)
    weights = out.weights.reshape(5, 4, 2).permute(2, 1, 0)
    torch.testing.assert_close(weights, dense.weights, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_heads(dtype):
    query, key, value, index = draw(heads=1)
    query, key, value = (x.to(dtype) for x in (query, key, value))
    many, one = attend_edges(query, key, value, index), attend_edges(query[:, 0], key[:, 0], value[:, 0], index)
    assert one.context.shape == (6, 4) and one.weights.shape == (14, 1)
    torch.testing.assert_close(one.context, many.context[:, 0])
    keys_alone = attend_edges(query[:, 0], key[:, 0], None, index)
    torch.testing.assert_close(keys_alone.context, attend_edges(query, key, key, index).context[:, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nobody_to_look_at(dtype):
    """A target without an edge gets 0, and zero gradients; so does a graph without edges, or without nodes."""
    *inputs, _ = draw()
    inputs = [x.to(dtype).requires_grad_() for x in inputs]
    index = torch.tensor([[0, 1, 1], [2, 2, 4]])
    for normalizer in ("softmax", "sigmoid"):
        out = attend_edges(*inputs, index, normalizer=normalizer)
        assert not out.context[[0, 1, 3, 5]].any() and out.context[[2, 4]].all()
        grads = torch.autograd.grad(out.context.sum(), inputs)
        assert all(g.isfinite().all() for g in grads) and not grads[2][[2, 3, 4, 5]].any()
        nothing = attend_edges(*inputs, index[:, :0], normalizer=normalizer)
        assert not nothing.context.any() and nothing.weights.shape == (0, 2)
        assert not any(g.any() for g in torch.autograd.grad(nothing.context.sum(), inputs))
    none = attend_edges(*(x[:0] for x in inputs), index[:, :0])
    assert none.context.shape == (0, 2, 4)


def test_gat_cannot_rank_keys_by_the_query_and_gatv2_can():
    """Brody et al. 2021, section 3: with LeakyReLU(a·[q; k]) every query has the same favourite."""
    torch.manual_seed(0)
    query, key = torch.randn(40, 1, 8), torch.randn(10, 1, 8)
    index = torch.cartesian_prod(torch.arange(10), torch.arange(40)).T
    favourites = {}
    for score in (LeakyConcat(8, 8, heads=1), LeakyAdditive(8, heads=1)):
        weights = EdgeAttention(score)(query, key, None, index).weights.reshape(10, 40)
        favourites[type(score).__name__] = len(set(weights.argmax(0).tolist()))
    assert favourites["LeakyConcat"] == 1 < favourites["LeakyAdditive"]


# ---------------------------------------------------------------------------------------------------------
# invariance


@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_names_of_nodes_and_order_of_edges_do_not_matter(name):
    score = SCORES[name](3, 2)[0]
    attention = EdgeAttention(score)

    @given(st.integers(1, 8), st.integers(0, 30), st.integers(0, 2**16))
    def check(nodes, edges, seed):
        query, key, value, index = draw(nodes, edges, seed=seed)
        query, key, value = (x.float() for x in (query, key, value))
        generator = torch.Generator().manual_seed(seed)
        named, order = torch.randperm(nodes, generator=generator), torch.randperm(index.shape[1], generator=generator)
        before = attention(query, key, value, Edges(index, nodes))
        moved = [torch.empty_like(x).index_copy(0, named, x) for x in (query, key, value)]
        after = attention(*moved, Edges(named[index[:, order]], nodes))
        torch.testing.assert_close(after.context[named], before.context, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(after.weights, before.weights[order], atol=1e-5, rtol=1e-5)

    check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_of_graphs_is_each_alone(dtype):
    graphs, inputs = [], []
    for seed, nodes in enumerate((3, 1, 6)):
        *x, index = draw(nodes, 4 * seed, seed=seed)
        inputs.append([t.to(dtype) for t in x])
        graphs.append(Edges(index, nodes, self_loops=seed == 2))
    together = Edges.batch(graphs)
    assert together.nodes == (10, 10) and len(together) == sum(map(len, graphs))
    out = attend_edges(*(torch.cat(x) for x in zip(*inputs)), together)
    alone = [attend_edges(*x, graph) for x, graph in zip(inputs, graphs)]
    torch.testing.assert_close(out.context, torch.cat([one.context for one in alone]))
    torch.testing.assert_close(out.weights, torch.cat([one.weights for one in alone]))
    with pytest.raises(ValueError, match="at least one"):
        Edges.batch([])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_nan_stays_where_it_can_be_seen(name, dtype):
    query, key, value, _ = (x.to(dtype) for x in draw())
    index = [(0, 1), (2, 1), (3, 4), (5, 4), (0, 0)]
    score = SCORES[name](3, 2)[0].to(dtype)
    for place, seen in ((0, query), (1, key), (2, value)):
        broken = seen.clone()
        broken[2 if place else 1] = torch.nan
        inputs = [broken if n == place else x for n, x in enumerate((query, key, value))]
        for normalizer in ("softmax", "sigmoid"):
            out = EdgeAttention(score, normalizer)(*inputs, torch.tensor(index).T)
            assert 2 in oracle_edges.reaches(index, 1)
            assert out.context[1].isnan().all() and out.context[[0, 2, 3, 4, 5]].isfinite().all()
            assert out.weights[2:].isfinite().all() and (place == 2 or out.weights[1].isnan().all())


# ---------------------------------------------------------------------------------------------------------
# edges


@given(st.integers(1, 7), st.integers(0, 20), st.integers(0, 2**16))
def test_rows_are_the_edges(nodes, edges, seed):
    index = draw(nodes, edges, targets=nodes + 1, seed=seed)[3]
    graph = Edges(index, (nodes, nodes + 1))
    for rows, end in ((graph.incoming, 1), (graph.outgoing, 0)):
        start, node, place, edge = (x.tolist() for x in rows)
        assert sorted(edge) == sorted(place) == list(range(edges)) and start[0] == 0 and start[-1] == edges
        for n in range(graph.nodes[end]):
            mine = range(start[n], start[n + 1])
            assert all(index[end, edge[at]] == n and index[1 - end, edge[at]] == node[at] for at in mine)
            assert [node[at] for at in mine] == sorted(node[at] for at in mine)
        assert [graph.outgoing.edge[at] for at in place] == edge
    assert graph.joined("incoming") is graph.joined("incoming")


@given(st.integers(1, 7), st.integers(0, 20), st.integers(0, 2**16))
def test_self_loops_come_last_and_once(nodes, edges, seed):
    index = draw(nodes, edges, seed=seed)[3]
    graph = Edges(index, nodes, self_loops=True)
    assert graph.index.T.tolist() == [list(e) for e in oracle_edges.self_loops(index.T.tolist(), nodes)]
    assert Edges(index, nodes).index.equal(index)


def test_edges_of_many_kinds():
    index = torch.tensor([[0, 3], [1, 1]], dtype=torch.int32)
    graph = Edges.of(index)
    assert graph.nodes == (4, 4) and len(graph) == 2 and graph.index.dtype == torch.int64
    index[0, 0] = 99
    assert graph.index[0, 0] == 0, "edges are a copy: the kernels read what was checked"
    index[0, 0] = 0
    assert Edges.of(graph) is graph and graph.to("cpu") is graph and repr(graph) == "Edges(4 nodes, 2 edges)"
    bipartite = Edges(index, (4, 2), self_loops=True)
    assert bipartite.index.T.tolist() == [[0, 1], [3, 1], [0, 0], [1, 1]]
    assert repr(bipartite) == "Edges(4 sources, 2 targets, 4 edges)"
    _ = bipartite.incoming
    moved = bipartite.to("meta")
    assert moved.index.device.type == "meta" and moved.incoming.start.device.type == "meta"
    leaves, about = torch.utils._pytree.tree_flatten(bipartite)
    again = torch.utils._pytree.tree_unflatten(leaves, about)
    assert again.index.equal(bipartite.index) and again.nodes == (4, 2)
    assert all(a.equal(b) for a, b in zip(again.incoming, bipartite.incoming))
    assert copy.deepcopy(bipartite).incoming.edge.equal(bipartite.incoming.edge)


# ---------------------------------------------------------------------------------------------------------
# weights, dropout, tape


def test_weights_when_asked():
    *inputs, index = draw()
    inputs = [x.float() for x in inputs]
    for want, held in ((True, True), ("lazy", True), (False, False)):
        for kernel in ("plain", "fused"):
            with regard.kernels.use(kernel):
                out = attend_edges(*inputs, index, weights=want)
            assert (out.weights is not None) == (out.scores is not None) == held
    assert "when read" in repr(attend_edges(*inputs, index))


def test_the_record_is_a_tree():
    *inputs, index = draw()
    out = attend_edges(*inputs, Edges(index, 6, self_loops=True), weights=True)
    again = torch.utils._pytree.tree_map(lambda x: x + 0, out)
    assert again.weights.equal(out.weights) and again.edges.index.equal(out.edges.index)


def test_lazy_weights_do_not_follow_the_optimizer():
    attention = EdgeAttention(LeakyAdditive(3, heads=2))
    *inputs, index = (x.float() if x.is_floating_point() else x for x in draw())
    expected = attention(*inputs, index, weights=True).weights
    out = attention(*inputs, index)
    with torch.no_grad():
        attention.score.v += 1
    torch.testing.assert_close(out.weights, expected)


@pytest.mark.parametrize("kernel", ["plain", "fused"])
def test_dropout(kernel):
    """Weights are shown before it; it is off in evaluation, follows the generator, and keeps the mean."""
    nodes = 4000
    index = torch.stack([torch.arange(nodes), torch.arange(nodes)])
    query, key, value = torch.randn(nodes, 2, 8), torch.randn(nodes, 2, 8), torch.ones(nodes, 2, 8)
    attention = EdgeAttention("scaled_dot", dropout=0.6)
    with regard.kernels.use(kernel):
        calls = [attention(query, key, value, index, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
        torch.manual_seed(3)
        one = attention(query, key, value, index).context
        torch.manual_seed(3)
        assert one.equal(attention(query, key, value, index).context)
        everything = attend_edges(query, key, value, index, dropout=1.0)
        still = attention.eval()(query, key, value, index)
    assert calls[0].context.equal(calls[1].context) and not calls[0].context.equal(calls[2].context)
    kept = calls[0].context[..., 0]
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 2.5]))
    assert abs(kept.count_nonzero() / kept.numel() - 0.4) < 0.03
    assert calls[0].weights.eq(1).all() and not everything.context.any() and still.context.eq(1).all()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = EdgeAttention(LeakyConcat(8, 8, heads=2), dropout=0.5)

    def forward(self, x, edges):
        x = self.first(x, x, x, edges, weights=False).context
        return attend_edges(x, x, x, edges).context


@pytest.mark.parametrize("kernel", ["auto", "plain"])
def test_the_tape_sees_edges(kernel, tmp_path):
    net, x, index = Net(), torch.randn(5, 2, 8), torch.tensor([[0, 1, 4], [1, 1, 0]])
    graph = Edges(index, 5, self_loops=True)
    with nullcontext() if kernel == "auto" else regard.kernels.use(kernel):
        torch.manual_seed(0)
        expected = net(x, graph)
        with regard.record(net) as tape:
            torch.manual_seed(0)
            assert net(x, graph).equal(expected)
    assert tape.names() == ["first", "net"]
    tape.save(tmp_path / "tape.safetensors")
    for found in (tape, regard.Tape.load(tmp_path / "tape.safetensors")):
        assert found["first"].calls[0].kind == "leaky_concat, softmax"
        assert found["first"].calls[0].edges.equal(graph.index)
        weights = found["first"].weights
        assert weights.shape == (len(graph), 2)
        sums = torch.zeros(5, 2).index_add(0, graph.index[1], weights)
        torch.testing.assert_close(sums, torch.ones(5, 2))
    with regard.record(net) as tape:
        net(x, graph), net(x, graph)
    assert len(tape["first"].calls) == 2
    with pytest.raises(ValueError, match=r"read \.calls"):
        _ = tape["first"].weights


# ---------------------------------------------------------------------------------------------------------
# torch


def test_vmap_by_the_plain_path():
    query, key, value, index = (x.float() if x.is_floating_point() else x for x in draw())
    queries = torch.stack([query, query + 1])
    graph = Edges(index, 6)
    found = torch.vmap(lambda q: attend_edges(q, key, value, graph).context)(queries)
    torch.testing.assert_close(found[1], attend_edges(query + 1, key, value, graph).context, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype):
    *inputs, index = draw(20, 300)
    exact = attend_edges(*inputs, index)
    out = attend_edges(*(x.to(dtype) for x in inputs), index)
    assert out.context.dtype == out.weights.dtype == dtype
    torch.testing.assert_close(out.context.double(), exact.context, atol=5e-2, rtol=5e-2)
    attention = EdgeAttention(General(3, 3))
    with torch.autocast("cpu", dtype=dtype):
        near = attention(*(x.float() for x in inputs), index).context.float()
    torch.testing.assert_close(near, attention(*(x.float() for x in inputs), index).context, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_halves_are_those_of_float32_rounded_once(name, tied):
    """And so never a row for each edge, under autocast either."""
    torch.manual_seed(0)
    attention, index = EdgeAttention(SCORES[name](8, 2)[0]).bfloat16(), torch.randint(20, (2, 300))
    rows = [torch.randn(20, 2, 8).bfloat16() for _ in range(3)]

    def called(dtype):
        given = [x.to(dtype, copy=True).requires_grad_() for x in rows]
        out = attention.to(dtype)(*([given[0]] * 3 if tied else given), index)
        out.context.float().sum().backward()
        return out, given[0].grad

    out, grad = called(torch.bfloat16)
    exact, wanted = called(torch.float32)
    assert out.context.dtype == out.weights.dtype == out.scores.dtype == grad.dtype == torch.bfloat16
    if name != "leaky_concat" or tied:  # the two numbers of a node are themselves halves otherwise
        assert torch.equal(out.context, exact.context.bfloat16())
        assert torch.equal(out.weights, exact.weights.bfloat16())
    torch.testing.assert_close(out.weights.float(), exact.weights, atol=1e-2, rtol=3e-2)
    torch.testing.assert_close(grad.float(), wanted, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_compile(name):
    torch._dynamo.reset()
    attention = EdgeAttention(SCORES[name](8, 2)[0])
    *inputs, index = (x.float() if x.is_floating_point() else x for x in draw(width=8, columns=8))
    graph = Edges(index, 6)
    leaves = [x.requires_grad_() for x in inputs]

    def step(query, key, value, graph):
        out = attention(query, key, value, graph, weights=True)
        return out.context, out.weights

    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        context, weights = function(*leaves, graph)
        loss = context.square().sum() + weights.square().sum()
        results.append([context, weights, *torch.autograd.grad(loss, [*leaves, *attention.parameters()])])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)


# ---------------------------------------------------------------------------------------------------------
# PyG


def layers(pyg, kind, loops, heads=3, width=8, features=5):
    """PyG's layer and, with the same numbers, ours as a function of features and edges."""
    torch.manual_seed(0)
    cls = pyg.nn.GATConv if kind == "gat" else pyg.nn.GATv2Conv
    theirs = cls(features, width, heads=heads, add_self_loops=loops, bias=False)
    if kind == "gat":
        score = LeakyConcat(width, width, heads=heads)
        pairs = [(score.query, theirs.att_dst), (score.key, theirs.att_src)]
    else:
        score = LeakyAdditive(width, heads=heads)
        pairs = [(score.v, theirs.att)]
    with torch.no_grad():
        for ours, other in pairs:
            ours.copy_(other[0])
    attention = EdgeAttention(score)

    def ours(x, edges):
        if kind == "gat":
            query = key = theirs.lin(x).unflatten(-1, (heads, width))
        else:
            query = theirs.lin_r(x).unflatten(-1, (heads, width))
            key = theirs.lin_l(x).unflatten(-1, (heads, width))
        return attention(query, key, key, edges)

    return theirs, ours, pairs


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("kind", ["gat", "gatv2"])
def test_equals_pyg(kind, loops):
    """Outputs, weights and gradients; unsorted and duplicate edges, self-loops and isolated nodes included."""
    pyg = pytest.importorskip("torch_geometric")
    theirs, ours, pairs = layers(pyg, kind, loops)
    index = torch.randint(18, (2, 90), generator=torch.Generator().manual_seed(4))  # nodes 18 and 19 are alone
    index = torch.cat([index, index[:, :5], torch.tensor([[3, 3, 7], [3, 3, 7]])], dim=1)
    results = []
    for run in ("theirs", "ours"):
        x = torch.randn(20, 5, generator=torch.Generator().manual_seed(5)).requires_grad_()
        if run == "theirs":
            context, (edges, weights) = theirs(x, index, return_attention_weights=True)
            attended = [other for _, other in pairs]
        else:
            out = ours(x, Edges(index, 20, self_loops=loops))
            context, edges, weights = out.context.flatten(1), out.edges.index, out.weights
            attended = [mine for mine, _ in pairs]
        slopes = torch.linspace(-1, 1, context.numel()).view_as(context)
        projections = [p for name, p in theirs.named_parameters() if name.startswith("lin") and p.ndim == 2]
        grads = torch.autograd.grad((context * slopes).sum(), [x, *projections, *attended])
        results.append([edges, context, weights, *(g.reshape(-1) for g in grads)])
    assert results[0][0].equal(results[1][0])
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------------------------------------------------
# features of edges


def features_of(name, wide=3, heads=2, width=3, columns=4, normalizer="softmax", valued=True):
    """An attention with features, and the score of each head for the oracle, on keys as the score projects them."""
    score, rules = SCORES[name](width, heads)
    more = {"edge_dim": wide, "value_dim": columns if valued else None, "heads": heads, "key_dim": width}
    return EdgeAttention(score, normalizer, **more), rules


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
@pytest.mark.parametrize("name", ["leaky_additive", "dot", "scaled_dot", "gaussian"])
def test_equation_with_features(name, normalizer):
    @settings(max_examples=40)
    @given(st.integers(1, 6), st.integers(0, 15), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**16))
    def check(nodes, edges, heads, width, seed):
        torch.manual_seed(seed)
        wide, columns = 1 + seed % 10, 1 + seed % 9
        attention, rules = features_of(name, wide, heads, width, columns, normalizer, valued=seed % 3 > 0)
        *inputs, index = draw(nodes, edges, heads, width, columns, None, seed)
        features = torch.randn(len(index[0]), wide, dtype=torch.float64)
        more = [None if w is None else oracle_edges.project(array(features), array(w)) for w in weights_of(attention)]
        expected = oracle_edges.attend(
            *map(array, inputs), index.T.tolist(), rules, normalizer, for_key=more[0], for_value=more[1]
        )
        same_as_oracle(attention, inputs, Edges(index, nodes), features, expected)

    check()


@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_equation_of_gat_with_features(normalizer):
    """LeakyReLU(a·[q; k; f]): queries and keys with the features beside them are what the oracle scores."""

    @settings(max_examples=40)
    @given(st.integers(1, 6), st.integers(0, 15), st.integers(1, 3), st.integers(0, 2**16))
    def check(nodes, edges, heads, seed):
        torch.manual_seed(seed)
        wide = 1 + seed % 10
        attention, _ = features_of("leaky_concat", wide, heads, normalizer=normalizer, valued=False)
        *inputs, index = draw(nodes, edges, heads, seed=seed)
        features = torch.randn(len(index[0]), wide, dtype=torch.float64)
        score, edge = attention.score, array(attention.edge_key)[:, 0]  # (H, K)
        rules = [
            partial(oracle.leaky_concat, query=array(score.query)[h], key=np.append(array(score.key)[h], edge[h]))
            for h in range(heads)
        ]
        query, key, value = map(array, inputs)
        beside = np.append(key, np.zeros((*key.shape[:2], wide)), axis=2)
        for_key = np.zeros((len(features), heads, key.shape[2] + wide))
        for_key[..., key.shape[2] :] = array(features)[:, None]
        expected = oracle_edges.attend(query, beside, value, index.T.tolist(), rules, normalizer, for_key=for_key)
        same_as_oracle(attention, inputs, Edges(index, nodes), features, expected)

    check()


def weights_of(attention):
    return attention.edge_key, attention.edge_value


def same_as_oracle(attention, inputs, graph, features, expected):
    for dtype, limit in ((torch.float32, 2e-5), (torch.float64, 1e-6)):
        out = attention.to(dtype)(*(x.to(dtype) for x in inputs), graph, features=features.to(dtype))
        size = 1 + max(np.abs(x).max(initial=0.0) for x in expected)
        for found, right in zip((out.context, out.weights, out.scores), expected, strict=True):
            assert found.dtype == dtype and tuple(found.shape) == right.shape
            np.testing.assert_allclose(array(found), right, atol=limit * size)


@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot", "additive"])
def test_gradients_with_features(name):
    torch.manual_seed(1)
    attention = features_of(name, wide=2, columns=2)[0].double()
    *inputs, index = draw(4, 7, columns=2, seed=1)
    graph, features = Edges(index, 4), torch.randn(7, 2, dtype=torch.float64)
    leaves = [x.requires_grad_() for x in (*inputs, features, *weights_of(attention))]

    def both(*leaves):
        given = dict(zip(("features", "edge_key", "edge_value"), leaves[3:]))
        out = attend_edges(*leaves[:3], graph, score=attention.score, **given)
        return out.context, out.weights

    assert torch.autograd.gradcheck(both, leaves)
    assert torch.autograd.gradgradcheck(lambda *x: both(*x)[0], leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_features_where_nobody_looks_and_where_they_are_nan(name, dtype):
    attention = features_of(name)[0].to(dtype)
    *inputs, _ = draw()
    inputs = [x.to(dtype).requires_grad_() for x in inputs]
    index = torch.tensor([[0, 1, 1], [2, 2, 4]])
    features = torch.randn(3, 3, dtype=dtype, requires_grad=True)
    out = attention(*inputs, index, features=features)
    assert not out.context[[0, 1, 3, 5]].any() and out.context[[2, 4]].all()
    grads = torch.autograd.grad(out.context.sum(), [*inputs, features])
    assert all(g.isfinite().all() for g in grads) and not grads[2][[2, 3, 4, 5]].any()
    nothing = attention(*inputs, index[:, :0], features=features[:0])
    assert not nothing.context.any() and nothing.weights.shape == (0, 2)
    assert not any(g.any() for g in torch.autograd.grad(nothing.context.sum(), inputs))
    broken = features.detach().clone()
    broken[2] = torch.nan
    out = attention(*inputs, index, features=broken)
    assert out.context[4].isnan().all() and out.context[[0, 1, 2, 3, 5]].isfinite().all()


@given(st.integers(1, 7), st.integers(0, 20), st.integers(0, 2**16))
def test_features_of_self_loops(nodes, edges, seed):
    index = draw(nodes, edges, seed=seed)[3]
    given = torch.randn(len(index[0]), 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    graph = Edges(index, nodes, self_loops=True)
    expected = oracle_edges.loop_features(array(given), index.T.tolist(), nodes)
    np.testing.assert_allclose(array(graph.features(given)), expected, atol=1e-12)
    kept = len(graph) - nodes
    assert graph.features(given, fill=1.5)[kept:].eq(1.5).all()
    assert graph.features(given, fill=torch.tensor([1.0, 2.0]))[kept:].tolist() == [[1.0, 2.0]] * nodes
    assert Edges(index, nodes).features(given) is given
    again = torch.utils._pytree.tree_map(lambda x: x + 0, graph)
    assert again.features(given).equal(graph.features(given))


@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_compile_with_features(name):
    torch._dynamo.reset()
    attention = features_of(name, 5, width=8, columns=8)[0]
    *inputs, index = (x.float() if x.is_floating_point() else x for x in draw(width=8, columns=8))
    graph = Edges(index, 6)
    leaves = [x.requires_grad_() for x in (*inputs, torch.randn(14, 5))]

    def step(query, key, value, features, graph):
        out = attention(query, key, value, graph, features=features, weights=True)
        return out.context, out.weights

    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        context, weights = function(*leaves, graph)
        loss = context.square().sum() + weights.square().sum()
        results.append([context, weights, *torch.autograd.grad(loss, [*leaves, *attention.parameters()])])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["leaky_concat", "leaky_additive", "scaled_dot"])
def test_features_in_halves(name):
    attention = features_of(name, width=8)[0]
    *inputs, index = draw(20, 300, width=8)
    features = torch.randn(300, 3)
    exact = attention(*(x.float() for x in inputs), index, features=features)
    half = attention.bfloat16()(*(x.bfloat16() for x in inputs), index, features=features.bfloat16())
    assert half.context.dtype == half.weights.dtype == torch.bfloat16
    torch.testing.assert_close(half.context.float(), exact.context, atol=0.1, rtol=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = attention.float()(*(x.float() for x in inputs), index, features=features).context.float()
    torch.testing.assert_close(near, exact.context, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("kernel", ["auto", "plain"])
def test_the_tape_and_a_change_see_features(kernel):
    attention, (x,) = features_of("leaky_concat", columns=3)[0], torch.randn(1, 5, 2, 3)
    graph = Edges(torch.tensor([[0, 1, 4, 2], [1, 1, 0, 0]]), 5)
    low, high = torch.zeros(4, 3), torch.full((4, 3), 5.0) * torch.arange(4)[:, None]
    seen = []
    with nullcontext() if kernel == "auto" else regard.kernels.use(kernel):
        for features in (low, high):
            expected = attention(x, x, x, graph, features=features)
            with regard.record(attention) as tape:
                attention(x, x, x, graph, features=features, weights=False)
            (call,) = tape[tape.names()[0]].calls
            torch.testing.assert_close(call.weights, expected.weights)
            seen.append(call.weights)
        assert not torch.allclose(*seen)
        with regard.change(attention, "*", weights="uniform"):
            changed = attention(x, x, x, graph, features=high).weights
    torch.testing.assert_close(changed, torch.full((4, 2), 0.5))


def test_lazy_weights_keep_their_features():
    attention = features_of("leaky_additive")[0]
    *inputs, index = (x.float() if x.is_floating_point() else x for x in draw())
    features = torch.randn(14, 3)
    expected = attention(*inputs, index, features=features, weights=True).weights
    out = attention(*inputs, index, features=features)
    with torch.no_grad():
        attention.edge_key += 1
    torch.testing.assert_close(out.weights, expected)


@pytest.mark.parametrize("loops", [False, True, 0.5])
@pytest.mark.parametrize("kind", ["gat", "gatv2"])
def test_equals_pyg_with_features(kind, loops):
    """Outputs, weights and gradients of GATConv(edge_dim=) and GATv2Conv(edge_dim=), self-loops by mean or a number."""
    pyg = pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    heads, width, wide = 3, 8, 4
    cls = pyg.nn.GATConv if kind == "gat" else pyg.nn.GATv2Conv
    fill = "mean" if isinstance(loops, bool) else loops
    theirs = cls(5, width, heads=heads, edge_dim=wide, add_self_loops=bool(loops), fill_value=fill, bias=False)
    score = LeakyConcat(width, width, heads=heads) if kind == "gat" else LeakyAdditive(width, heads=heads)
    attention = EdgeAttention(score, edge_dim=wide)
    index = torch.randint(18, (2, 90), generator=torch.Generator().manual_seed(4))
    index = torch.cat([index, torch.tensor([[3, 3, 7], [3, 3, 7]])], dim=1)
    results = []
    for run in ("theirs", "ours"):
        generator = torch.Generator().manual_seed(5)
        x, given = (torch.randn(*size, generator=generator).requires_grad_() for size in ((20, 5), (93, wide)))
        if run == "theirs":
            context, (edges, weights) = theirs(x, index, given, return_attention_weights=True)
        else:
            graph = Edges(index, 20, self_loops=bool(loops))
            inputs, features = (*nodes_of(theirs, kind, x), graph), graph.features(given, fill)
            out = torch.func.functional_call(attention, as_ours(theirs, kind), inputs, {"features": features})
            context, edges, weights = out.context.flatten(1), out.edges.index, out.weights
        slopes = torch.linspace(-1, 1, context.numel()).view_as(context)
        grads = torch.autograd.grad((context * slopes).sum(), [x, given, *theirs.parameters()], allow_unused=True)
        results.append([edges, context, weights, *(g for g in grads if g is not None)])
    assert results[0][0].equal(results[1][0]) and len(results[0]) == len(results[1]) >= 7
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def as_ours(theirs, kind):
    """The parameters of our layer as functions of PyG's."""
    lin_edge = theirs.lin_edge.weight.unflatten(0, (theirs.heads, -1))  # (H, D, K)
    if kind == "gatv2":
        return {"score.v": theirs.att[0], "edge_key": lin_edge}
    edge = theirs.att_edge[0].unsqueeze(1) @ lin_edge  # (H, 1, K)
    return {"score.query": theirs.att_dst[0], "score.key": theirs.att_src[0], "edge_key": edge}


def nodes_of(theirs, kind, x):
    """Query, key and value."""
    linears = [theirs.lin] * 3 if kind == "gat" else [theirs.lin_r, theirs.lin_l, theirs.lin_l]
    done = {linear: linear(x).unflatten(-1, (theirs.heads, -1)) for linear in set(linears)}
    return [done[linear] for linear in linears]


@pytest.mark.parametrize("heads", [1, 3])
def test_equals_pygs_transformer_with_features(heads):
    """TransformerConv adds the features to keys and to values."""
    pyg = pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    theirs = pyg.nn.TransformerConv(5, 8, heads=heads, edge_dim=4, root_weight=False, bias=False)
    attention = EdgeAttention("scaled_dot", edge_dim=4, value_dim=8, heads=heads, key_dim=8)
    weight = theirs.lin_edge.weight.unflatten(0, (heads, 8))
    x, index, features = torch.randn(20, 5), torch.randint(20, (2, 90)), torch.randn(90, 4)
    query, key, value = (
        linear(x).unflatten(-1, (heads, 8)) for linear in (theirs.lin_query, theirs.lin_key, theirs.lin_value)
    )
    given = {"edge_key": weight, "edge_value": weight}
    out = torch.func.functional_call(attention, given, (query, key, value, Edges(index, 20)), {"features": features})
    torch.testing.assert_close(out.context.flatten(1), theirs(x, index, features), atol=1e-5, rtol=1e-5)


def test_bad_features():
    query, key, value, index = draw()
    graph, loops = Edges(index, 6), Edges(index, 6, self_loops=True)
    features = torch.randn(14, 3, dtype=torch.float64)
    weight = torch.randn(2, 3, 3, dtype=torch.float64)

    def call(features=features, graph=graph, **more):
        return attend_edges(query, key, value, graph, features=features, **more)

    assert "(14, K)" in message(lambda: call(features[1:]))
    assert "edges.features" in message(lambda: call(features, loops))
    assert "3 wide, but features= 2" in message(lambda: call(features[:, :2]))
    concat = LeakyConcat(3, 3, heads=2).double()
    assert "1 wide, but edge_key= 3" in message(lambda: call(score=concat, edge_key=weight))
    assert "(2 heads, width, 3)" in message(lambda: call(edge_key=weight[:1]))
    assert "values are 4 wide" in message(lambda: call(edge_value=weight))
    assert "differ in dtype" in message(lambda: call(features.float()))
    assert "give features=" in message(lambda: call(None, edge_key=weight))
    assert "without edge_dim=" in message(lambda: EdgeAttention()(query, key, value, graph, features=features))
    assert "no features=" in message(lambda: EdgeAttention("dot", edge_dim=3, key_dim=3)(query, key, value, graph))
    assert "say key_dim=" in message(lambda: EdgeAttention("dot", edge_dim=3))
    assert "heads=2, not 3" in message(lambda: EdgeAttention(LeakyAdditive(3, heads=2), edge_dim=3, heads=3))
    assert "give edge_dim=" in message(lambda: EdgeAttention("dot", value_dim=3))
    assert '"mean"' in message(lambda: loops.features(features, "max"))
    assert "(14, K)" in message(lambda: graph.features(features[1:]))
    assert "has no features" in message(lambda: loops.features(features[:3]))


# ---------------------------------------------------------------------------------------------------------
# bad input


def message(call):
    with pytest.raises(ValueError, match=r"\w") as caught:
        call()
    return str(caught.value)


def test_bad_edges():
    index = torch.tensor([[0, 5], [1, 2]])
    assert "edge 1, 5 → 2, names source 5, but there are 4" in message(lambda: Edges(index, 4))
    assert "names target 2, but there are 2" in message(lambda: Edges(index, (6, 2)))
    assert "names source -1" in message(lambda: Edges(torch.tensor([[-1], [0]])))
    assert "float32: write index.long()" in message(lambda: Edges(index.float()))
    assert "torch.bool" in message(lambda: Edges(index.bool()))
    assert "(3, 2)" in message(lambda: Edges(torch.zeros(3, 2, dtype=torch.long)))
    assert "list" in message(lambda: Edges([[0], [1]]))


def test_bad_tensors():
    query, key, value, index = draw()
    graph = Edges(index, 6)
    assert "(5, 2, 4)" in message(lambda: attend_edges(query, key, value[:5], graph))
    assert "6 sources and 6 targets, but there are 6 keys and 5" in message(
        lambda: attend_edges(query[:5], key, value, graph)
    )
    assert "number of heads" in message(lambda: attend_edges(query[:, :1], key, value, graph))
    assert "(N, H, width)" in message(lambda: attend_edges(query[0, 0], key, value, graph))
    assert "one width" in message(lambda: attend_edges(query[..., :2], key, value, graph))
    assert "float32, torch.float64" in message(lambda: attend_edges(query.float(), key, value, graph))
    assert "'lazy'" in message(lambda: attend_edges(query, key, value, graph, weights="later"))
    assert "1.5" in message(lambda: attend_edges(query, key, value, graph, dropout=1.5))
    assert "-0.5" in message(lambda: EdgeAttention(dropout=-0.5))
    assert "meta" in message(lambda: attend_edges(query, key, value, graph.to("meta")))
    assert "heads=3" in message(lambda: EdgeAttention(LeakyAdditive(3, heads=3))(query, key, value, graph))
    assert "query_dim=4" in message(lambda: EdgeAttention(LeakyConcat(4, 3))(query, key, value, graph))
    assert "slope of a LeakyReLU" in message(lambda: LeakyConcat(3, 3, slope=-0.1))
    assert "1.5" in message(lambda: LeakyAdditive(3, slope=1.5))
    assert "Sparsemax" in message(lambda: EdgeAttention(normalizer="sparsemax"))
    assert "Location" in message(lambda: EdgeAttention(regard.scores.Location(3, 6)))
    assert "LeakyConcat(query_dim=…, key_dim=…)" in message(
        lambda: attend_edges(query, key, value, graph, score="leaky_concat")
    )
    assert "'scaled_dot'" in message(lambda: attend_edges(query, key, value, graph, score="scaled_dto"))
