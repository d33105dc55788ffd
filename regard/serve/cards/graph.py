"""A node of a graph, its class, and the neighbours that it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field, create_model

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Next, Told, drawn, percent
from regard.tasks._graph_sets import GENERATED
from regard.trained.graph import Graph as TrainedGraph
from regard.views import graph

STEPS = 8
"""Neighbours that are offered to go on to."""
SENT = 200_000
"""Weights up to which a picture holds the whole graph."""


class Graph(Card):
    """A system on graphs."""

    trained: TrainedGraph
    Answer = Told
    title = "Walk through a graph"

    def __init__(self, trained: TrainedGraph):
        super().__init__(trained)
        self._seen = lru_cache(maxsize=4)(self._see)
        first, graphs, layers = trained.task.graphs[0].name(0), len(trained.task.graphs), len(self._seen(0)[1])
        node = Field(default=first, min_length=1, max_length=200, title="Node", description="Its name or number.")
        fields: dict[str, Any] = {"node": (str, node)}
        if layers > 1:
            fields["layer"] = (int, Field(default=1, ge=1, le=layers, title="Layer"))
        if graphs > 1:
            fields["graph"] = (int, Field(default=0, ge=0, le=graphs - 1, title="Graph"))
        self.Question: Any = create_model("Question", __base__=Visit, **fields)

    def data(self) -> str:
        data = self.trained.task.config.data
        return f"generated, {data}" if data in GENERATED else Path(data).name

    def _see(self, number: int) -> tuple[list[Any], list[Any]]:
        """The answers for all nodes of a graph, and the weights of its layers."""
        held = self.trained.task.graphs[number]
        names = [held.name(node) for node in range(len(held))]
        return self.trained.predict(names, graph=number), self.trained.weights(number)

    def examples(self) -> Sequence[Wire]:
        held = self.trained.task.graphs[0]
        return [self.Question(node=held.name(node)) for node in range(0, len(held), max(1, len(held) // 5))][:5]

    def one(self, question: Any) -> Told:
        number = getattr(question, "graph", 0)
        node = self.trained.task.graphs[number].number(question.node)
        answers, layers = self._seen(number)
        found = answers[node]
        text = f"Node {found.name}: {', '.join(found.labels) or 'no class'}"
        sure = f"{percent(found.probability)} sure."
        if not layers:
            return Told(text=text, notes=[sure, "This system does not look at neighbours."])
        name, weights, index = layers[getattr(question, "layer", 1) - 1]
        ego = graph.Ego.of(weights, index, node)
        if weights.numel() > SENT:  # then its neighbours, and where they look
            near = torch.isin(index[1], torch.tensor([node, *ego.others.tolist()]))
            weights, index = weights[near], index[:, near]
        names = [each.name for each in answers]
        kinds = None if self.trained.task.several else [int(each.probabilities.argmax()) for each in answers]
        view = graph.view(weights, index, node, names=names, kinds=kinds, classes=self.trained.task.classes)
        steps = [other for other in ego.others.tolist() if other != node][:STEPS]
        return Told(
            text=text,
            notes=[sure, f"In {name} it looks at {len(ego.others)} nodes."],
            next=[Next(label=names[other], question={"node": names[other]}) for other in steps],
            pictures=drawn(view),
        )


class Visit(Wire):
    """Which node, seen by which layer."""

    model_config = ConfigDict(json_schema_extra={"verb": "Look"})
