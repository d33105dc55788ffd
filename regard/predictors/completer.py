"""Language models: a text that goes on from its beginning, and where each token of it looked back.

What follows is sampled; a question's ``seed`` says which sample. The picture shows the self-attention of the written
text over itself, from one more reading of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Self

import torch
from torch import Tensor

from regard import decode
from regard.axes import Words
from regard.decode.rescoring import log_probs
from regard.predictors.predictor import Answer, Predictor
from regard.predictors.writer import Writer
from regard.questions import SEED, Flag, Input, Number
from regard.tape import record
from regard.views import between, heads
from regard.views.picture import Picture

SHOWN = 48
"""Tokens in the picture: the last ones of the text."""


class Completer(Writer):
    """A language model, or several that decide together."""

    @classmethod
    def inputs(cls, task: Any) -> Mapping[str, Input]:
        """The beginning, and how to sample."""
        search: dict[str, Input] = {
            "seed": SEED,
            "temperature": Number(
                1,
                300,
                default=None,
                optional=True,
                option=True,
                title="Temperature, in percent",
                about="Less is more careful; that of the recipe if not given.",
            ),
            "nbest": Number(1, 5, default=1, option=True, title="Answers", about="Samples."),
            "pictures": Flag(default=True, hidden=True, about="Also say where each token looked?"),
        }
        return {**task.asks, **search}

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Nats, bits and perplexity of a split, or of its first ``limit`` batches."""
        return self.task.measures(split, self.means(split, limit=limit))

    def log_probs(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of each text as a line of its own, its end included."""
        rows = [self.task.line(text) for text in texts]
        lengths = torch.tensor([max(len(row), 1) for row in rows], device=self.device)
        tokens = torch.zeros(len(rows), int(lengths.max()) if rows else 1, dtype=torch.long, device=self.device)
        for row, ids in enumerate(rows):
            tokens[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return log_probs(self.model, tokens, lengths).tolist()

    def rescored(self, other: Predictor, weight: float | None = None) -> Self:
        return Predictor.rescored(self, other, weight)

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """One by one: what is drawn for a question must not depend on what else was asked."""
        return Predictor.ask(self, questions)

    def one(self, question: Any) -> Answer:
        item = self.task.read(question)
        changes = [] if question.temperature is None else [f"decode.temperature={question.temperature / 100}"]
        generator = torch.Generator(self.device).manual_seed(question.seed)
        options: dict[str, Any] = {"nbest": question.nbest, "alignments": False, "generator": generator}
        (hypotheses,) = self._search([item], lambda item, hypothesis: hypothesis, changes=changes, **options)
        texts = [self.task.write(hypothesis.tokens, item) for hypothesis in hypotheses]
        drawn = list(self._own([*item.ids, *hypotheses[0].tokens])) if question.pictures else []
        answers = [
            {"text": str(text), "log_prob": hypothesis.log_prob}
            for text, hypothesis in zip(texts, hypotheses, strict=True)
        ]
        return Answer(str(texts[0]), pictures=drawn, fields={"answers": answers})

    @torch.inference_mode()
    def _own(self, tokens: Sequence[int]) -> Iterator[Picture]:
        """Where each token of a text looked among those before it."""
        model = self.model.models[0] if isinstance(self.model, decode.Ensemble) else self.model
        patterns = [name for name, use in model.uses.items() if use.rows == use.columns == "written"]
        if not patterns:
            return
        batch = self.task.window(tokens)
        with record(model) as tape:
            model(self.moved(batch))
        count = min(batch["target"].shape[1] - 1, SHOWN)
        labels = self.task.labels(list(tokens)[-count:])
        looks: list[Tensor] = [
            _square(tape[name].weights[0])[..., -count:, -count:].cpu()
            for name in tape
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        ]
        title = "Where each token looked back"
        if looks[0].ndim == 3:
            yield heads.picture(torch.stack(looks), labels, title=title)
        else:
            axis = Words(labels)
            yield from (between.picture([between.Side(axis, layer)], axis, title=title) for layer in looks)


def _square(weights: Tensor) -> Tensor:
    """(…, T, T): of a memory that does not yet hold the last tokens, with columns for them."""
    return torch.nn.functional.pad(weights, (0, weights.shape[-2] - weights.shape[-1]))
