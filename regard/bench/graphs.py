"""``regard bench graphs``: attention along edges against PyTorch Geometric, the same weights on the same graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.bench.measure import Case, Row, exponent, report
from regard.edges import EdgeAttention, Edges
from regard.scores import LeakyAdditive, LeakyConcat, ScaledDot
from regard.systems.gat import GAT, Config

NODES, EDGES, FEATURES = 50_000, 1_000_000, 16
CORA = {"nodes": 2708, "edges": 10_556, "features": 1433, "words": 18, "classes": 7, "train": 140}


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the table, and write it as JSON if asked. ``quick`` takes
    graphs a hundred times smaller and one thread instead of two, to see that everything runs."""
    pyg = _pyg()
    rows = report(
        partial(_cases, pyg, 100 if quick else 1),
        threads=(1,) if quick else (2,),
        seconds=0.05 if quick else 0.3,
        only=only,
        json_file=json_file,
        peer="pyg",
        **{"torch-geometric": pyg.__version__},
    )
    for line in slopes(rows):
        print(line)
    return rows


def slopes(rows: list[Row]) -> Iterator[str]:
    """How time grows with the number of edges: the exponent between the smallest and the largest graph."""
    for kind in ("50,000 nodes", "20 edges a node"):
        for threads in sorted({row.threads for row in rows}):
            times = [
                (_edges_of(row.work), row.milliseconds["ours"])
                for row in rows
                if row.threads == threads and row.work.startswith("growth") and row.work.endswith(kind)
            ]
            if len(times) > 1:
                power_law = f"time ∝ edges^{exponent(times):.2f} (target: at most 1.1)"
                yield f"\ngrowth, {kind}, {threads} threads: {power_law}"


def _edges_of(work: str) -> int:
    return int(work.split(" edges")[0].split()[-1].replace(",", ""))


def _pyg() -> ModuleType:
    try:
        import torch_geometric  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError("this benchmark compares with PyTorch Geometric: pip install torch-geometric") from error
    return torch_geometric


