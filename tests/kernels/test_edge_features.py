"""The kernels for edges that have features, against the plain path in float64."""

import sys

import pytest
import torch
from test_edge_kernels import assert_same_bits, close, draw, heads_taken, hub, slopes  # noqa: F401

import regard
from regard import EdgeAttention, Edges
from regard.bench.measure import _extra_megabytes
from regard.kernels import edges as kernels
from regard.scores import Cosine, Dot, LeakyAdditive, LeakyConcat, ScaledDot

SCORES = {
    "split": lambda width, heads: LeakyConcat(width, width, heads=heads),
    "leaky": lambda width, heads: LeakyAdditive(width, heads=heads, slope=0.1),
    "dot": lambda width, heads: ScaledDot(),
    "learned dot": lambda width, heads: Cosine(gain=3.0, learn_gain=True),
}
SHAPES = {  # heads, widths of keys, values and features, beside, below and above what a vector holds
    "8 x 8, 16": (8, 8, 8, 16),
    "1 x 7, 3": (1, 7, 7, 3),
    "3 x 20, 5, 9": (3, 20, 5, 9),
    "9 x 2, 17, 1": (9, 2, 17, 1),
    "2 x 64, 8": (2, 64, 64, 8),
}


def build(name, shape, normalizer="softmax", valued=True, dropout=0.0):
    heads, width, columns, wide = SHAPES[shape]
    torch.manual_seed(0)
    more = {"edge_dim": wide, "value_dim": columns if valued else None, "heads": heads, "key_dim": width}
    return EdgeAttention(SCORES[name](width, heads), normalizer, dropout=dropout, **more)


def inputs(shape, graph):
    heads, width, columns, wide = SHAPES[shape]
    sources, targets = graph.nodes
    return draw((targets, heads, width), (sources, heads, width), (sources, heads, columns), (len(graph), wide))


def run(attention, rows, graph, kernel):
    """Context, weights, and the gradients through each of both; query, key and value are one tensor if one is given."""
    *leaves, features = [x.detach().clone().requires_grad_() for x in rows]
    query, key, value = leaves * 3 if len(leaves) == 1 else leaves
    wanted = [*leaves, features, *attention.parameters()]
    results = []
    with regard.kernels.use(kernel):
        out = attention(query, key, value, graph, features=features)
        for found in (out.context, out.weights):
            loss = (found * slopes(found)).sum()
            grads = torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
            results += [found.detach(), *grads]
    return results


@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SCORES)
def test_fused_equals_plain(name, shape, normalizer, valued):
    attention, graph = build(name, shape, normalizer, valued), hub(targets=20)
    rows = inputs(shape, graph)
    found = run(attention, rows, graph, "fused")
    close(found, run(attention.double(), [x.double() for x in rows], graph, "plain"))


@pytest.mark.usefixtures("heads_taken")
@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("shape", ["8 x 8, 16", "1 x 7, 3", "2 x 64, 8"])
def test_tied_equals_plain(shape, valued):
    attention, graph = build("split", shape, valued=valued), hub(40, 500)
    rows, _, _, features = inputs(shape, graph)
    found = run(attention, [rows, features], graph, "fused")
    close(found, run(attention.double(), [rows.double(), features.double()], graph, "plain"))


