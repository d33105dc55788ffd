"""Any system that chooses one of several classes, and what it looked at for it.

``model.predict(batch)`` gives the probabilities of the classes, (B, C), or a dict with them; the task says what one may
ask, names the classes and the axes. What was looked at is recorded: each use of attention whose axes the task knows is
drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from regard.axes import Steps, merge
from regard.layers.use import Use
from regard.predictors._asked import AskedPredictor
from regard.predictors.predictor import CHUNK, Answer, percent, track
from regard.tape import record
from regard.views import between
from regard.views.picture import Picture

NEXT = 3
"""Classes that are named beside the likeliest."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The answer to one item.

    Attributes:
        label: the likeliest class.
        probabilities: (C,).
        weights: the weights of each attention by its name, (T, S) or (H, T, S).
    """

    label: str
    probabilities: Tensor
    weights: dict[str, Tensor]

    @property
    def probability(self) -> float:
        """Of the likeliest class."""
        return float(self.probabilities.max())


class Classifier(AskedPredictor):
    """A system that names a class."""

    @torch.inference_mode()
    def predict(self, items: Sequence[Any]) -> list[Chosen]:
        """The class of each item of the task."""
        answers: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            with record(self.model) as tape:
                out = self.model.predict(self.moved(batch))
            shares = (out["probabilities"] if isinstance(out, dict) else out).float().cpu()
            seen = {name: tape[name].weights for name in tape if self._use(name) is not None}
            for place, row in enumerate(rows):
                label = self.task.classes[int(shares[place].argmax())]
                answers[row] = Chosen(label, shares[place], {name: each[place] for name, each in seen.items()})
        return answers

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of a split, or of its first ``limit`` items."""
        count = min(self.task.count(split), limit or self.task.count(split))
        found: list[Chosen] = []
        for first in track(range(0, count, CHUNK), -(-count // CHUNK)):
            found += self.predict([self.task.item(split, row) for row in range(first, min(first + CHUNK, count))])
        return self.task.measure(split, found)

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All in batches."""
        answers, items = self.read(questions)
        for (row, item), found in zip(items.items(), self.predict(list(items.values())), strict=True):
            answers[row] = self._answer(item, found)
        return answers

    def _use(self, name: str) -> Use | None:
        """What the system declares of an attention, by its name on the tape."""
        return next((use for pattern, use in self.model.uses.items() if fnmatchcase(name, pattern)), None)

    def _answer(self, item: Any, found: Chosen) -> Answer:
        order = found.probabilities.argsort(descending=True, stable=True)[: NEXT + 1].tolist()
        others = [f"{self.task.classes[number]} {percent(float(found.probabilities[number]))}" for number in order[1:]]
        notes = [f"{percent(found.probability)} sure" + (f"; next: {', '.join(others)}." if others else ".")]
        shares = {self.task.classes[number]: round(float(found.probabilities[number]), 4) for number in order}
        pictures = list(self._pictures(item, found))
        return Answer(found.label, notes, pictures=pictures, fields={"probabilities": shares})

    def _pictures(self, item: Any, found: Chosen) -> Iterator[Picture]:
        axes = self.task.axes(item)
        for name, weights in found.weights.items():
            use = self._use(name)
            if use is not None and use.columns in axes:
                weights = weights.mean(0) if weights.ndim == 3 else weights
                rows = axes.get(use.rows) or Steps.numbered(len(weights), use.rows.removesuffix("s"))
                merged = merge(weights, rows, axes[use.columns])
                title = found.label if len(found.weights) == 1 else f"{found.label} ({name})"
                yield between.picture([between.Side(rows, merged)], axes[use.columns], title=title)
