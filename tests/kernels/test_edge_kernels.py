"""The kernels for edges against the plain path in float64, and what they promise besides."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import leaky_relu

import regard
from regard import Edges
from regard.bench.measure import _extra_megabytes
from regard.kernels import edges as kernels
from regard.normalizers import Sigmoid, Softmax
from regard.scores import Cosine, Gaussian, LeakyAdditive, LeakyConcat, ScaledDot

SCORES = {
    "split": lambda width, heads: LeakyConcat(width, width, heads=heads),
    "leaky": lambda width, heads: LeakyAdditive(width, heads=heads, slope=0.1),
    "dot": lambda width, heads: ScaledDot(),
    "dot with a bias": lambda width, heads: Gaussian(width=2.0, learn_width=True),
    "learned dot": lambda width, heads: Cosine(gain=3.0, learn_gain=True),
}
NORMALIZERS = {"softmax": Softmax, "sharp": lambda: Softmax(0.3), "sigmoid": Sigmoid}
SHAPES = {  # heads and widths beside, below and above what a vector holds
    "8 x 8": (8, 8, 8),
    "1 x 7": (1, 7, 7),
    "3 x 20, 5": (3, 20, 5),
    "9 x 2, 17": (9, 2, 17),
    "4 x 64": (4, 64, 64),
}


def hub(nodes=30, edges=160, targets=None, seed=0):
    """A graph in which one target has more edges than a block of the kernel, another source has many, some none."""
    rng = np.random.default_rng(seed)
    targets = nodes if targets is None else targets
    index = np.stack([rng.integers(0, nodes, edges), rng.integers(0, targets, edges)])
    index[1, : edges // 2] = targets // 2
    index[0, edges // 4 : edges // 4 * 3] = nodes // 3
    index = index[:, (index[1] != 0) & (index[0] != nodes - 1)]
    return Edges(torch.from_numpy(rng.permutation(index, axis=1)), (nodes, targets))


def draw(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


def slopes(x):
    return torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)


def run(attention, inputs, graph, kernel):
    """Context, weights, and the gradients through each of both."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    with regard.kernels.use(kernel):
        out = attention(*leaves, graph)
        wanted = [*leaves, *attention.parameters()]
        by_context = torch.autograd.grad((out.context * slopes(out.context)).sum(), wanted, retain_graph=True)
        scored = [leaves[0], leaves[1], *attention.parameters()]
        by_weights = torch.autograd.grad((out.weights * slopes(out.weights)).sum(), scored)
    return [out.context.detach(), out.weights.detach(), *by_context, *by_weights]


def close(found, expected, limit=2e-5):
    for one, other in zip(found, expected, strict=True):
        size = 1 + float(other.detach().abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one.double(), other.double(), atol=limit * size, rtol=0)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SCORES)
def test_fused_equals_plain(name, shape, normalizer):
    heads, width, columns = SHAPES[shape]
    torch.manual_seed(0)
    attention = regard.EdgeAttention(SCORES[name](width, heads), NORMALIZERS[normalizer]())
    graph = hub(targets=20)
    inputs = draw((20, heads, width), (30, heads, width), (30, heads, columns))
    found = run(attention, inputs, graph, "fused")
    expected = run(attention.double(), [x.double() for x in inputs], graph, "plain")
    close(found, expected, 1e-4 if name == "dot with a bias" else 2e-5)  # ‖q‖² + ‖k‖² − 2 q·k cancels


@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_any_graph(name):
    @settings(max_examples=60)
    @given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 80), st.integers(1, 9), st.integers(0, 2**16))
    def check(nodes, targets, edges, heads, seed):
        rng = np.random.default_rng(seed)
        index = torch.from_numpy(np.stack([rng.integers(0, n, edges) for n in (nodes, targets)]))
        torch.manual_seed(seed)
        attention = regard.EdgeAttention(SCORES[name](3, heads))
        inputs = draw((targets, heads, 3), (nodes, heads, 3), (nodes, heads, 2), seed=seed)
        graph = Edges(index, (nodes, targets))
        found = run(attention, inputs, graph, "fused")
        close(found, run(attention.double(), [x.double() for x in inputs], graph, "plain"), 1e-4)

    check()


