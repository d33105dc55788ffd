"""Any system that chooses one of several classes, or a set of them, and what it looked at for it.

``model.predict(batch)`` gives the probabilities of the classes, (B, C), or a dict with them; if that has ``chosen``
(B, K), the numbers of classes in the order in which they were found and −1 after the last, the answer is a set. The
task says what one may ask, names the classes and the axes. What was looked at is recorded: each use of attention whose
axes the task knows is drawn; ``chosen`` are the rows of a system that looks once for each member of a set.
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
from regard.predictors._asked import AskedPredictor
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
            shares, sets = out["probabilities"].float().cpu(), out.get(CHOSEN)
            drawn = self.task.axes(items[rows[0]])
            uses = {name: use for name in tape if (use := self._use(name)) is not None}
            seen = {name: tape[name].weights for name, use in uses.items() if use.columns in drawn}
            for place, row in enumerate(rows):
                looked = {name: each[place] for name, each in seen.items()}
                if sets is None:
                    names = self.task.classes_of(items[row])
                    each = shares[place, : len(names)]
                    answers[row] = Chosen(names[int(each.argmax())], each, looked)
                else:
                    labels = tuple(self.task.classes[number] for number in sets[place].tolist() if number >= 0)
                    answers[row] = Chosen(", ".join(labels) or "nothing", shares[place], looked, labels)
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
            answers[row] = self.followed(questions[row], self._answer(item, found))
        return answers

    def _use(self, name: str) -> Use | None:
        """What the system declares of an attention, by its name on the tape."""
        return next((use for pattern, use in self.model.uses.items() if fnmatchcase(name, pattern)), None)

    def _answer(self, item: Any, found: Chosen) -> Answer:
        order = found.probabilities.argsort(descending=True, stable=True).tolist()
        names = self.task.classes_of(item)
        if found.labels is None:
            order = order[: NEXT + 1]
            notes = [f"{percent(found.probability)} sure" + self._next(found, names, order[1:])]
        else:
            members = [number for number in order if names[number] in found.labels]
            others = [number for number in order if number not in members][:NEXT]
            told = ", ".join(self._share(found, names, number) for number in members)
            notes, order = [f"{told or 'Nothing is likely'}" + self._next(found, names, others)], members + others
        shares = {names[number]: round(float(found.probabilities[number]), 4) for number in order}
        fields: dict[str, Any] = {"probabilities": shares}
        if found.labels is not None:
            fields["labels"] = list(found.labels)
        pictures = list(self._pictures(item, found))
        return Answer(found.label, [*self.task.remarks(item), *notes], pictures=pictures, fields=fields)

    def _share(self, found: Chosen, names: Sequence[str], number: int) -> str:
        return f"{names[number]} {percent(float(found.probabilities[number]))}"

    def _next(self, found: Chosen, names: Sequence[str], others: Sequence[int]) -> str:
        return f"; next: {', '.join(self._share(found, names, number) for number in others)}." if others else "."

    def _pictures(self, item: Any, found: Chosen) -> Iterator[Picture]:
        """One for each attention; hops, each an attention of its own, are the rows of one."""
        axes = self.task.axes(item)
        drawn = list(self._drawn(found, axes))
        for name, use, weights in drawn:
            if use.rows == CHOSEN:
                rows: Axis = Words(found.labels or ())
            else:
                rows = axes.get(use.rows) or Steps.numbered(len(weights), use.rows.removesuffix("s"))
            if len(rows):
                merged = merge(weights, rows, axes[use.columns])
                title = self.task.heading(item, found.label) + (f" ({name})" if len(drawn) > 1 else "")
                yield between.picture([between.Side(rows, merged)], axes[use.columns], title=title)

    def _drawn(self, found: Chosen, axes: Mapping[str, Axis]) -> Iterator[tuple[str, Use, Tensor]]:
        """Name, use and weights (T, S), means over heads, of what is drawn."""
        for pattern, use in self.model.uses.items():
            names = [name for name in found.weights if fnmatchcase(name, pattern)]
            if use.columns not in axes or not names:
                continue
            maps = [each.mean(0) if each.ndim == 3 else each for each in (found.weights[name] for name in names)]
            if use.rows not in axes and all(len(each) == 1 for each in maps) and use.rows != CHOSEN:
                yield pattern, use, torch.cat(maps)
            else:
                yield from ((name, use, weights) for name, weights in zip(names, maps))
