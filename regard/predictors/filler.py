"""Models that restore what is hidden in a text: the likeliest tokens of each hole, and where the model looked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.data.tokens import SPECIAL
from regard.predictors._asked_predictor import AskedPredictor
from regard.predictors.predictor import Answer, percent
from regard.tape import record
from regard.views import heads
from regard.views.picture import Picture

NEXT = 5
"""Tokens that are named for a hole."""


class Filler(AskedPredictor):
    """A system that fills holes."""

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """Accuracy and perplexity of hidden tokens of a split, or of its first ``limit`` batches."""
        return self.task.measures(split, self.means(split, limit=limit))

    @torch.inference_mode()
    def fill(self, items: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
        """For each item the probabilities (holes, V) of what is hidden, and the weights (L, H, S, S) of all layers."""
        results: list[Any] = [None] * len(items)
        for rows, batch in self.task.batches(items):
            with record(self.model) as tape:
                log_prob = self.model.restore(self.moved(batch)).float().cpu()
            layers = torch.stack([tape[name].weights for name in tape], 1).cpu()  # (B, L, H, S, S)
            for place, row in enumerate(rows):
                length = len(items[row].ids)
                probabilities = log_prob[place, list(items[row].places)].exp()
                probabilities[:, : len(SPECIAL)] = 0  # no text holds them
                probabilities[:, self._blank] = 0
                results[row] = probabilities, layers[place, ..., :length, :length]
        return results

    @cached_property
    def _blank(self) -> list[int]:
        """Tokens that are spaces or ends of lines: a hole is a word."""
        pieces = self.task.tokenizer.pieces(range(len(self.task.tokenizer)))
        return [number for number, piece in enumerate(pieces) if not piece.strip()]

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All in batches."""
        answers, items = self.read(questions)
        for (row, item), (probabilities, weights) in zip(items.items(), self.fill(list(items.values())), strict=True):
            answers[row] = self._answer(item, probabilities, weights)
        return answers

    def _answer(self, item: Any, hole_probabilities: Tensor, weights: Tensor) -> Answer:
        tokenizer, filled = self.task.tokenizer, list(item.ids)
        notes, holes = [], []
        for number, (place, hole) in enumerate(zip(item.places, hole_probabilities, strict=True), 1):
            best = hole.topk(min(NEXT, len(hole)))
            filled[place] = int(best.indices[0])
            pieces: dict[str, float] = {}
            for piece, value in zip(tokenizer.pieces(best.indices.tolist()), best.values):
                # The same word with and without the space before it: the likelier comes first and stays.
                pieces.setdefault(piece.strip() or piece, round(float(value), 4))
            holes.append(pieces)
            notes.append(f"Hole {number}: " + ", ".join(f"{piece} {percent(value)}" for piece, value in pieces.items()))
        return Answer(
            tokenizer.decode(filled), notes, pictures=list(self._pictures(item, weights)), fields={"holes": holes}
        )

    def _pictures(self, item: Any, weights: Tensor) -> Iterator[Picture]:
        labels = list(self.task.axes(item)["words"].labels)
        yield heads.picture(weights, labels, title="Where each word looked")
