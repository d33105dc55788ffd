"""GAT against loops over the paper's equations, against PyG, and on the graphs that tell it from its controls."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.edges import Edges
from regard.systems.gat import GAT, Config
from regard.tasks.graphs import Config as TaskConfig
from regard.tasks.graphs import Graphs

SMALL = {"features": 5, "classes": 3, "heads": 2, "hidden": 4, "dropout": 0.0}


def batch_of(size=7, edges=12, seed=0, sparse=False, dtype=torch.float64):
    """A graph with double edges, self-loops and, as a rule, nodes without an edge."""
    rng = np.random.default_rng(seed)
    features = torch.from_numpy(rng.normal(size=(size, 5)) * (rng.random((size, 5)) < 0.6)).to(dtype)
    return {
        "features": features.to_sparse_csr() if sparse else features,
        "edges": torch.from_numpy(rng.integers(size, size=(2, edges))),
        "labels": torch.from_numpy(rng.integers(3, size=size)),
        "nodes": torch.arange(size),
    }


def model_of(seed=1, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    model = GAT(Config(**{**SMALL, **options})).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def leaky(x):
    return x if x > 0 else 0.2 * x


def look(layer, head, hidden, sources):
    """What one head of one layer gives each node: equations 1 to 4 (and GATv2's 7), one edge at a time."""
    width = layer.bias.shape[1]
    mine = slice(head * width, (head + 1) * width)
    z = [[dot(row, h) for row in layer.value.weight[mine].tolist()] for h in hidden]
    if layer.kind == "none":
        return z
    out = []
    for i, near in enumerate(sources):
        score = layer.attention.score
        if layer.kind == "gat":
            left, right = score.query[head].tolist(), score.key[head].tolist()
            e = [leaky(dot(left, z[i]) + dot(right, z[j])) for j in near]
        elif layer.kind == "gatv2":
            y = [dot(row, hidden[i]) for row in layer.query.weight[mine].tolist()]
            e = [dot(score.v[head].tolist(), [leaky(p + q) for p, q in zip(y, z[j])]) for j in near]
        else:
            e = [0.0 for _ in near]
        raised = [math.exp(x - max(e)) for x in e]
        out.append([sum(w / sum(raised) * z[j][d] for w, j in zip(raised, near)) for d in range(width)])
    return out


def paper(model, features, index):
    """Equations 5 and 6: heads side by side, and in the last layer their mean."""
    hidden = features.tolist()
    sources = [[s for s, t in zip(*index) if t == i and s != i] + [i] for i in range(len(hidden))]
    for place, layer in enumerate(model.layers):
        heads = range(len(layer.bias))
        seen = [look(layer, head, hidden, sources) for head in heads]
        out = [[[x + b for x, b in zip(seen[k][i], layer.bias[k].tolist())] for k in heads] for i in range(len(hidden))]
        if place == len(model.layers) - 1:
            return torch.tensor(out, dtype=torch.float64).mean(1)
        new = [[x if x > 0 else math.exp(x) - 1 for head in node for x in head] for node in out]
        if model.config.residual and place:
            new = [[a + b for a, b in zip(one, two)] for one, two in zip(new, hidden)]
        hidden = new
    raise AssertionError


@pytest.mark.parametrize("attention", ["gat", "gatv2", "constant", "none"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_equations_of_the_paper(attention, sparse):
    model = model_of(attention=attention, layers=3, residual=True, out_heads=2).eval()
    batch = batch_of(sparse=sparse)
    expected = paper(model, batch["features"].to_dense(), batch["edges"].tolist())
    assert torch.allclose(model.logits(batch), expected, atol=1e-10)
    single = copy.deepcopy(model).float()
    fused = single.logits({**batch, "features": batch["features"].float()})
    assert torch.allclose(fused.double(), expected, atol=1e-4)


@pytest.mark.parametrize("attention", ["gat", "gatv2"])
def test_outputs_and_gradients_are_those_of_pyg(attention):
    nn = pytest.importorskip("torch_geometric.nn")
    model = model_of(attention=attention, dtype=torch.float32, out_heads=2)
    batch = batch_of(size=30, edges=60, dtype=torch.float32)
    conv = nn.GATConv if attention == "gat" else nn.GATv2Conv
    more = {} if attention == "gat" else {"share_weights": False}
    peers = torch.nn.ModuleList([conv(5, 4, 2, **more), conv(8, 3, 2, concat=False, **more)])
    with torch.no_grad():
        for peer, layer in zip(peers, model.layers):
            score = layer.attention.score
            if attention == "gat":
                peer.lin.weight.copy_(layer.value.weight)
                peer.att_dst[0].copy_(score.query)
                peer.att_src[0].copy_(score.key)
            else:
                peer.lin_l.weight.copy_(layer.value.weight)
                peer.lin_r.weight.copy_(layer.query.weight)
                peer.lin_l.bias.zero_()
                peer.lin_r.bias.zero_()
                peer.att[0].copy_(score.v)
            peer.bias.copy_(layer.bias.flatten() if peer.concat else layer.bias.mean(0))
    features = [batch["features"].clone().requires_grad_() for _ in range(2)]
    ours = model.logits({**batch, "features": features[0]})
    theirs = peers[1](torch.nn.functional.elu(peers[0](features[1], batch["edges"])), batch["edges"])
    assert torch.allclose(ours, theirs, atol=1e-5)
    slope = torch.linspace(-1, 1, ours.numel()).reshape(ours.shape)
    (ours * slope).sum().backward()
    (theirs * slope).sum().backward()
    assert torch.allclose(features[0].grad, features[1].grad, atol=1e-5)
    for peer, layer in zip(peers, model.layers):
        theirs_w = peer.lin.weight.grad if attention == "gat" else peer.lin_l.weight.grad
        assert torch.allclose(layer.value.weight.grad, theirs_w, atol=1e-5)


@pytest.mark.parametrize("attention", ["gat", "gatv2", "constant"])
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), edges=st.integers(0, 30))
def test_the_order_of_nodes_and_edges_does_not_matter(attention, seed, size, edges):
    model, batch = model_of(attention=attention).eval(), batch_of(size, edges, seed)
    rng = np.random.default_rng(seed)
    nodes, order = (torch.from_numpy(rng.permutation(n)) for n in (size, edges))
    place = torch.empty_like(nodes)
    place[nodes] = torch.arange(size)
    moved = {**batch, "features": batch["features"][nodes], "edges": place[batch["edges"]][:, order]}
    assert torch.allclose(model.logits(moved), model.logits(batch)[nodes], atol=1e-10)


def test_gradients_are_those_of_the_function():
    model, batch = model_of(), batch_of(size=4, edges=6)
    names, parameters = zip(*model.named_parameters())

    def logits(features, *values):
        chosen = dict(zip(names, values))
        return torch.func.functional_call(model, chosen, ({**batch, "features": features},))["loss"]

    inputs = (batch["features"].requires_grad_(), *(p.detach().requires_grad_() for p in parameters))
    assert torch.autograd.gradcheck(logits, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_features_give_what_dense_ones_give(dtype):
    found = []
    for sparse in (False, True):
        model = model_of(dtype=dtype)
        out = model(batch_of(sparse=sparse, dtype=dtype))
        out["loss"].backward()
        found.append((out["loss"], model.layers[0].value.weight.grad))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-6)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-6)


