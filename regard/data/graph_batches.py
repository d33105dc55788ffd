"""Graphs as batches: several joined into one, or the part around some nodes, sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard.data.graphs import Graph
from regard.data.sparse import is_sparse, ranges, stack, take
from regard.edges import Edges


def join(graphs: Sequence[Graph], split: str | None) -> dict[str, Any]:
    """Several graphs as one batch, a single disconnected graph; ``nodes`` are those of the split, or all."""
    before = np.cumsum([0, *map(len, graphs)])
    per_graph = [torch.arange(len(g)) if split is None else g.of_split(split) for g in graphs]
    nodes = torch.cat([nodes + int(start) for nodes, start in zip(per_graph, before)])
    if len(graphs) == 1:
        (graph,) = graphs
        batch = {"features": graph.features, "edges": graph.edges, "labels": graph.labels, "nodes": nodes}
        return batch | ({"turned": graph.turned} if is_sparse(graph.features) else {})
    return {
        "features": stack([graph.features for graph in graphs]),
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
        places = [ranges(starts[few], counts[few])]
        targets = [np.repeat(nodes[few], counts[few])]
        if not few.all():
            places.append((starts[~few, None] + _choose(counts[~few], most, random)).ravel())
            targets.append(np.repeat(nodes[~few], most))
        return self._sources[np.concatenate(places)], np.concatenate(targets)


def _choose(counts: np.ndarray, number: int, random: np.random.Generator) -> np.ndarray:
    """(n, number): for each count, ``number`` different numbers below it. Floyd's algorithm, all rows at once."""
    chosen = np.empty((len(counts), number), dtype=np.int64)
    for column in range(number):
        last = counts - number + column
        drawn = (random.random(len(counts)) * (last + 1)).astype(np.int64)
        taken = (chosen[:, :column] == drawn[:, None]).any(1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen
