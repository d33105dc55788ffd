"""Any system that writes a sequence: whatever it reads, in whatever tokens.

The task says what one may ask and how an item becomes a batch, spells what was written and names the axes; search and
pictures need nothing more.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from regard import decode
from regard.attended import witness
from regard.axes import Axis, merge
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.decode.packed import twin
from regard.decode.written import Written
from regard.predictors._asked_predictor import AskedPredictor
from regard.predictors._rescoring import Rescorer, rescorer
from regard.predictors.predictor import CHUNK, Answer, Predictor, track
from regard.questions import Flag, Input, Number
from regard.views import between
from regard.views.picture import Picture
from regard.views.text import shorten

TITLE = 60
"""Characters of an answer in the title of one of several pictures."""

Spelled = TypeVar("Spelled")


class Writer(AskedPredictor):
    """A system that writes, or several that decide together."""

    compared = True
    rescorer: Rescorer | None = None

    @classmethod
    def inputs(cls, task: Any) -> Mapping[str, Input]:
        """What the task asks for, and how to search."""
        search = {
            "nbest": Number(1, 5, default=1, option=True, title="Answers", about="The best first."),
            "beam": Number(
                1, 10, default=None, optional=True, option=True, title="Beam", about="Hypotheses that are kept."
            ),
            "pictures": Flag(default=True, hidden=True, about="Also say where each word looked?"),
        }
        return {**task.asks, **search}

    @property
    def config(self) -> DecodeConfig:
        """How answers are searched for."""
        return self.recipe.build("decode")

    def join(self, others: Sequence[Predictor]) -> Self:
        """An ensemble. All must read and write the same tokens."""
        for other in others:
            ours, theirs = self.task.tokens(), other.task.tokens()
            for side in ours:
                if ours[side] != theirs.get(side):
                    raise ValueError(
                        f"{self.name} and {other.name} have different {side} vocabularies and cannot vote together"
                    )
        model = decode.Ensemble([self.model, *(other.model for other in others)])
        return type(self)(model, self.task, self.recipe, self.name)

    def rescored(self, other: Predictor, weight: float | None = None) -> Self:
        """The same system, all hypotheses of whose beam are ranked again by an ``other``, whose ``weight`` has the
        default of its kind if None.

        A language model (``gpt``, ``lstmn``) ranks by log P(y|x) / |y| + weight · log P_LM(y); a joint model of the
        same tokens (``nnjm``) by (1 − weight) · score + weight · its mean log-probability of a token.
        """
        if self.config.method != "beam":
            raise ValueError(f"{self.name}: only a beam has hypotheses to rank again, not {self.config.method}")
        ranked = copy.copy(self)
        ranked.rescorer = rescorer(self, other, weight)
        return ranked

    def write(self, items: Sequence[Any], *, nbest: int = 1, size: int | None = None) -> list[list[Written]]:
        """At most ``nbest`` answers to each item of the task, best first; ``size`` is that of the beam."""
        return self._search(items, self._spell, nbest=nbest, size=size)

    @torch.inference_mode()
    def _search(
        self,
        items: Sequence[Any],
        spell: Callable[[Any, decode.Hypothesis], Spelled],
        *,
        nbest: int,
        size: int | None = None,
        alignments: bool = True,
        generator: torch.Generator | None = None,
        changes: Sequence[str] = (),
    ) -> list[list[Spelled]]:
        """What ``spell`` makes of an item and each of its hypotheses; ``changes`` are ``key=value`` of the recipe."""
        items = self.task.completed(items, self.model)
        changes = [*changes, *([] if size is None else [f"decode.size={max(size, nbest)}"])]
        config = self.recipe.change(changes).build("decode")
        answers: list[list[Spelled]] = [[] for _ in items]
        for rows, batch in self.task.batches(items):
            # A tape knows the model's own parts by name.
            model = self.writer(self.model if witness.see is not None else twin(self.model))
            batch = self.moved(batch)
            options: dict[str, Any] = {"nbest": nbest, "alignments": alignments, "generator": generator}
            if self.rescorer is not None:
                options |= {"nbest": max(config.size, nbest), "alignments": True}
            for number, (row, hypotheses) in enumerate(zip(rows, search(model, batch, config, **options), strict=True)):
                if self.rescorer is not None:
                    source = {name: tensor[number] for name, tensor in batch.items() if isinstance(tensor, Tensor)}
                    hypotheses = self.rescorer(source, hypotheses, self._texts(items[row], hypotheses))[:nbest]
                answers[row] = [spell(items[row], hypothesis) for hypothesis in hypotheses]
        return answers

    def _texts(self, item: Any, hypotheses: Sequence[decode.Hypothesis]) -> list[str]:
        return [str(self.task.write(hypothesis.tokens, item)) for hypothesis in hypotheses]

    def writer(self, model: Any) -> Any:
        """What searches are made with: the model, or one that limits what it writes."""
        return model

    def _spell(self, item: Any, hypothesis: decode.Hypothesis) -> Written:
        words, axes = self.task.write(hypothesis.tokens, item), self.task.axes(item)
        looks = {
            name: merge(weights, words, axes[name])
            for name, weights in self._weights_by_axis(hypothesis.alignment, axes)
        }
        weights = next(iter(looks.values()), None)
        return self.task.looked(Written(words, weights, hypothesis.score, hypothesis.log_prob, looks, item))

    def _weights_by_axis(self, alignment: Any, axes: Mapping[str, Axis]) -> Iterator[tuple[str, Tensor]]:
        """The weights of a hypothesis over each axis that the item has. If the system tells of one source alone, it is
        the first one that its uses of attention declare."""
        if isinstance(alignment, Mapping):
            yield from ((name, weights) for name, weights in alignment.items() if name in axes)
        elif alignment is not None:
            declared = [use.columns for use in self.model.uses.values() if use.columns in axes]
            yield from ((name, alignment) for name in declared[:1])

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of what the system writes for a split, or for its first ``limit`` items."""
        count = min(self.task.count(split), limit or self.task.count(split))
        written: list[Written] = []
        for first in track(range(0, count, CHUNK), -(-count // CHUNK)):
            items = [self.task.item(split, number) for number in range(first, min(first + CHUNK, count))]
            written += [best for best, *_ in self.write(items)]
        values = self.task.measure(split, written)
        self.signatures = self.task.signatures
        batches = None if limit is None else max(1, limit // max(1, getattr(self.task.config, "batch", 1)))
        for name, change in self.task.perplexities.items():
            values[name] = math.exp(self.means(split, limit=batches, change=change)["nll"])
        return values

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All that are searched for with the same beam are decoded together."""
        answers, items = self.read(questions)
        groups: dict[Any, list[int]] = defaultdict(list)
        for row in items:
            groups[questions[row].beam, questions[row].nbest].append(row)
        for (beam, nbest), rows in groups.items():
            results = self.write([items[row] for row in rows], nbest=nbest, size=beam)
            for row, written in zip(rows, results, strict=True):
                answers[row] = self.followed(questions[row], self._answer(written, questions[row].pictures))
        return answers

    def _answer(self, written: Sequence[Written], pictures: bool) -> Answer:
        best = written[0]
        drawn = list(self._pictures(written)) if pictures else []
        notes = self.task.remarks(best.item)
        if best.weights is None and best.words.labels:
            notes.append("This system does not look back.")
        answers = [
            {
                "text": candidate.text,
                "words": list(candidate.words.labels),
                "score": candidate.score,
                **self._fields(candidate),
            }
            for candidate in written
        ]
        return Answer(best.text, notes, pictures=drawn, fields={"answers": answers}, document=best.words.document)

    def _fields(self, written: Written) -> dict[str, Any]:
        return self.task.fields(written.item, written.words)

    def _pictures(self, written: Sequence[Written]) -> Iterator[Picture]:
        """A picture for each axis that words looked along."""
        best = written[0]
        axes = self.task.axes(best.item)
        for name in best.looks:
            sides = [
                between.Side(candidate.words, candidate.looks[name], candidate.score)
                for candidate in written
                if len(candidate.words)
            ]
            if sides:
                title = self._title(best)
                title = title if len(best.looks) == 1 else f"{shorten(title, TITLE)} ({name})"
                yield between.picture(sides, axes[name], title=title)

    def _title(self, best: Written) -> str:
        """Of its pictures."""
        return best.text
