"""A tag for every word of a sentence, and what the system looked at for it.

``model.predict(batch)`` gives the tags, (B, W); the task names them and the axes. What was looked at is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.scripts import closed
from regard.metrics.tags import entities
from regard.predictors.classifier import Classifier
from regard.predictors.predictor import Answer
from regard.tape import record


@dataclass(frozen=True, eq=False)
class Tagged:
    """The tags of one sentence.

    Attributes:
        label: words and tags in one line.
        tags: one for each word.
        weights: the weights of each attention by its name, (T, S) or (H, T, S).
    """

    label: str
    tags: tuple[str, ...]
    weights: dict[str, Tensor]


class Tagger(Classifier):
    """A system that tags words."""

    @torch.inference_mode()
    def predict(self, items: Sequence[Any]) -> list[Any]:
        """The tags of each item of the task."""
        answers: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            if self.model.uses:
                with record(self.model) as tape:
                    chosen = self.model.predict(self.moved(batch)).cpu()
                seen = {name: tape[name].weights for name in tape if self._use(name) is not None}
            else:
                chosen, seen = self.model.predict(self.moved(batch)).cpu(), {}
            for place, row in enumerate(rows):
                words = items[row].words
                tags = tuple(self.task.classes[tag] for tag in chosen[place, : len(words)].tolist())
                label = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
                answers[row] = Tagged(label, tags, {name: each[place] for name, each in seen.items()})
        return answers

    def _answer(self, item: Any, found: Any) -> Answer:
        fields: dict[str, Any] = {"words": list(item.words), "tags": list(found.tags)}
        notes = []
        if self.task.names:
            spans = [(each.kind, item.words[each.first : each.last + 1]) for each in entities(found.tags)]
            named = [(kind, closed(" ".join(words))) for kind, words in spans]
            fields["entities"] = [{"kind": kind, "text": text} for kind, text in named]
            notes = ["; ".join(f"{kind}: {text}" for kind, text in named) + "." if named else "No names."]
        return Answer(found.label, notes, pictures=list(self._pictures(item, found)), fields=fields)