TIED = {"8 x 8": (8, 8), "1 x 7": (1, 7), "2 x 28": (2, 28), "4 x 64": (4, 64), "3 x 121": (3, 121), "1 x 60": (1, 60)}
"""Nodes that look at each other, whose query, key and value are one tensor: narrow heads, and wide ones."""


@pytest.fixture(params=["together", "one by one"])
def heads_taken(request, monkeypatch):
    """Wide heads are taken one by one in large graphs, or in all."""
    if request.param == "one by one":
        monkeypatch.setattr(kernels, "MANY", 0)


@pytest.mark.usefixtures("heads_taken")
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("shape", TIED)
def test_tied_equals_plain(shape, normalizer):
    heads, width = TIED[shape]
    torch.manual_seed(0)
    attention = regard.EdgeAttention(LeakyConcat(width, width, heads=heads, slope=0.1), NORMALIZERS[normalizer]())
    graph, (rows,) = hub(40, 500), draw((40, heads, width))
    turned = rows.mT.contiguous().mT
    found, other = (run_tied(attention, x, graph, "fused") for x in (rows, turned))
    expected = run_tied(attention.double(), rows.double(), graph, "plain")
    close(found, expected)
    close(other, expected)


def run_tied(attention, rows, graph, kernel):
    """Context, weights, and the gradients through each of both."""
    rows = rows.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    wanted = [rows, *attention.parameters()]
    with regard.kernels.use(kernel):
        out = attention(rows, rows, rows, graph)
        by_context = torch.autograd.grad((out.context * slopes(out.context)).sum(), wanted, retain_graph=True)
        by_weights = torch.autograd.grad((out.weights * slopes(out.weights)).sum(), wanted)
    return [out.context.detach(), out.weights.detach(), *by_context, *by_weights]


@pytest.mark.usefixtures("heads_taken")
@pytest.mark.parametrize("shape", TIED)
def test_tied_drops_what_three_tensors_drop(shape):
    heads, width = TIED[shape]
    torch.manual_seed(0)
    attention = regard.EdgeAttention(LeakyConcat(width, width, heads=heads), dropout=0.4)
    graph, (rows,) = hub(40, 500), draw((40, heads, width))
    rows.requires_grad_()
    results = []
    with regard.kernels.use("fused"):
        for inputs in ((rows, rows, rows), (rows, rows.clone(), rows.clone())):
            context = attention(*inputs, graph, generator=torch.Generator().manual_seed(7)).context
            loss = (context * slopes(context)).sum()
            results.append([context.detach(), *torch.autograd.grad(loss, [rows, *attention.parameters()])])
    close(*results)


@pytest.mark.usefixtures("heads_taken")
@pytest.mark.parametrize("shape", TIED)
def test_tied_nan_and_nobody(shape):
    heads, width = TIED[shape]
    (rows,) = draw((6, heads, width))
    rows[2] = torch.nan
    rows.requires_grad_()
    graph = Edges(torch.tensor([[0, 2, 3, 5], [1, 1, 4, 4]]), 6)
    attention = regard.EdgeAttention(LeakyConcat(width, width, heads=heads))
    with regard.kernels.use("fused"):
        context = attention(rows, rows, rows, graph).context
        assert context[1].isnan().all() and context[4].isfinite().all() and context[[0, 2, 3, 5]].eq(0).all()
        (grad,) = torch.autograd.grad(context[4].sum(), rows)
        assert grad[[3, 5]].isfinite().all() and grad[3].ne(0).all()
        nobody = rows[:0]
        empty = attention(nobody, nobody, nobody, Edges(torch.zeros(2, 0, dtype=torch.int64), 0)).context
        assert empty.shape == (0, heads, width)


