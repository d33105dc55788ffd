"""A tag for every word of a sentence, and what the system looked at for it.

``model.predict(batch)`` gives the tags, (B, W); the task names them and the axes. What was looked at is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.axes import Tags, Words
from regard.data.scripts import closed
from regard.metrics.tags import entities
from regard.predictors.classifier import Classifier
from regard.predictors.predictor import Answer
from regard.tape import record
from regard.views import between
from regard.views.picture import Picture

SHOWN = 0.005
"""Tags that no word has with a larger probability are not drawn."""


@dataclass(frozen=True, eq=False)
class Tagged:
    """The tags of one sentence.

    Attributes:
        label: words and tags in one line.
        tags: one for each word.
        weights: the weights of each attention by its name, (T, S) or (H, T, S).
        probabilities: (W, C), of each class for each word; None where they were not asked for, or the system has none.
    """

    label: str
    tags: tuple[str, ...]
    weights: dict[str, Tensor]
    probabilities: Tensor | None = None


class Tagger(Classifier):
    """A system that tags words."""

    @torch.inference_mode()
    def predict(self, items: Sequence[Any]) -> list[Any]:
        """The tags of each item of the task."""
        answers: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            if self.model.uses:
                with record(self.model) as tape:
                    tag_numbers = self.model.predict(self.moved(batch)).cpu()
                weights = {name: tape[name].weights for name in tape if self._use(name) is not None}
            else:
                tag_numbers, weights = self.model.predict(self.moved(batch)).cpu(), {}
            for place, row in enumerate(rows):
                words = items[row].words
                tags = tuple(self.task.classes[tag] for tag in tag_numbers[place, : len(words)].tolist())
                label = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
                answers[row] = Tagged(
                    label, tags, {name: batch_weights[place] for name, batch_weights in weights.items()}
                )
        return answers

    @torch.inference_mode()
    def _choices(self, items: Sequence[Any]) -> list[Any]:
        choices = self.predict(items)
        if hasattr(self.model, "probabilities"):
            for rows, batch in self.task.batches(items):
                probabilities = self.model.probabilities(self.moved(batch)).float().cpu()
                for place, row in enumerate(rows):
                    choices[row] = replace(choices[row], probabilities=probabilities[place, : len(items[row].words)])
        return choices

    def _pictures(self, item: Any, choice: Any) -> Iterator[Picture]:
        """Those of attention, and how likely each tag of each word is."""
        yield from super()._pictures(item, choice)
        if choice.probabilities is not None:
            likely = (choice.probabilities > SHOWN).any(0) | torch.tensor([c in choice.tags for c in self.task.classes])
            tags = Tags([name for name, shown in zip(self.task.classes, likely.tolist(), strict=True) if shown])
            side = between.Side(Words(item.words), choice.probabilities[:, likely])
            yield between.picture([side], tags, title="How likely each tag is")

    def _answer(self, item: Any, tagged: Any) -> Answer:
        fields: dict[str, Any] = {"words": list(item.words), "tags": list(tagged.tags)}
        notes = []
        if self.task.names:
            spans = [(entity.kind, item.words[entity.first : entity.last + 1]) for entity in entities(tagged.tags)]
            entity_texts = [(kind, closed(" ".join(words))) for kind, words in spans]
            fields["entities"] = [{"kind": kind, "text": text} for kind, text in entity_texts]
            notes = ["; ".join(f"{kind}: {text}" for kind, text in entity_texts) + "." if entity_texts else "No names."]
        return Answer(tagged.label, notes, pictures=list(self._pictures(item, tagged)), fields=fields)
