"""One graph: what its nodes look like, which are joined, what is known of them. And how a part of it is drawn.

Letters: N nodes, E edges, F features, C classes. An edge goes from a source to a target; the target attends.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest
from regard.edges import Edges

SPLITS = ("train", "valid", "test")
NOWHERE = -1
"""The split of a node that none uses, and the class of a node of which none is known."""
SPARSE = 0.1
"""Features with a smaller share of nonzeros are kept sparse."""

_SPELLINGS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2, "": NOWHERE}


def split_number(text: str) -> int:
    """``train``, ``valid`` (or ``val``, ``dev``) and ``test`` as 0, 1, 2; nothing as −1."""
    if text.strip().lower() not in _SPELLINGS:
        raise ValueError(f"no split is called {text!r}: {nearest(text, SPLITS)}")
    return _SPELLINGS[text.strip().lower()]


@dataclass(eq=False)
class Graph:
    """N nodes and the edges between them.

    Attributes:
        features: (N, F) float32, strided or sparse CSR.
        index: (2, E) int64, sources and targets.
        labels: (N,) int64 with −1 where the class is unknown, or (N, C) float32 of zeros and ones where a node may
            have several.
        split: (N,) int64: 0 train, 1 valid, 2 test, −1 none.
        names: of the nodes; their numbers if None.
        classes: what the classes are called; their numbers if None.
        self_loops: whether every node attends to itself too, in :attr:`edges`.
    """

    features: Tensor
    index: Tensor
    labels: Tensor
    split: Tensor
    names: list[str] | None = None
    classes: list[str] | None = None
    self_loops: bool = True

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def several(self) -> bool:
        """May a node have several labels?"""
        return self.labels.ndim == 2

    @cached_property
    def edges(self) -> Edges:
        """The edges by target and by source, sorted once."""
        return Edges(self.index, len(self), self_loops=self.self_loops)

    @cached_property
    def turned(self) -> Tensor:
        """(F, N) sparse CSR: the transpose of sparse features, with the place of each value instead of the value."""
        counts, columns = self.features.crow_indices().diff(), self.features.col_indices()
        order = columns.argsort(stable=True)
        rows = torch.repeat_interleave(torch.arange(len(self)), counts)[order]
        starts = _starts(torch.bincount(columns, minlength=self.features.shape[1]))
        shape = (self.features.shape[1], len(self))
        return torch.sparse_csr_tensor(starts, rows, order, shape, check_invariants=True)

    def name(self, node: int) -> str:
        """What a node is called."""
        return str(node) if self.names is None else self.names[node]

    def number(self, name: str) -> int:
        """The node of a name or, where nodes have none, of a number."""
        if self.names is not None:
            if name not in self._numbers:
                known = self.names if len(self.names) <= 50 else [*self.names[:10], "…"]
                raise ValueError(f"no node is called {name!r}: {nearest(name, known)}")
            return self._numbers[name]
        if not name.strip().isdigit() or int(name) >= len(self):
            raise ValueError(f"there is no node {name!r}: nodes are 0 to {len(self) - 1}")
        return int(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names or ())}

    def of_split(self, split: str) -> Tensor:
        """The nodes of a split whose labels are known, (M,)."""
        chosen = self.split == SPLITS.index(split)
        return (chosen if self.several else chosen & (self.labels >= 0)).nonzero()[:, 0]

    def checked(self, where: str) -> Graph:
        """This graph, if its parts fit each other; ``where`` it is from goes into the error."""
        count = len(self)
        if self.features.ndim != 2 or not count or not self.features.shape[1]:
            raise ValueError(f"{where}: features are (nodes, features), not {tuple(self.features.shape)}")
        values = self.features.values() if is_sparse(self.features) else self.features
        if not bool(torch.isfinite(values).all()):
            node = int((~torch.isfinite(_sums(self.features))).nonzero()[0])
            raise ValueError(f"{where}: the features of node {self.name(node)} are not all finite numbers")
        if self.index.ndim != 2 or self.index.shape[0] != 2 or self.index.is_floating_point():
            raise ValueError(
                f"{where}: edges are (2, E) whole numbers, not {tuple(self.index.shape)} of {self.index.dtype}"
            )
        outside = ((self.index < 0) | (self.index >= count)).any(0)
        if bool(outside.any()):
            column = int(outside.nonzero()[0])
            source, target = self.index[:, column].tolist()
            raise ValueError(f"{where}: edge {column} joins {source} and {target}, but nodes are 0 to {count - 1}")
        for what, tensor in (("labels", self.labels), ("split", self.split)):
            if tensor.shape[0] != count:
                raise ValueError(f"{where}: {tensor.shape[0]} {what} for {count} nodes")
        if self.several and not bool(((self.labels == 0) | (self.labels == 1)).all()):
            raise ValueError(f"{where}: labels (nodes, classes) are 0 or 1 each")
        if self.several and self.classes is not None and len(self.classes) != self.labels.shape[1]:
            raise ValueError(f"{where}: {self.labels.shape[1]} labels a node, but {len(self.classes)} names of them")
        if self.names is not None and len(self.names) != count:
            raise ValueError(f"{where}: {len(self.names)} names for {count} nodes")
        return self


# ---------------------------------------------------------------------------------------------------------------------
# Features, strided or sparse


def is_sparse(features: Tensor) -> bool:
    """Is it a sparse CSR tensor?"""
    return features.layout == torch.sparse_csr


def csr(starts: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor of float32."""
    parts = [torch.as_tensor(part) for part in (starts, columns, values)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        starts, places, numbers = parts[0].long(), parts[1].long(), parts[2].float()
        return torch.sparse_csr_tensor(starts, places, numbers, shape, check_invariants=True)


def compact(features: Tensor) -> Tensor:
    """Features as float32, sparse CSR if there is little in them."""
    if features.layout != torch.strided:
        whole = features.to_sparse_csr() if features.layout != torch.sparse_csr else features
        return csr(whole.crow_indices(), whole.col_indices(), whole.values(), tuple(features.shape))  # type: ignore[arg-type]
    if features.ndim == 2 and features.numel() and int(features.count_nonzero()) < SPARSE * features.numel():
        rows, columns = features.nonzero(as_tuple=True)
        counts = torch.bincount(rows, minlength=features.shape[0])
        return csr(_starts(counts), columns, features[rows, columns], tuple(features.shape))  # type: ignore[arg-type]
    return features.float()


def rows_to_one(features: Tensor) -> Tensor:
    """Features divided by the sum of their row, where that is not 0."""
    total = _sums(features)
    total = torch.where(total == 0, 1.0, total)
    if not is_sparse(features):
        return features / total[:, None]
    starts = features.crow_indices()
    scaled = features.values() / torch.repeat_interleave(total, starts.diff())
    return csr(starts, features.col_indices(), scaled, tuple(features.shape))  # type: ignore[arg-type]


def _sums(features: Tensor) -> Tensor:
    """(N,), of each row."""
    if not is_sparse(features):
        return features.sum(1)
    counts = features.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return features.values().new_zeros(len(counts)).index_add_(0, row, features.values())


def take(features: Tensor, rows: Tensor) -> Tensor:
    """Some rows, in that order."""
    if not is_sparse(features):
        return features[rows]
    starts, columns, values = features.crow_indices(), features.col_indices(), features.values()
    counts = starts.diff()[rows]
    places = _ranges(starts[rows].numpy(), counts.numpy())
    return csr(_starts(counts), columns[places], values[places], (len(rows), features.shape[1]))


def _stack(parts: Sequence[Tensor]) -> Tensor:
    """Features of several graphs, one below the other."""
    if not any(map(is_sparse, parts)):
        return torch.cat(list(parts))
    kept = [part if is_sparse(part) else part.to_sparse_csr() for part in parts]
    counts = torch.cat([part.crow_indices().diff() for part in kept])
    columns, values = (torch.cat([getattr(part, name)() for part in kept]) for name in ("col_indices", "values"))
    return csr(_starts(counts), columns, values, (len(counts), parts[0].shape[1]))


def _starts(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …"""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts)


# ---------------------------------------------------------------------------------------------------------------------
# Batches


def join(graphs: Sequence[Graph], split: str | None) -> dict[str, Any]:
    """Several graphs as one batch, a single disconnected graph; ``nodes`` are those of the split, or all."""
    before = np.cumsum([0, *map(len, graphs)])
    asked = [torch.arange(len(g)) if split is None else g.of_split(split) for g in graphs]
    nodes = torch.cat([nodes + int(start) for nodes, start in zip(asked, before)])
    if len(graphs) == 1:
        (graph,) = graphs
        batch = {"features": graph.features, "edges": graph.edges, "labels": graph.labels, "nodes": nodes}
        return batch | ({"turned": graph.turned} if is_sparse(graph.features) else {})
    return {
        "features": _stack([graph.features for graph in graphs]),
        "edges": Edges.batch([graph.edges for graph in graphs]),
        "labels": torch.cat([graph.labels for graph in graphs]),
        "nodes": nodes,
    }


class Sampler:
    """Draws, for some nodes, a part of a graph in which they can be answered: at most ``neighbours`` incoming edges of
    each, of their sources likewise, and so on for ``hops`` (Hamilton, Ying & Leskovec 2017, arXiv:1706.02216).
    """

    def __init__(self, graph: Graph, neighbours: int, hops: int):
        self.graph, self.neighbours, self.hops = graph, neighbours, hops
        source, target = graph.index.numpy()
        order = np.argsort(target, kind="stable")
        self._sources = source[order]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=len(graph)))])
        self._place = np.full(len(graph), -1)  # of a node among those drawn

    def __call__(self, nodes: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
        """A batch: the part of the graph around ``nodes``, which come first in it."""
        drawn, sources, targets, frontier = [nodes], [], [], nodes
        place, count = self._place.copy(), len(nodes)
        place[nodes] = np.arange(count)
        for _ in range(self.hops):
            source, target = self._draw(frontier, random)
            frontier = np.unique(source[place[source] < 0])
            place[frontier] = np.arange(count, count + len(frontier))
            count += len(frontier)
            drawn.append(frontier)
            sources.append(place[source])
            targets.append(place[target])
        index = torch.from_numpy(np.stack([np.concatenate(sources), np.concatenate(targets)]))
        taken, graph = torch.from_numpy(np.concatenate(drawn)), self.graph
        return {
            "features": take(graph.features, taken),
            "edges": Edges(index, count, self_loops=graph.self_loops),
            "labels": graph.labels[taken],
            "nodes": torch.arange(len(nodes)),
            "taken": taken,
        }

    def _draw(self, nodes: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Sources and targets of the drawn edges into ``nodes``; no edge twice."""
        most, starts = self.neighbours, self._starts[nodes]
        counts = self._starts[nodes + 1] - starts
        few = counts <= most
        places = [_ranges(starts[few], counts[few])]
        targets = [np.repeat(nodes[few], counts[few])]
        if not few.all():
            places.append((starts[~few, None] + _choose(counts[~few], most, random)).ravel())
            targets.append(np.repeat(nodes[~few], most))
        return self._sources[np.concatenate(places)], np.concatenate(targets)


def _choose(counts: np.ndarray, number: int, random: np.random.Generator) -> np.ndarray:
    """(n, number): for each count, so many different numbers below it. Floyd's algorithm, all rows at once."""
    chosen = np.empty((len(counts), number), dtype=np.int64)
    for column in range(number):
        last = counts - number + column
        drawn = (random.random(len(counts)) * (last + 1)).astype(np.int64)
        taken = (chosen[:, :column] == drawn[:, None]).any(1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen


# ---------------------------------------------------------------------------------------------------------------------
# Graphs of other libraries


def is_foreign(thing: Any) -> bool:
    """Is it a graph, or graphs by split, rather than the place of one?"""
    return isinstance(thing, Graph | Mapping) or hasattr(thing, "edge_index") or hasattr(thing, "adj")


def foreign(thing: Any, data_seed: int = 0) -> list[Graph]:
    """Graphs from a :class:`Graph`, a ``torch_geometric.data.Data``, a NetworkX graph, or several of them by split:
    ``{"train": [...], "valid": [...], "test": [...]}``."""
    if isinstance(thing, Mapping):
        found = []
        for split, members in thing.items():
            number = split_number(str(split))
            for one in members if isinstance(members, Iterable) and not is_foreign(members) else [members]:
                graph = _one(one)
                found.append(replace(graph, split=torch.full((len(graph),), number)))
        return found
    return [with_split(_one(thing), data_seed)]


def _one(thing: Any) -> Graph:
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
    for node, about in nodes:
        if "x" not in about:
            raise ValueError(f"node {node!r} has no features: graph.nodes[{node!r}]['x'] is missing")
        rows.append(np.atleast_1d(np.asarray(about["x"], dtype=np.float32)))
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError(f"nodes have between {min(widths)} and {max(widths)} features: they must have as many each")
    pairs = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2).T
    if not graph.is_directed():
        pairs = np.concatenate([pairs, pairs[::-1, pairs[0] != pairs[1]]], axis=1)
    given = [about.get("y") for _, about in nodes]
    labels, classes = encode(given)
    split = torch.tensor([split_number(str(about.get("split", ""))) for _, about in nodes])
    features = compact(torch.from_numpy(np.stack(rows))) if rows else torch.zeros(0, 0)
    names = [str(node) for node, _ in nodes]
    numbered = names == [str(row) for row in range(len(names))]
    made = Graph(features, torch.from_numpy(pairs), labels, split, None if numbered else names, classes)
    return made.checked(type(graph).__name__)


def encode(given: Sequence[Any], classes: Sequence[str] | None = None) -> tuple[Tensor, list[str] | None]:
    """Labels as a tensor, and what the classes are called. A label is None, a whole number, a text, or a sequence of
    zeros and ones where a node may have several."""
    rows = [
        label for label in given if isinstance(label, Sequence | np.ndarray | Tensor) and not isinstance(label, str)
    ]
    if rows:
        width = len(rows[0])
        whole = [label if label is not None else [0] * width for label in given]
        if any(len(label) != width for label in whole):
            raise ValueError(f"labels are {width} zeros and ones for one node, but not for another")
        return torch.tensor(np.array([np.asarray(label) for label in whole], dtype=np.float32)), None
    texts = ["" if label is None else str(label).strip() for label in given]
    known = list(classes) if classes is not None else ordered(text for text in texts if text)
    place = {name: number for number, name in enumerate(known)}
    for text in texts:
        if text and text not in place:
            raise ValueError(f"no class is called {text!r}: {nearest(text, known)}")
    return torch.tensor([place.get(text, NOWHERE) for text in texts], dtype=torch.long), known


def ordered(names: Iterable[str]) -> list[str]:
    """The different names, by number if they are numbers."""
    found = set(names)
    numbers = all(name.lstrip("-").isdigit() for name in found)
    return sorted(found, key=lambda name: (int(name), name) if numbers else (0, name))


def with_split(graph: Graph, seed: int) -> Graph:
    """The graph with its labelled nodes drawn into 60, 20 and 20 % of train, valid and test, unless it has splits."""
    if bool((graph.split >= 0).any()):
        return graph
    known = np.arange(len(graph)) if graph.several else np.flatnonzero(graph.labels.numpy() >= 0)
    order = np.random.default_rng([seed, 60]).permutation(known)
    split = torch.full((len(graph),), NOWHERE)
    held = max(round(0.2 * len(order)), 1)
    for number, rows in enumerate((order[2 * held :], order[:held], order[held : 2 * held])):
        split[torch.from_numpy(rows)] = number
    return replace(graph, split=split)


def both_ways(pairs: np.ndarray) -> np.ndarray:
    """(2, E): each of the given pairs once in either direction, none twice, no loops."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    base = int(pairs.max(initial=0)) + 1
    keys = np.unique(np.concatenate([pairs[0] * base + pairs[1], pairs[1] * base + pairs[0]]))
    return np.stack([keys // base, keys % base])