def test_a_score_of_ones_own_is_not_tied_to_the_inherited_formula():
    class Doubled(LeakyConcat):
        def forward(self, query, key):
            return 2 * leaky_relu(query @ self.query.unsqueeze(-1) + key.mT, self.slope)

    torch.manual_seed(0)
    (rows,) = draw((30, 2, 40))
    graph, score = hub(), Doubled(40, 40, heads=2)
    plain = LeakyConcat(40, 40, heads=2)
    plain.load_state_dict(score.state_dict())
    found = regard.EdgeAttention(score)(rows, rows, rows, graph)
    expected = regard.EdgeAttention(plain, Softmax(0.5))(rows, rows, rows, graph)
    close([found.context], [expected.context])


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_large_scores(normalizer):
    """Scores far beyond what an exponential in float32 holds; also the infinite, which some targets see."""
    graph = hub()
    query, key, value = draw((30, 2, 8), (30, 2, 8), (30, 2, 8))
    for factor in (30.0, 1e4, 1e-20):
        attention = regard.EdgeAttention(ScaledDot(), NORMALIZERS[normalizer]())
        with regard.kernels.use("fused"):
            found = attention(query * factor, key, value, graph)
        with regard.kernels.use("plain"):
            exact = attention(query.double() * factor, key.double(), value.double(), graph)
        close([found.context, found.weights], [exact.context, exact.weights], 1e-4 if factor > 1e3 else 2e-5)
    query[:], key[4] = 1.0, -torch.inf
    with regard.kernels.use("fused"):
        found = regard.attend_edges(query, key, value, graph, normalizer=NORMALIZERS[normalizer]())
    source, target = graph.index
    others = torch.zeros(30).index_add(0, target, (source != 4).float()) > 0
    assert found.context[others].isfinite().all()
    assert found.weights[(source == 4) & others[target]].eq(0).all()


@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
def test_dropout_is_the_same_backward(name, normalizer):
    """One-hot values show which weights were kept; with these, the plain formula has the same gradients."""
    torch.manual_seed(0)
    nodes, heads = 12, 3
    graph = Edges(torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T[:, ::2])
    attention = regard.EdgeAttention(SCORES[name](8, heads), normalizer, dropout=0.4)
    query, key = (x.requires_grad_() for x in draw((nodes, heads, 8), (nodes, heads, 8)))
    one_hot = torch.eye(nodes)[:, None].repeat(1, heads, 1)
    source, target = graph.index

    def call(value):
        with regard.kernels.use("fused"):
            return attention(query, key, value, graph, generator=torch.Generator().manual_seed(7))

    out = call(one_hot)
    weights = out.weights
    dropped = out.context.permute(2, 0, 1)[source, target]  # (E, H)
    mask = (dropped / weights).detach()
    torch.testing.assert_close(mask.round(decimals=3).unique(), torch.tensor([0.0, 1.667]))
    (value,) = draw((nodes, heads, 5), seed=3)
    value.requires_grad_()
    leaves = [query, key, value, *attention.parameters()]
    context = call(value).context
    expected = torch.zeros_like(context).index_add(0, target, (weights * mask)[..., None] * value[source])
    found = torch.autograd.grad((context * slopes(context)).sum(), leaves)
    right = torch.autograd.grad((expected * slopes(expected)).sum(), leaves)
    close([context, *found], [expected, *right])


