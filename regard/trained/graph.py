"""Nodes in, classes out, and at which neighbours they looked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.tape import record
from regard.trained import Trained, draw, lines, track


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


class Graph(Trained):
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
        asked = torch.tensor(list(rows), dtype=torch.long)
        found = self.model.predict(self.moved({**batch, "nodes": asked})).float().cpu()
        return [self._answer(number, row, graph.name(row), each) for row, each in zip(rows, found)]

    def _answer(self, graph: int, node: int, name: str, probabilities: Tensor) -> Prediction:
        classes = self.task.classes
        if self.task.several:
            chosen = [classes[label] for label in (probabilities > 0.5).nonzero()[:, 0].tolist()]
        else:
            chosen = [classes[int(probabilities.argmax())]]
        return Prediction(graph, node, name, chosen, probabilities)

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
        for found in self._answers(graph, names):
            if as_json:
                yield json.dumps(found.as_dict(self.task.classes), ensure_ascii=False)
            elif self.task.several:
                sure = [f"{name} {p:.3f}" for name, p in zip(self.task.classes, found.probabilities) if p > 0.5]
                yield f"{found.name}\t{', '.join(sure) or '-'}"
            else:
                yield f"{found.name}\t{found.labels[0]}\t{found.probability:.3f}"

    def weights(self, graph: int = 0) -> list[tuple[str, Tensor, Tensor]]:
        """Of each layer: its name, the weights (E, H), and the edges (2, E) that they are on."""
        _, batch = self._graph(graph)
        with torch.inference_mode(), record(self.model) as tape:
            self.model.logits(self.moved(batch))
        found = [(f"layer {place}", tape[name].calls[0]) for place, name in enumerate(tape, 1)]
        return [(name, look.weights.cpu(), look.edges.cpu()) for name, look in found if look.edges is not None]

    def show(
        self, what: Sequence[str], out: Path | None, *, head: int | None = None, layer: int = 1, graph: int = 0
    ) -> Iterator[str]:
        """Where the named nodes look; without any, how far from uniform the weights of the whole graph are."""
        from regard.views import graph as view
        from regard.views._shared import save

        held, _ = self._graph(graph)
        layers = self.weights(graph)
        if not layers:
            yield "this system does not look at neighbours"
            return
        if not what:
            for name, weights, index in layers:
                yield view.summary(weights, index, name)
            if out is not None:
                save(view.histogram(layers, title=f"{self.name}: attention against equal weights"), out)
                yield str(out)
            return
        if not 1 <= layer <= len(layers):
            raise ValueError(f"there is no layer {layer}: layers are 1 to {len(layers)}")
        name, weights, index = layers[layer - 1]
        answers = self._answers(graph, None)
        # A node may have several labels, but only one colour.
        kinds = None if self.task.several else [int(found.probabilities.argmax()) for found in answers]
        told = [", ".join(found.labels) for found in answers]
        names = [found.name for found in answers]
        for place, node in enumerate(map(held.number, what), 1):
            heading = f"node {names[node]} ({told[node] or 'no label'}), {name}"
            yield heading
            yield view.terminal(weights, index, node, names=names, kinds=told)
            if out is not None:
                path = out if len(what) == 1 else out.with_stem(f"{out.stem}-{place}")
                options: dict[str, Any] = {"names": names, "kinds": kinds, "classes": self.task.classes}
                ego, whole = (
                    partial(each, weights, index, node, title=heading, **options) for each in (view.ego, view.view)
                )
                yield draw(path, self.name, partial(ego, head=head), whole)