def _cases(pyg: ModuleType, shrink: int) -> Iterator[Callable[[], Case]]:
    """Cases are built one by one, so that only one's tensors are in memory."""
    nodes, edges = NODES // shrink, EDGES // shrink
    for kind, heads, width, target in (
        ("GAT", 8, 8, "≥ 5× pyg"),
        ("GAT", 4, 64, "≥ 10× pyg; memory ≤ 1/10"),
        ("GATv2", 8, 8, "≥ 5× pyg"),
        ("GATv2", 4, 64, "≥ 5× pyg"),
        ("dot", 8, 8, ""),
    ):
        yield partial(_layer, pyg, kind, nodes, edges, heads, width, target)
    for kind, heads, width, target in (
        ("GAT", 8, 8, "≥ 8× pyg; memory ≤ 1/10"),
        ("GAT", 4, 64, "≥ 8× pyg; memory ≤ 1/10"),
        ("GATv2", 8, 8, ""),
        ("dot", 8, 8, ""),
    ):
        yield partial(_layer, pyg, kind, nodes, edges, heads, width, target, FEATURES)
    yield partial(_cora, pyg, "dense features", "≥ 8× pyg")
    yield partial(_cora, pyg, "sparse features", "≥ 8× pyg")
    for count in (100_000, 1_000_000, 10_000_000):
        yield partial(_growth, nodes, count // shrink, "50,000 nodes")
        yield partial(_growth, count // shrink // 20, count // shrink, "20 edges a node")


def _layer(
    pyg: ModuleType, kind: str, nodes: int, edges: int, heads: int, width: int, target: str, wide: int | None = None
) -> Case:
    """One layer with its projections; self-loops as PyG's layers make them, which they do anew at each call. If edges
    have features, ``wide`` numbers each, self-loops are in the index: PyG's would be filled up at each call, too."""
    dim, options = heads * width, {} if wide is None else {"edge_dim": wide}
    index = torch.randint(nodes, (2, edges))
    x = torch.randn(nodes, dim)
    graph = Edges(index, nodes, self_loops=True)
    if kind == "dot":
        theirs = pyg.nn.TransformerConv(dim, width, heads=heads, root_weight=False, bias=False, **options)
        index = graph.index  # this one adds no loops
    else:
        options = options if wide is None else {**options, "add_self_loops": False}
        theirs = (pyg.nn.GATConv if kind == "GAT" else pyg.nn.GATv2Conv)(dim, width, heads=heads, bias=False, **options)
        index = index if wide is None else graph.index
    ours = _ours(kind, theirs, heads, width, wide)
    parameters = [p for p in theirs.parameters() if p.requires_grad]
    features = None if wide is None else torch.randn(len(graph), wide)
    contenders = {"ours": lambda: ours(x, graph, features), "pyg": lambda: theirs(x, index, features)}
    if kind == "GAT" and width == 8 and wide is None:
        raw = graph.index
        contenders["ours, sorting anew"] = lambda: ours(x, Edges(raw, nodes), None)
    work = f"{kind} layer, {nodes:,} nodes, {edges:,} edges, {heads} heads × {width}"
    work += "" if wide is None else f", {wide} features an edge"
    return Case(work, contenders, [x, *parameters], target, tolerance=1e-3)


def _ours(
    kind: str, theirs: Any, heads: int, width: int, wide: int | None
) -> Callable[[Tensor, Edges, Tensor | None], Tensor]:
    """Our layer with the very parameters of PyG's."""
    shape = (heads, width)
    if kind == "GAT":
        score: Any = LeakyConcat(width, width, heads=heads)
    else:
        score = LeakyAdditive(width, heads=heads) if kind == "GATv2" else ScaledDot()
    attention: Any = EdgeAttention(score)
    if wide is not None:
        attention = EdgeAttention(score, edge_dim=wide, heads=heads, key_dim=width)
    for part in (score, attention):  # the layer below sets PyG's parameters in the place of these
        for name in dict(part.named_parameters(recurse=False)):
            delattr(part, name)

    def layer(x: Tensor, edges: Edges, features: Tensor | None) -> Tensor:
        if wide is not None:
            projected = theirs.lin_edge.weight.unflatten(0, shape)  # (H, D, K)
            attention.edge_key = theirs.att_edge[0].unsqueeze(1) @ projected if kind == "GAT" else projected
            attention.edge_value = projected if kind == "dot" else None
        if kind == "GAT":
            score.query, score.key = theirs.att_dst[0], theirs.att_src[0]
            query = key = value = theirs.lin(x).unflatten(-1, shape)
        elif kind == "GATv2":
            score.v = theirs.att[0]
            query, key = (linear(x).unflatten(-1, shape) for linear in (theirs.lin_r, theirs.lin_l))
            value = key
        else:
            linears = (theirs.lin_query, theirs.lin_key, theirs.lin_value)
            query, key, value = (linear(x).unflatten(-1, shape) for linear in linears)
        return attention(query, key, value, edges, features=features).context.flatten(1)

    return layer


def _cora(pyg: ModuleType, features: str, target: str) -> Case:
    """A whole training step: both layers with dropout, the loss, backward and Adam, on a random graph as large as Cora
    and with as many words to a node; the network, and for dense features all else, as in PyG's examples/gat.py, with
    Adam fused for both."""
    nodes, words, classes = CORA["nodes"], CORA["words"], CORA["classes"]
    x = torch.zeros(nodes, CORA["features"])
    x.scatter_(1, torch.randint(CORA["features"], (nodes, words)), 1 / words)
    index = torch.randint(nodes, (2, CORA["edges"]))
    labels, training = torch.randint(classes, (nodes,)), torch.arange(CORA["train"])
    graph = Edges(index, nodes, self_loops=True)
    model = GAT(Config(CORA["features"], classes))
    batch: dict[str, Any] = {"features": x, "edges": graph, "labels": labels, "nodes": training}
    if features.startswith("sparse"):
        batch["features"] = x.to_sparse_csr()
        batch["turned"] = _turned(batch["features"])
    theirs = _Example(pyg, CORA["features"], classes)
    contenders = {
        "ours": _step(model, lambda: model(batch)["loss"]),
        "pyg": _step(theirs, lambda: functional.cross_entropy(theirs(x, index)[training], labels[training])),
    }
    return Case(f"GAT on a graph of Cora's size, {features}", contenders, (), target, ("training step",), None)


def _step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], Tensor]:
    adam = torch.optim.Adam(model.parameters(), 0.005, weight_decay=5e-4, fused=True)

    def step() -> Tensor:
        adam.zero_grad()
        value = loss()
        value.backward()
        adam.step()
        return value.detach().requires_grad_()  # the measurement goes backward once more, from here

    return step


class _Example(nn.Module):
    """The network of PyG's examples/gat.py."""

    def __init__(self, pyg: ModuleType, features: int, classes: int):
        super().__init__()
        self.first = pyg.nn.GATConv(features, 8, heads=8, dropout=0.6)
        self.second = pyg.nn.GATConv(64, classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        x = functional.elu(self.first(functional.dropout(x, 0.6, self.training), index))
        return self.second(functional.dropout(x, 0.6, self.training), index)


def _turned(features: Tensor) -> Tensor:
    """The transpose of sparse features, with the place of each value instead of the value, as the system takes it."""
    places = torch.arange(features.values().numel())
    starts, columns = features.crow_indices(), features.col_indices()
    turned = torch.sparse_csr_tensor(
        starts, columns, places + 1.0, features.shape, check_invariants=False
    ).to_sparse_csc()
    order = turned.values().long() - 1
    shape = (features.shape[1], features.shape[0])
    return torch.sparse_csr_tensor(turned.ccol_indices(), turned.row_indices(), order, shape, check_invariants=False)


def _growth(nodes: int, edges: int, kind: str) -> Case:
    """Attention without projections, 8 heads × 8, forward and backward, measured alone."""
    graph = Edges(torch.randint(nodes, (2, edges)), nodes)
    attention = EdgeAttention(LeakyConcat(8, 8, heads=8))
    x = torch.randn(nodes, 8, 8)
    contenders = {"ours": lambda: attention(x, x, x, graph).context}
    return Case(f"growth, {edges:,} edges, {kind}", contenders, [x], "", ("forward+backward",), None)
