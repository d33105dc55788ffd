"""Nodes of a graph: which neighbours the class of a node came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.edges import Edges
from regard.explain.faithfulness import Case
from regard.tape import record

ITEMS = "neighbours"


def cases(model: Any, batch: Mapping[str, Any], random: torch.Generator) -> Iterator[Case]:
    """One for each of the batch's ``nodes``, in random order: its likeliest class, with the weights of its incoming
    edges in the last layer, the mean over the heads. An edge that is left out is missing in all layers; self-loops
    stay."""
    edges = Edges.of(batch["edges"], batch["features"].shape[0], self_loops=True)
    full_batch = {**batch, "edges": edges}
    with record(model) as tape:
        classes = model.predict(full_batch).argmax(-1)
    names = tape.names()
    if not names:
        raise ValueError(f"{type(model).__name__} has no attention to its neighbours")
    weights = tape[names[-1]].calls[0].weights.mean(1)
    source, target = edges.index
    for place in torch.randperm(len(batch["nodes"]), generator=random).tolist():
        node = int(batch["nodes"][place])
        incoming = ((target == node) & (source != node)).nonzero()[:, 0]
        if len(incoming):
            score = partial(_score, model, full_batch, edges, node, incoming, int(classes[place]))
            yield Case(weights[incoming][None], score)


def _score(
    model: Any, full_batch: Mapping[str, Any], edges: Edges, node: int, incoming: Tensor, label: int, keep: Tensor
) -> Tensor:
    """(N, S) → (N, 1): the probability of the class."""
    probabilities = []
    for row in keep:
        keep_edges = torch.ones(len(edges), dtype=torch.bool)
        keep_edges[incoming[~row]] = False
        part = {**full_batch, "edges": Edges(edges.index[:, keep_edges], edges.nodes), "nodes": torch.tensor([node])}
        probabilities.append(model.predict(part)[0, label])
    return torch.stack(probabilities)[:, None]