@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_temperature_and_features_as_they_are(name):
    """Without a projection features are added to the keys of all heads; a temperature divides them too."""
    graph, wide = hub(), 1 if name == "split" else 8
    query, key, value, features = draw((30, 3, 8), (30, 3, 8), (30, 3, 5), (len(graph), wide))
    torch.manual_seed(0)
    score, results = SCORES[name](8, 3), []
    for kernel, dtype in (("fused", torch.float32), ("plain", torch.float64)):
        leaves = [x.to(dtype).requires_grad_() for x in (query, key, value, features)]
        with regard.kernels.use(kernel):
            parts = {"score": score.to(dtype), "normalizer": regard.normalizers.Softmax(0.4)}
            out = regard.attend_edges(*leaves[:3], graph, features=leaves[3], **parts)
            grads = torch.autograd.grad((out.context * slopes(out.context)).sum(), leaves)
        results.append([out.context.detach(), out.weights.detach(), out.scores.detach(), *grads])
    close(*results)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_dropout_is_the_same_backward(name, tied):
    """One-hot values show which weights were kept; with these, the plain formula has the same gradients."""
    torch.manual_seed(0)
    nodes, heads, wide = 12, 3, 5
    graph = Edges(torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T[:, ::2])
    source, target = graph.index
    attention = EdgeAttention(SCORES[name](nodes, heads), dropout=0.4, edge_dim=wide, heads=heads, key_dim=nodes)
    (features,) = draw((len(graph), wide))
    one_hot = torch.eye(nodes)[:, None].repeat(1, heads, 1)
    query = one_hot if tied else draw(one_hot.shape)[0]

    def call(value):
        with regard.kernels.use("fused"):
            generator = torch.Generator().manual_seed(7)
            return attention(query, one_hot, value, graph, features=features.requires_grad_(), generator=generator)

    out = call(one_hot)
    mask = (out.context.permute(2, 0, 1)[source, target] / out.weights).detach()
    torch.testing.assert_close(mask.round(decimals=3).unique(), torch.tensor([0.0, 1.667]))
    (value,) = draw((nodes, heads, nodes), seed=3)
    context = call(value).context
    expected = torch.zeros_like(context).index_add(0, target, (out.weights * mask)[..., None] * value[source])
    leaves = [features, *attention.parameters()]
    found = torch.autograd.grad((context * slopes(context)).sum(), leaves)
    close([context, *found], [expected, *torch.autograd.grad((expected * slopes(expected)).sum(), leaves)])


@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_same_bits_on_any_number_of_threads(name, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    attention, graph = build(name, "3 x 20, 5, 9"), hub(200, 3000)
    rows = inputs("3 x 20, 5, 9", graph)
    assert_same_bits(lambda: run(attention, rows, graph, "fused"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["split", "leaky", "dot"])
def test_memory_does_not_grow_with_edges_times_width(name):
    nodes, edges, heads, width, wide = 2000, 200_000, 4, 64, 8
    graph = Edges(torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0)), nodes)
    sizes = {"edge_dim": wide, "value_dim": width, "heads": heads, "key_dim": width}
    attention = EdgeAttention(SCORES[name](width, heads), **sizes)
    rows = [x.requires_grad_() for x in draw(*[(nodes, heads, width)] * 3)]
    features = torch.randn(edges, wide, requires_grad=True)

    def step(read=False):
        out = attention(*rows, graph, features=features)
        loss = out.context.sum() + (out.weights.square().sum() if read else 0)
        torch.autograd.grad(loss, [*rows, features, *attention.parameters()])

    step(read=True)
    full = edges * heads * width * 4 / 2**20  # 195 MB
    assert _extra_megabytes(step) < full / 4
    assert _extra_megabytes(lambda: step(read=True)) < full / 2


def test_where_the_kernel_knows_more_of_a_key_the_plain_path_is_taken(monkeypatch):
    """Gaussian's form holds ‖k‖², which knows nothing of the features."""
    monkeypatch.setattr(kernels, "attend", lambda *_: pytest.fail("the kernel was called"))
    query, key, value, features = draw((30, 1, 8), (30, 1, 8), (30, 1, 8), (160, 8))
    graph = hub()
    out = regard.attend_edges(query, key, value, graph, score="gaussian", features=features[: len(graph)])
    source, target = graph.index
    apart = query[target] - key[source] - features[: len(graph), None]
    torch.testing.assert_close(out.scores, -0.5 * apart.square().sum(-1), atol=1e-5, rtol=1e-5)


def test_a_dot_of_features_alone():
    """Keys are 0: q·f."""
    graph = hub()
    query, features = draw((30, 2, 8), (len(graph), 8))
    nothing = torch.zeros(30, 2, 8)
    with regard.kernels.use("fused"):
        out = regard.attend_edges(query, nothing, nothing, graph, score=Dot(), features=features)
    torch.testing.assert_close(out.scores, (query[graph.index[1]] * features[:, None]).sum(-1), atol=1e-5, rtol=1e-5)
