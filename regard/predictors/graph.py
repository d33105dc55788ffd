"""Nodes in, classes out, and at which neighbours they looked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.graph_sets import GENERATED
from regard.predictors.predictor import Answer, Predictor, lines, percent, track
from regard.questions import Input, Number, Text, form
from regard.tape import record
from regard.views import graph as graphs
from regard.views.picture import Picture


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer for one node.

    Attributes:
        graph: which graph it is in; 0 where there is only one.
        node: its number.
        name: what it is called.
        labels: the likeliest class, or all that are likelier than not where a node may have several.
        probabilities: (C,), of all classes.
    """

    graph: int
    node: int
    name: str
    labels: list[str]
    probabilities: Tensor

    @property
    def probability(self) -> float:
        """Of the likeliest class."""
        return float(self.probabilities.max())

    def as_dict(self, classes: Sequence[str]) -> dict[str, Any]:
        """For JSON; probabilities to four places."""
        rounded = {name: round(float(p), 4) for name, p in zip(classes, self.probabilities)}
        return {"graph": self.graph, "node": self.name, "labels": self.labels, "probabilities": rounded}


class Graph(Predictor):
    """A system on graphs, ready to answer for any of their nodes."""

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Accuracy or micro-F1 of a split (or of its first ``limit`` graphs), in percent. No neighbour is left out."""
        wholes = list(itertools.islice(self.task.wholes(split), limit))
        logits = [self.model.logits(self.moved(batch)).cpu() for _, batch in track(wholes, len(wholes))]
        return self.task.evaluate(split, logits)

    def predict(self, nodes: Sequence[str | int] | None = None, *, graph: int = 0) -> list[Prediction]:
        """The answers for some nodes of one graph, by name or number, or for all nodes of all graphs."""
        if nodes is None:
            return [answer for number in range(len(self.task.graphs)) for answer in self._answers(number, None)]
        return self._answers(graph, [str(node) for node in nodes])

    @torch.inference_mode()
    def _answers(self, number: int, names: Sequence[str] | None) -> list[Prediction]:
        graph, batch = self._graph(number)
        rows = range(len(graph)) if names is None else [graph.number(name) for name in names]
        nodes = torch.tensor(list(rows), dtype=torch.long)
        probabilities = self.model.predict(self.moved({**batch, "nodes": nodes})).float().cpu()
        return [
            self._answer(number, row, graph.name(row), node_probabilities)
            for row, node_probabilities in zip(rows, probabilities)
        ]

    def _answer(self, graph: int, node: int, name: str, probabilities: Tensor) -> Prediction:
        classes = self.task.classes
        if self.task.several:
            labels = [classes[label] for label in (probabilities > 0.5).nonzero()[:, 0].tolist()]
        else:
            labels = [classes[int(probabilities.argmax())]]
        return Prediction(graph, node, name, labels, probabilities)

    def _graph(self, number: int) -> tuple[Any, dict[str, Any]]:
        if not 0 <= number < len(self.task.graphs):
            raise ValueError(f"there is no graph {number}: graphs are 0 to {len(self.task.graphs) - 1}")
        return next(itertools.islice(self.task.wholes(), number, None))

    def answer(
        self, file: Path | None, *, nodes: str | None = None, graph: int = 0, as_json: bool = False
    ) -> Iterator[str]:
        """Node, class and probability, a line each; of the nodes named, of those in a file (one a line), or of all
        nodes of the graph."""
        if nodes is not None and file is not None:
            raise ValueError(f"either --nodes {nodes} or the file {file} says which nodes, not both")
        names: list[str] | None = None
        if nodes is not None:
            names = [name.strip() for name in nodes.split(",") if name.strip()]
        elif file is not None:
            names = [line.strip() for line in lines(file, "") if line.strip()]
        for prediction in self._answers(graph, names):
            if as_json:
                yield json.dumps(prediction.as_dict(self.task.classes), ensure_ascii=False)
            elif self.task.several:
                likely = [f"{name} {p:.3f}" for name, p in zip(self.task.classes, prediction.probabilities) if p > 0.5]
                yield f"{prediction.name}\t{', '.join(likely) or '-'}"
            else:
                yield f"{prediction.name}\t{prediction.labels[0]}\t{prediction.probability:.3f}"

    def weights(self, graph: int = 0) -> list[tuple[str, Tensor, Tensor]]:
        """Of each layer: its name, the weights (E, H), and the edges (2, E) that they are on."""
        _, batch = self._graph(graph)
        with torch.inference_mode(), record(self.model) as tape:
            self.model.logits(self.moved(batch))
        looks = [(f"layer {place}", tape[name].calls[0]) for place, name in enumerate(tape, 1)]
        return [(name, look.weights.cpu(), look.edges.cpu()) for name, look in looks if look.edges is not None]

    def look(
        self, what: Sequence[str] = (), *, head: int | None = None, layer: int = 1, graph: int = 0
    ) -> Iterator[tuple[str, Picture | None]]:
        """Where the named nodes look; without any, how far from uniform the weights of the whole graph are.

        Args:
            head: of a figure; the mean of all if None.
            layer: which, from 1.
            graph: which one, if there are several.
        """
        graph_data, _ = self._graph(graph)
        layers = self.weights(graph)
        if not layers:
            yield "this system does not look at neighbours", None
        elif what:
            answers = self._answers(graph, None)
            yield from (self._picture(answers, layers, graph_data.number(node), layer, head) for node in what)
        else:
            summary = "\n".join(graphs.summary(weights, index, name) for name, weights, index in layers)
            title = f"{self.name}: attention against equal weights"
            yield summary, Picture(title, str, figure=partial(graphs.histogram, layers, title=title))

    def _picture(
        self, answers: Sequence[Prediction], layers: Sequence[Any], node: int, layer: int, head: int | None = None
    ) -> tuple[str, Picture]:
        if not 1 <= layer <= len(layers):
            raise ValueError(f"there is no layer {layer}: layers are 1 to {len(layers)}")
        name, weights, index = layers[layer - 1]
        if weights.numel() > SENT:  # then its neighbours, and where they look
            selected = torch.isin(index[1], torch.tensor([node, *graphs.Ego.of(weights, index, node).others.tolist()]))
            weights, index = weights[selected], index[:, selected]
        # A node may have several labels, but only one colour.
        kinds = None if self.task.several else [int(answer.probabilities.argmax()) for answer in answers]
        labels, names = [", ".join(answer.labels) for answer in answers], [answer.name for answer in answers]
        heading = f"node {names[node]} ({labels[node] or 'no label'}), {name}"
        about: dict[str, Any] = dict(names=names, told=labels, kinds=kinds, classes=self.task.classes, head=head)
        return heading, graphs.picture(weights, index, node, title=heading, **about)

    # Questions

    title = "Walk through a graph"

    @cached_property
    def Question(self) -> Any:
        """Which node, seen by which layer of which graph."""
        count, layers = len(self.task.graphs), len(self._cached(0)[1])
        first = self.task.graphs[0].name(0)
        inputs: dict[str, Input] = {"node": Text(200, 1, default=first, title="Node", about="Its name or number.")}
        if layers > 1:
            inputs["layer"] = Number(1, layers, default=1, title="Layer")
        if count > 1:
            inputs["graph"] = Number(0, count - 1, default=0, title="Graph")
        return form("Look", **inputs)

    def data(self) -> str:
        data = self.task.config.data
        return f"generated, {data}" if data in GENERATED else Path(data).name

    def _cached(self, number: int) -> tuple[list[Prediction], list[Any]]:
        """The answers for all nodes of a graph, and the weights of its layers; the last few graphs are kept."""
        if number not in self._cache:
            while len(self._cache) > 3:
                self._cache.pop(next(iter(self._cache)))
            self._cache[number] = self._answers(number, None), self.weights(number)
        return self._cache[number]

    @cached_property
    def _cache(self) -> dict[int, Any]:
        return {}

    def examples(self) -> list[Any]:
        first_graph = self.task.graphs[0]
        nodes = sorted(set(first_graph.index[1].tolist())) or list(
            range(len(first_graph))
        )  # nodes with neighbours to look at
        return [self.Question(node=first_graph.name(node)) for node in nodes[:: max(1, len(nodes) // 5)][:5]]

    def one(self, question: Any) -> Answer:
        number = getattr(question, "graph", 0)
        node = self.task.graphs[number].number(question.node)
        answers, layers = self._cached(number)
        prediction, names = answers[node], [answer.name for answer in answers]
        text = f"Node {prediction.name}: {', '.join(prediction.labels) or 'no class'}"
        certainty = f"{percent(prediction.probability)} sure."
        if not layers:
            return Answer(text, [certainty, "This system does not look at neighbours."])
        _, picture = self._picture(answers, layers, node, getattr(question, "layer", 1))
        name, weights, index = layers[getattr(question, "layer", 1) - 1]
        others = graphs.Ego.of(weights, index, node).others.tolist()
        steps = [(names[other], {"node": names[other]}) for other in others if other != node][:STEPS]
        notes = [certainty, f"In {name} it looks at {len(others)} node{'s' * (len(others) != 1)}."]
        return Answer(text, notes, steps, [picture])


STEPS = 8
"""Neighbours that are offered to go on to."""
SENT = 200_000
"""Weights up to which a picture holds the whole graph."""