def test_dropout_is_fair():
    """Each target has one edge, so that the context is what dropout multiplied by: no pattern over heads and edges."""
    nodes, heads, share = 20000, 8, 0.3
    graph = Edges(torch.arange(nodes).expand(2, -1))
    x, value = torch.zeros(nodes, heads, 8), torch.ones(nodes, heads, 8)
    with regard.kernels.use("fused"):
        kept = torch.stack(
            [
                regard.attend_edges(
                    x, x, value, graph, dropout=share, generator=torch.Generator().manual_seed(seed)
                ).context[..., 0]
                for seed in (0, 1)
            ]
        )
    kept = kept.gt(0).double()
    spread = (share * (1 - share) / nodes) ** 0.5
    assert (kept.mean(1) - (1 - share)).abs().max() < 4.5 * spread
    centred = (kept - kept.mean((1, 2), keepdim=True)) / kept.std((1, 2), keepdim=True)
    between_heads = centred[0].T @ centred[0] / nodes - torch.eye(heads)
    between_edges = (centred[0, 1:] * centred[0, :-1]).mean(0)
    between_seeds = (centred[0] * centred[1]).mean(0)
    assert all(c.abs().max() < 5 / nodes**0.5 for c in (between_heads, between_edges, between_seeds))


def assert_same_bits(compute):
    """On 1, 2 and 5 threads."""
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(compute())
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(a.equal(b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_same_bits_on_any_number_of_threads(name, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    torch.manual_seed(0)
    attention = regard.EdgeAttention(SCORES[name](8, 3))
    graph, inputs = hub(200, 3000), draw(*[(200, 3, 8)] * 3)
    assert_same_bits(lambda: run(attention, inputs, graph, "fused"))


@pytest.mark.parametrize("width", [8, 64])
def test_tied_gives_the_same_bits_on_any_number_of_threads(width, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    monkeypatch.setattr(kernels, "MANY", 0)
    torch.manual_seed(0)
    attention = regard.EdgeAttention(LeakyConcat(width, width, heads=3))
    graph, (rows,) = hub(200, 3000), draw((200, 3, width))
    assert_same_bits(lambda: run_tied(attention, rows, graph, "fused"))


def test_strides():
    query, key, value = draw((30, 2, 8), (30, 2, 8), (30, 2, 8))
    turned = [x.mT.contiguous().mT for x in (query, key, value)]
    attention, graph = regard.EdgeAttention(LeakyConcat(8, 8, heads=2)), hub()
    with regard.kernels.use("fused"):
        torch.testing.assert_close(attention(*turned, graph).context, attention(query, key, value, graph).context)
        shared = key[:1].expand(30, -1, -1)
        same = attention(query, shared, shared, graph).context
        torch.testing.assert_close(same, attention(query, shared.clone(), shared.clone(), graph).context)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_memory_does_not_grow_with_edges_times_width(name):
    nodes, edges, heads, width = 2000, 200_000, 4, 64
    graph = Edges(torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0)), nodes)
    attention = regard.EdgeAttention(SCORES[name](width, heads))
    inputs = [x.requires_grad_() for x in draw(*[(nodes, heads, width)] * 3)]

    def step():
        torch.autograd.grad(attention(*inputs, graph).context.sum(), inputs)

    step()
    full = edges * heads * width * 4 / 2**20  # 195 MB
    assert _extra_megabytes(step) < full / 4


def operators():
    graph = hub(9, 40)
    incoming, outgoing = graph.joined("incoming"), graph.joined("outgoing")
    query, key, value, weight = draw((9, 2, 8), (9, 2, 8), (9, 2, 8), (2, 8))
    features, bias, for_query, for_key = draw((len(graph), 16), (len(graph), 2), (9, 2, 16), (16, 2, 8))
    seed = torch.tensor([1, 2])
    none = (torch.empty(0, 0), torch.empty(0))
    rows, numbers = (incoming, outgoing, seed), (0.2, False, 0.3, False)
    split, empty = (query[..., 0].contiguous(), key[..., 0].contiguous(), none[1], value), (query, key, none[1], value)
    leaky, both = (query, key, weight, value), (0.2, False, 0.3, True)
    return {
        "split": (kernels.edge_attend, (*split, *none, *rows, kernels.SPLIT, *numbers)),
        "leaky": (kernels.edge_attend, (*leaky, *none, *rows, kernels.LEAKY, *numbers)),
        "dot": (kernels.edge_attend, (*empty, *none, *rows, kernels.DOT, *numbers)),
        "sigmoid": (kernels.edge_attend, (*empty, *none, *rows, kernels.DOT, 0.2, True, 0.0, False)),
        "split, features": (kernels.edge_attend, (*split, features, bias, *rows, kernels.SPLIT, *both)),
        "leaky, features": (kernels.edge_attend, (*leaky, features, for_key, *rows, kernels.LEAKY, *both)),
        "dot, features": (kernels.edge_attend, (*empty, features, for_query, *rows, kernels.DOT, *both)),
        "tied": (kernels.edge_attend_tied, (query, torch.stack([weight, weight]), none[1], *rows, 0.2, 0.3)),
        "tied, features": (kernels.edge_attend_tied, (query, torch.stack([weight, weight]), bias, *rows, 0.2, 0.3)),
        "wide": (kernels.edge_attend_tied, (*draw((9, 1, 61), (2, 1, 61)), bias[:, :1], *rows, 0.2, 0.3)),
        "product": (kernels.sparse_product, (*sparse(9, 20), *draw((20, 16)))),
        "drawn": (kernels.drawn, (seed, [3, 5], 0.3)),
        "scores": (kernels.edge_scores, (*leaky[:3], *none, incoming, outgoing, kernels.LEAKY, 0.2)),
        "scores, features": (
            kernels.edge_scores,
            (*leaky[:3], features, for_key, incoming, outgoing, kernels.LEAKY, 0.2),
        ),
        "head_dot": (kernels.head_dot, (value, weight)),
        "sort": (kernels.edge_sort, (graph.index[0], 9, True)),
    }


def sparse(rows, columns, seed=0):
    """Start, column and value of a tensor in CSR."""
    matrix = draw((rows, columns), seed=seed)[0].relu().to_sparse_csr()
    return matrix.crow_indices().clone(), matrix.col_indices().clone(), matrix.values().clone()


@pytest.mark.parametrize("name", operators())
def test_opcheck(name):
    op, inputs = operators()[name]
    if name == "product":
        torch.library.opcheck(op, inputs)  # it has no gradients
        return
    floats = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    torch.library.opcheck(op, floats)


@pytest.mark.parametrize("name", ["split", "scores", "head_dot", "tied", "wide", "leaky, features", "scores, features"])
def test_what_they_cannot_do_says_what_to_do(name):
    op, (first, *rest) = operators()[name]
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        torch.vmap(lambda x: op(x, *rest))(torch.stack([first, first]))
    first.requires_grad_()
    other = next(x for x in rest if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel())
    other.requires_grad_()
    out = op(first, *rest)
    out = out if isinstance(out, torch.Tensor) else out[0]
    (grad,) = torch.autograd.grad(out.square().sum(), first, create_graph=True)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        grad.sum().backward()


def test_misfits_are_refused():
    graph = hub(9, 40)
    rows, seed = (graph.joined("incoming"), graph.joined("outgoing")), torch.tensor([1, 2])
    query, key, value, weight = draw((9, 2, 8), (9, 2, 8), (9, 2, 8), (2, 8))

    features, for_key, bias = draw((len(graph), 8), (8, 2, 8), (len(graph), 2))
    none, twice = (torch.empty(0, 0), torch.empty(0)), torch.stack([weight, weight])

    def call(query=query, key=key, value=value, weight=weight, rows=rows, more=none, valued=False):
        options = (kernels.LEAKY, 0.2, False, 0.0, valued)
        return kernels.edge_attend(query, key, weight, value, *more, *rows, seed, *options)

    for wrong in (
        lambda: call(query=query[:5]),
        lambda: call(key=key[:, :1]),
        lambda: call(value=value[..., :7]),
        lambda: call(weight=weight[:1]),
        lambda: call(query=query.double()),
        lambda: call(rows=[x[1:] for x in rows]),
        lambda: call(rows=[x.long() for x in rows]),
        lambda: kernels.head_dot(value, weight[:, :7]),
        lambda: call(more=(features[1:], for_key)),
        lambda: call(more=(features, for_key[:, :1])),
        lambda: call(more=(features, bias)),
        lambda: call(more=(features[:, :7], for_key[:7])),
        lambda: call(more=(features.double(), for_key)),
        lambda: call(more=(none[0], for_key)),
        lambda: call(valued=True),
        lambda: kernels.edge_attend_tied(value, weight, none[1], *rows, seed, 0.2, 0.0),
        lambda: kernels.edge_attend_tied(value[:5], twice, none[1], *rows, seed, 0.2, 0.0),
        lambda: kernels.edge_attend_tied(value.double(), twice, none[1], *rows, seed, 0.2, 0.0),
        lambda: kernels.edge_attend_tied(value, twice, bias[1:], *rows, seed, 0.2, 0.0),
        lambda: kernels.sparse_product(*sparse(9, 20), torch.ones(20, 7)),
    ):
        with pytest.raises(ValueError, match=r"\d"):
            wrong()


@pytest.mark.parametrize("rows", [0, 1, 300])
@pytest.mark.parametrize("columns", [8, 64, 88])
def test_sparse_product(rows, columns, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    (matrix,) = draw((50, columns))
    start, column, value = sparse(rows, 50)
    dense = torch.sparse_csr_tensor(start, column, value, (rows, 50), check_invariants=True).to_dense()
    for integers in (torch.int32, torch.int64):
        found = kernels.sparse_product(start.to(integers), column.to(integers), value, matrix)
        close([found], [dense.double() @ matrix.double()])
    turned = kernels.sparse_product(start, column, value, matrix.T.contiguous().T)
    assert turned.equal(found)


def test_drawn_is_fair():
    share, size = 0.3, (300, 700)
    first, second = (kernels.drawn(torch.tensor([seed, 5]), size, share) for seed in (0, 10**6))
    assert first.equal(kernels.drawn(torch.tensor([0, 5]), size, share))
    torch.testing.assert_close(first.unique(), torch.tensor([0.0, 1 / 0.7]))
    one, other = ((x.gt(0).double() - 0.7) / (0.3 * 0.7) ** 0.5 for x in (first, second))
    limit = 5 / first.numel() ** 0.5
    assert all(abs(float(c)) < limit for c in (one.mean(), (one * other).mean(), (one[1:] * one[:-1]).mean()))
    assert abs(float((one[:, 1:] * one[:, :-1]).mean())) < limit


@given(st.integers(1, 9), st.integers(0, 50), st.integers(0, 2**16))
def test_sort(nodes, edges, seed):
    given_ = torch.from_numpy(np.random.default_rng(seed).integers(0, nodes, edges))
    for short in (True, False):
        start, order = kernels.edge_sort(given_, nodes, short)
        assert order.tolist() == np.argsort(given_.numpy(), kind="stable").tolist()
        assert start.diff().tolist() == np.bincount(given_.numpy(), minlength=nodes).tolist()
        assert order.dtype == (torch.int32 if short else torch.int64)


def test_parts_have_equally_many_edges():
    from regard.kernels import _edge_loops

    degrees = np.random.default_rng(0).zipf(1.6, 3000).clip(max=400)
    start = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    cuts = np.empty(kernels.PARTS + 1, np.int64)
    _edge_loops.cut(start, cuts)
    assert cuts[0] == 0 and cuts[-1] == 3000 and (np.diff(cuts) >= 0).all()
    work = start[cuts] + cuts
    assert np.diff(work).max() <= (start[-1] + 3000) / kernels.PARTS + 402
