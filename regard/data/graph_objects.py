"""Graphs of other libraries: PyG's ``Data`` and NetworkX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.data.graphs import NOWHERE, Graph, encode, split_number, with_split
from regard.data.sparse import compact


def is_foreign(thing: Any) -> bool:
    """Is it a graph, or graphs by split, rather than the place of one?"""
    return isinstance(thing, Graph | Mapping) or hasattr(thing, "edge_index") or hasattr(thing, "adj")


def foreign(thing: Any, data_seed: int = 0) -> list[Graph]:
    """Graphs from a :class:`Graph`, a ``torch_geometric.data.Data``, a NetworkX graph, or several of them by split:
    ``{"train": [...], "valid": [...], "test": [...]}``."""
    if isinstance(thing, Mapping):
        graphs = []
        for split, members in thing.items():
            number = split_number(str(split))
            for member in members if isinstance(members, Iterable) and not is_foreign(members) else [members]:
                graph = _converted(member)
                graphs.append(replace(graph, split=torch.full((len(graph),), number)))
        return graphs
    return [with_split(_converted(thing), data_seed)]


def _converted(thing: Any) -> Graph:
    if isinstance(thing, Graph):
        return thing
    if hasattr(thing, "edge_index"):
        return _from_data(thing)
    if hasattr(thing, "adj"):
        return _from_networkx(thing)
    raise ValueError(f"{type(thing).__name__} is no graph: it has neither edge_index (PyG) nor adj (NetworkX)")


def _from_data(data: Any) -> Graph:
    """``x``, ``edge_index``, ``y`` and the three masks of PyG's ``Data``."""
    where = type(data).__name__
    if getattr(data, "x", None) is None:
        raise ValueError(f"{where} has no node features: x is missing")
    count = data.x.shape[0]
    y = getattr(data, "y", None)
    if y is None:
        y = torch.full((count,), NOWHERE)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    split = torch.full((count,), NOWHERE)
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        mask = getattr(data, name, None)
        if mask is not None and mask.shape != (count,):
            raise ValueError(
                f"{where}: {name} is {tuple(mask.shape)} for {count} nodes; choose one split, e.g. {name}[:, 0]"
            )
        if mask is not None:
            split[mask.bool()] = number
    labels = y.float() if y.ndim == 2 else y.long()
    return Graph(compact(data.x), data.edge_index, labels, split).checked(where)


def _from_networkx(graph: Any) -> Graph:
    """Nodes with ``x`` (a vector) and perhaps ``y`` (a class, or 0s and 1s) and ``split``; an undirected edge counts
    both ways."""
    nodes = list(graph.nodes(data=True))
    number = {node: row for row, (node, _) in enumerate(nodes)}
    rows = []
    for node, attributes in nodes:
        if "x" not in attributes:
            raise ValueError(f"node {node!r} has no features: graph.nodes[{node!r}]['x'] is missing")
        rows.append(np.atleast_1d(np.asarray(attributes["x"], dtype=np.float32)))
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError(f"nodes have between {min(widths)} and {max(widths)} features: they must have as many each")
    pairs = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2).T
    if not graph.is_directed():
        pairs = np.concatenate([pairs, pairs[::-1, pairs[0] != pairs[1]]], axis=1)
    targets = [attributes.get("y") for _, attributes in nodes]
    labels, classes = encode(targets)
    split = torch.tensor([split_number(str(attributes.get("split", ""))) for _, attributes in nodes])
    features = compact(torch.from_numpy(np.stack(rows))) if rows else torch.zeros(0, 0)
    names = [str(node) for node, _ in nodes]
    numbered = names == [str(row) for row in range(len(names))]
    converted = Graph(features, torch.from_numpy(pairs), labels, split, None if numbered else names, classes)
    return converted.checked(type(graph).__name__)