def test_a_transpose_at_hand_changes_nothing_but_time():
    from regard.data.graphs import Graph

    batch = batch_of(sparse=True)
    nothing = torch.zeros(7, dtype=torch.long)
    turned = Graph(batch["features"], batch["edges"], nothing, nothing).turned
    assert torch.equal(turned.values()[turned.crow_indices()[0] : turned.crow_indices()[-1]].sort().values,
                       torch.arange(batch["features"].values().numel()))  # fmt: skip
    for attention in ("gat", "gatv2"):
        found = []
        for fed in (batch, {**batch, "turned": turned}):
            model = model_of(attention=attention, dropout=0.3)
            torch.manual_seed(5)
            loss = model(fed)["loss"]
            (first,) = torch.autograd.grad(loss, model.layers[0].value.weight, create_graph=True)
            first.square().sum().backward()
            found.append((loss.detach(), first.detach(), model.layers[0].value.weight.grad))
        for one, other in zip(*found):
            assert torch.allclose(one, other, atol=1e-12)


def test_dropout_of_sparse_features_falls_on_their_values():
    from regard.systems.gat import dropped

    torch.manual_seed(0)
    features = (torch.rand(200, 50) < 0.2).float().to_sparse_csr()
    out = dropped(features, 0.6)
    assert out.layout == torch.sparse_csr and torch.equal(out.col_indices(), features.col_indices())
    values = out.values()
    assert set(values.unique().tolist()) == {0.0, 2.5}
    assert 0.55 < float((values == 0).float().mean()) < 0.65
    assert dropped(features, 0.0).values().equal(features.values())


def test_dropout_is_on_in_training_only_and_follows_the_seed():
    model, batch = model_of(dropout=0.5), batch_of(sparse=True)
    torch.manual_seed(3)
    one, other = model.logits(batch), model.logits(batch)
    torch.manual_seed(3)
    assert torch.equal(one, model.logits(batch)) and not torch.equal(one, other)
    model.eval()
    assert torch.equal(model.logits(batch), model.logits(batch))


def test_a_node_without_edges_sees_itself_alone():
    model = model_of().eval()
    batch = batch_of(size=3, edges=0)
    alone = model.logits({**batch, "features": batch["features"][:1], "nodes": torch.tensor([0])})
    assert torch.allclose(model.logits(batch)[:1], alone)
    # And without self-loops it sees nothing: what is left are the biases.
    nothing = model.logits({**batch, "edges": Edges(batch["edges"], 3)})
    assert torch.isfinite(nothing).all() and torch.equal(nothing[0], nothing[2])
    assert torch.allclose(nothing[0], model.layers[1].bias.mean(0))


