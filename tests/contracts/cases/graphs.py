"""Graphs: three of different sizes, one of a single node, as one disconnected graph."""

from typing import Any

import torch

from contracts.cases import Case
from regard.edges import Edges

WIDTH, CLASSES = 5, 3
SIZES = {6: [(0, 1), (1, 0), (2, 1), (5, 1), (1, 1), (4, 2), (4, 2)], 1: [], 4: [(0, 3), (3, 0), (1, 2)]}


def graphs(several: bool, sparse: bool) -> list[dict[str, Any]]:
    """The graphs one by one. In the first, node 1 has a self-loop of its own and an edge comes twice."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for size, pairs in SIZES.items():
        index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        features = torch.randn(size, WIDTH, generator=generator)
        features = features * (torch.rand(size, WIDTH, generator=generator) < 0.5)
        if several:
            labels = (torch.rand(size, CLASSES, generator=generator) < 0.5).float()
        else:
            labels = torch.randint(CLASSES, (size,), generator=generator)
        found.append(
            {
                "features": features.to_sparse_csr() if sparse else features,
                "edges": Edges(index, size, self_loops=True),
                "labels": labels,
                "nodes": torch.arange(0, size, 2),
            }
        )
    return found


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The graphs as one batch."""
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + part["features"].shape[0])
    features = torch.cat([part["features"].to_dense() for part in parts])
    return {
        "features": features.to_sparse_csr() if parts[0]["features"].layout == torch.sparse_csr else features,
        "edges": Edges.batch([part["edges"] for part in parts]),
        "labels": torch.cat([part["labels"] for part in parts]),
        "nodes": torch.cat([part["nodes"] + start for part, start in zip(parts, starts)]),
    }


def _case(several: bool = False, sparse: bool = False, looks: bool = True, **options: object) -> Case:
    sizes = {"features": WIDTH, "classes": CLASSES, "several": several, "dropout": 0.0, "heads": 2, "hidden": 4}
    return Case(
        {**sizes, **options},
        lambda: together(graphs(several, sparse)),
        lambda batch: graphs(several, sparse),
        looks=looks,
    )


CASES = {
    "gat": [
        _case(attention="gat"),
        _case(attention="gat", sparse=True),
        _case(attention="gat", several=True, layers=3, residual=True, out_heads=3),
        _case(attention="gatv2"),
        _case(attention="gatv2", sparse=True, several=True),
        _case(attention="constant"),
        _case(attention="none", looks=False),
        _case(attention="gat", layers=1, out_heads=2),
    ]
}
