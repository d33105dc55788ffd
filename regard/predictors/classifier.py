"""Any system that chooses one of several classes, or a set of them, and what it looked at for it.

``model.predict(batch)`` gives the probabilities of the classes, (B, C), or a dict with them; if that has ``chosen``
(B, K), the numbers of classes in the order in which they were predicted and −1 after the last, the answer is a set.
The task says what one may ask, names the classes and the axes. What was looked at is recorded: each use of attention
whose axes the task knows is drawn; ``chosen`` are the rows of a system that looks once for each member of a set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from regard.axes import Axis, Steps, Words, merge
from regard.layers.use import Use
from regard.predictors._asked_predictor import AskedPredictor
from regard.predictors.predictor import CHUNK, Answer, percent, track
from regard.tape import record
from regard.views import between
from regard.views.picture import Picture

NEXT = 3
"""Classes that are named beside the likeliest."""
CHOSEN = "chosen"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The answer to one item.

    Attributes:
        label: the likeliest class, or the members of a set with commas between.
        probabilities: (C,).
        weights: the weights of each attention by its name, (T, S) or (H, T, S).
        labels: the members of a set; None where one class is chosen.
    """

    label: str
    probabilities: Tensor
    weights: dict[str, Tensor]
    labels: tuple[str, ...] | None = None

    @property
    def probability(self) -> float:
        """Of the likeliest class."""
        return float(self.probabilities.max())


class Classifier(AskedPredictor):
    """A system that names a class or a set of them."""

    @torch.inference_mode()
    def predict(self, items: Sequence[Any]) -> list[Chosen]:
        """The class, or the classes, of each item of the task."""
        answers: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            with record(self.model) as tape:
                out = self.model.predict(self.moved(batch))
            out = out if isinstance(out, Mapping) else {"probabilities": out}
            probabilities, sets = out["probabilities"].float().cpu(), out.get(CHOSEN)
            axes = self.task.axes(items[rows[0]])
            uses = {name: use for name in tape if (use := self._use(name)) is not None}
            weights = {name: tape[name].weights for name, use in uses.items() if use.columns in axes}
            for place, row in enumerate(rows):
                item_weights = {name: batch_weights[place] for name, batch_weights in weights.items()}
                if sets is None:
                    names = self.task.classes_of(items[row])
                    item_probabilities = probabilities[place, : len(names)]
                    answers[row] = Chosen(names[int(item_probabilities.argmax())], item_probabilities, item_weights)
                else:
                    labels = tuple(self.task.classes[number] for number in sets[place].tolist() if number >= 0)
                    answers[row] = Chosen(", ".join(labels) or "nothing", probabilities[place], item_weights, labels)
        return answers

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of a split, or of its first ``limit`` items."""
        count = min(self.task.count(split), limit or self.task.count(split))
        choices: list[Chosen] = []
        for first in track(range(0, count, CHUNK), -(-count // CHUNK)):
            choices += self.predict([self.task.item(split, row) for row in range(first, min(first + CHUNK, count))])
        return self.task.measure(split, choices)

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All in batches."""
        answers, items = self.read(questions)
        for (row, item), choice in zip(items.items(), self._choices(list(items.values())), strict=True):
            answers[row] = self.followed(questions[row], self._answer(item, choice))
        return answers

    def _choices(self, items: Sequence[Any]) -> list[Any]:
        """What :meth:`predict` gives, with all that an answer shows."""
        return self.predict(items)

    def _use(self, name: str) -> Use | None:
        """What the system declares of an attention, by its name on the tape."""
        return next((use for pattern, use in self.model.uses.items() if fnmatchcase(name, pattern)), None)

    def _answer(self, item: Any, choice: Chosen) -> Answer:
        order = choice.probabilities.argsort(descending=True, stable=True).tolist()
        names = self.task.classes_of(item)
        if choice.labels is None:
            order = order[: NEXT + 1]
            notes = [f"{percent(choice.probability)} sure" + self._next(choice, names, order[1:])]
        else:
            members = [number for number in order if names[number] in choice.labels]
            others = [number for number in order if number not in members][:NEXT]
            likely = ", ".join(self._share(choice, names, number) for number in members)
            notes, order = [f"{likely or 'Nothing is likely'}" + self._next(choice, names, others)], members + others
        shares = {names[number]: round(float(choice.probabilities[number]), 4) for number in order}
        fields: dict[str, Any] = {"probabilities": shares}
        if choice.labels is not None:
            fields["labels"] = list(choice.labels)
        pictures = list(self._pictures(item, choice))
        return Answer(choice.label, [*self.task.remarks(item), *notes], pictures=pictures, fields=fields)

    def _share(self, choice: Chosen, names: Sequence[str], number: int) -> str:
        return f"{names[number]} {percent(float(choice.probabilities[number]))}"

    def _next(self, choice: Chosen, names: Sequence[str], others: Sequence[int]) -> str:
        return f"; next: {', '.join(self._share(choice, names, number) for number in others)}." if others else "."

    def _pictures(self, item: Any, choice: Chosen) -> Iterator[Picture]:
        """One for each attention; hops, each an attention of its own, are the rows of one."""
        axes = self.task.axes(item)
        attentions = list(self._attentions(choice, axes))
        for name, use, weights in attentions:
            if use.rows == CHOSEN:
                rows: Axis = Words(choice.labels or ())
            else:
                rows = axes.get(use.rows) or Steps.numbered(len(weights), use.rows.removesuffix("s"))
            if len(rows):
                merged = merge(weights, rows, axes[use.columns])
                title = self.task.heading(item, choice.label) + (f" ({name})" if len(attentions) > 1 else "")
                yield between.picture([between.Side(rows, merged)], axes[use.columns], title=title)

    def _attentions(self, choice: Chosen, axes: Mapping[str, Axis]) -> Iterator[tuple[str, Use, Tensor]]:
        """Name, use and weights (T, S), means over heads, of what is drawn."""
        for pattern, use in self.model.uses.items():
            names = [name for name in choice.weights if fnmatchcase(name, pattern)]
            if use.columns not in axes or not names:
                continue
            recorded = [choice.weights[name] for name in names]
            matrices = [weights.mean(0) if weights.ndim == 3 else weights for weights in recorded]
            if use.rows not in axes and all(len(matrix) == 1 for matrix in matrices) and use.rows != CHOSEN:
                yield pattern, use, torch.cat(matrices)
            else:
                yield from ((name, use, weights) for name, weights in zip(names, matrices))