def weights_of(model, batch):
    with regard.record(model) as tape, torch.no_grad():
        model.logits(batch)
    look = tape["layers.0.attention"].calls[0]
    return look.weights, look.edges


def complete(size):
    index = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T
    return index[:, index[0] != index[1]]


@pytest.mark.parametrize("attention", ["gat", "gatv2", "constant"])
def test_weights_are_named_by_edges_and_sum_to_one(attention):
    model, batch = model_of(attention=attention).eval(), batch_of()
    weights, index = weights_of(model, batch)
    total = weights.new_zeros(7, 2).index_add_(0, index[1], weights)
    assert torch.allclose(total, torch.ones_like(total))
    if attention == "constant":
        degree = torch.bincount(index[1]).double()
        assert torch.allclose(weights, (1 / degree)[index[1]][:, None].expand_as(weights))


def test_gat_ranks_all_neighbours_alike_and_gatv2_does_not():
    batch = {**batch_of(size=9), "edges": complete(9)}
    ranks = {}
    for attention in ("gat", "gatv2"):
        weights, index = weights_of(model_of(attention=attention).eval(), batch)
        table = torch.zeros(9, 9).double()
        table[index[1], index[0]] = weights[:, 0]
        ranks[attention] = {tuple(row.argsort().tolist()) for row in table}
    assert len(ranks["gat"]) == 1
    assert len(ranks["gatv2"]) > 1


def test_no_node_asked_gives_a_finite_loss():
    for several in (False, True):
        batch = batch_of()
        labels = torch.zeros(7, 3).double() if several else batch["labels"]
        out = model_of(several=several)({**batch, "labels": labels, "nodes": torch.empty(0, dtype=torch.long)})
        assert out["count"] == 0 and torch.isfinite(out["loss"])


def test_predictions_are_probabilities():
    batch = batch_of()
    assert torch.allclose(model_of().predict(batch).sum(-1), torch.ones(7).double())
    several = model_of(several=True).predict(batch)
    assert ((several > 0) & (several < 1)).all()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="did you mean 'gatv2'"):
        Config(**{**SMALL, "attention": "gatv3"})
    with pytest.raises(ValueError, match=r"dropout = 1\.0"):
        Config(**{**SMALL, "dropout": 1.0})
    with pytest.raises(ValueError, match="heads must be at least 1, not 0"):
        Config(**{**SMALL, "heads": 0})
    batch, model = batch_of(), model_of()
    with pytest.raises(ValueError, match=r"features are \(7, 4\).*\(N, 5\)"):
        model.logits({**batch, "features": batch["features"][:, :4]})
    with pytest.raises(ValueError, match="names source 9, but there are 7"):
        model.logits({**batch, "edges": torch.tensor([[9], [0]])})


def test_nan_in_is_nan_out():
    batch = batch_of(size=5, edges=0)
    batch["features"][2, 0] = float("nan")
    assert model_of().logits(batch).isnan().any(1).tolist() == [False, False, True, False, False]


# ---------------------------------------------------------------------------------------------------------------------
# What each can learn


def learn(task, steps, lr=0.01, **options):
    torch.manual_seed(0)
    model = GAT(Config(**task.sizes, **options))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    train, done = task.loader("train"), 0
    while done < steps:
        for batch in train:
            optimizer.zero_grad()
            model(batch)["loss"].backward()
            optimizer.step()
            done += 1
    model.eval()
    with torch.no_grad():
        (value,) = task.evaluate("test", [model.logits(batch) for _, batch in task.wholes("test")]).values()
    return value


def test_neighbours_help_on_the_block_model():
    task = Graphs(TaskConfig(data="sbm"))
    assert learn(task, 60, attention="gat") > 90
    assert learn(task, 60, attention="none") < 75


def test_gatv2_finds_keys_that_gat_cannot():
    task = Graphs(TaskConfig(data="lookup", keys=5, graphs=100, batch_graphs=25))
    assert learn(task, 150, attention="gatv2", hidden=16, dropout=0.0) > 95
    assert learn(task, 150, attention="gat", hidden=16, dropout=0.0) < 60


def test_attention_learns_whom_to_hear_where_its_controls_cannot():
    task = Graphs(TaskConfig(data="communities", nodes=200, batch_graphs=2))
    options = {"layers": 3, "heads": 4, "hidden": 16, "out_heads": 2, "residual": True, "dropout": 0.0}
    attention = learn(task, 150, lr=0.005, attention="gat", **options)
    assert attention > 85
    assert learn(task, 150, lr=0.005, attention="constant", **options) < attention - 20
    assert learn(task, 150, lr=0.005, attention="none", **options) < attention - 20
