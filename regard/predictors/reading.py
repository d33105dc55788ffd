"""Questions about documents: answers, and which words were looked at for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.axes import Words
from regard.data import turns
from regard.data.passages import Question as PassageQuestion
from regard.data.passages import Typed, read_typed
from regard.predictors.predictor import Answer, Predictor, lines, percent, track
from regard.questions import Input, Text, form
from regard.tasks._passages import FIRST, HISTORY
from regard.views import between, document
from regard.views.picture import Picture

LONGEST = 6000
"""Characters of a text that someone types."""
NEAR = 2
"""Words to either side that still count as near."""


@dataclass(frozen=True, eq=False)
class Reply:
    """One answer.

    Attributes:
        text: the answer, as the document writes it.
        probability: of the answer.
        words: the words of the document that were read.
        blanks: for each, whether a blank stands before it.
        places: numbers of the words that are the answer: a span, or all mentions of an entity.
        weights: (looks, words).
        rows: the query of each look, in words.
        final: which of the looks the answer was read from: the last of the question.
        asked: the words of the question and of the turns before it, with their weights, if the reader has such.
    """

    text: str
    probability: float
    words: tuple[str, ...]
    blanks: tuple[bool, ...]
    places: tuple[int, ...]
    weights: Tensor
    rows: tuple[str, ...]
    final: int
    asked: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights to four places."""
        weights = [[round(weight, 4) for weight in row] for row in self.weights.tolist()]
        fields = {"answer": self.text, "probability": self.probability}
        return {**fields, "words": list(self.words), "rows": list(self.rows), "weights": weights}


class Reading(Predictor):
    """A reader with its words."""

    def predict(self, story: str, question: str) -> Reply:
        """Answer a question about a text. Where entities are asked for, the question has a hole, ``___``."""
        return self.replies([self.task.typed(Typed(story, question, None, "story"))])[0]

    def replies(self, questions: Sequence[PassageQuestion]) -> list[Reply]:
        """Answers to questions, in their order."""
        replies: dict[int, Reply] = {}
        for rows, _, answers in self._answered_batches(questions):
            replies |= dict(zip(rows.tolist(), answers))
        return [replies[number] for number in range(len(questions))]

    @torch.inference_mode()
    def _answered_batches(
        self, questions: Sequence[PassageQuestion]
    ) -> Iterator[tuple[np.ndarray, dict[str, Tensor], list[Reply]]]:
        for rows, batch in self.task.batches(questions):
            out = {name: tensor.cpu() for name, tensor in self.model.predict(self.moved(batch)).items()}
            answers = [self._answer(questions[row], batch, out, place) for place, row in enumerate(rows)]
            yield rows, batch, answers

    def _answer(self, question: PassageQuestion, batch: dict[str, Tensor], out: dict[str, Tensor], row: int) -> Reply:
        passage, question_words, length = (
            question.document,
            question.question.words,
            int(batch["document_lengths"][row]),
        )
        weights, spans = out["weights"][row, :, :length].float(), "first" in out
        if spans:
            places = list(range(int(out["first"][row]), int(out["last"][row]) + 1))
            answer = passage.piece(places[0], places[-1])
        else:
            places = (batch["document"][row, :length] == out["answer"][row] + FIRST).nonzero()[:, 0].tolist()
            answer = passage.words[places[0]] if places else ""
        rows: tuple[str, ...] = ("first word",) if spans else ("question",)
        if len(weights) - spans > 1:  # one look for each word of the question, and for padding
            rows = question_words
        final = len(rows) - 1
        if spans:
            weights, rows = torch.cat([weights[: len(rows)], weights[-1:]]), (*rows, "last word")
        ends = [0, *(end for _, end in passage.places)]
        blanks = tuple(start > end for (start, _), end in zip(passage.places[:length], ends))
        words, probability = passage.words[:length], float(out["probability"][row])
        word_weights: tuple[tuple[str, float], ...] = ()
        if "asked" in out:
            word_weights = tuple(zip(self.task.asked(question), out["asked"][row].tolist()))
        return Reply(answer, probability, words, blanks, tuple(places), weights[: len(rows)], rows, final, word_weights)

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics in percent, with ``limit`` of the first N questions, and those of its baselines.

        ``mass`` is how much of the look that answers lies on the right answer, any mention of the entity or any word
        of the span; ``mass_near`` counts two words to either side too.
        """
        questions = self.task.questions(split)[:limit]
        sums: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for rows, batch, answers in track(self._answered_batches(questions), -(-len(questions) // 64)):
            for place, (row, answer) in enumerate(zip(rows, answers)):
                scores = self.task.judge(questions[row], answer.text)
                for name, value in {**scores, **_mass(answer, batch, place)}.items():
                    sums[name] = sums.get(name, 0.0) + value
                    counts[name] += 1  # some are of some questions alone, such as those that follow another
        metrics = {name: 100.0 * value / counts[name] for name, value in sums.items()}
        return metrics | self.task.baselines(questions)

    def answer(self, file: Path | None = None, *, as_json: bool = False) -> Iterator[str]:
        """The answer to each question of a file of JSON lines, ``{"story": "…", "question": "…"}``.

        Args:
            as_json: a JSON object a line, with the weights of each word.
        """
        typed = lines(file, 'Type {"story": "…", "question": "…"}, one a line; Ctrl-D ends.')
        for entry in read_typed(typed, str(file or "standard input")):
            (reply,) = self.replies([self.task.typed(entry)])
            if as_json:
                yield json.dumps({"question": entry.question, **reply.as_dict()}, ensure_ascii=False)
            else:
                yield reply.text

    def look(self, what: Sequence[str] = (), *, split: str = "test") -> Iterator[tuple[str, Picture | None]]:
        """The shaded document for questions in files of JSON lines or, by number from 1, for questions of a split (the
        first one, if nothing is named).

        Args:
            split: whose questions have the numbers: train, valid or test.
        """
        questions = [question for name in (what or ["1"]) for question in self._questions_named(name, split)]
        for question, reply in zip(questions, self.replies(questions)):
            yield "", self._picture(question.question.raw, reply, answers=question.answers)

    def _picture(self, question: str, reply: Reply, **about: Any) -> Picture:
        about |= dict(rows=reply.rows, blanks=reply.blanks, marked=reply.places)
        return document.picture(reply.words, reply.weights, question=question, prediction=reply.text, **about)

    # Questions

    title = "Ask about a text"

    @cached_property
    def Question(self) -> Any:
        """A text and a question and, of a conversation, what was asked before."""
        return form("Ask", **self.inputs(self.task))

    @classmethod
    def inputs(cls, task: Any) -> dict[str, Input]:
        """The fields of a question."""
        about = "Of a reader that names entities, a sentence with a hole, ___, where the answer goes."
        before = Text(HISTORY, 0, 4, default="", title="Asked before", about="A turn a line: you: …, then agent: …")
        return {
            "story": Text(LONGEST, 1, 7, title="Text"),
            "question": Text(400, 1, title="Question", about="" if task.turns else about),
            **({"history": before} if task.turns else {}),
        }

    def data(self) -> str:
        return self.task.origin() if self.task.data or self.task.config.data else "generated stories"

    def examples(self) -> list[Any]:
        """Questions of the test split, where it is at hand or can be made."""
        if self.task.suggested:
            return [self.Question(**values) for values in self.task.suggested]
        try:
            questions = self.task.questions("test")[:9]
        except (ValueError, OSError):
            return []
        pairs = (
            (question.document.raw, question.question.raw[:400])
            for question in questions
            if self._typable(question.document)
        )
        return [self.Question(story=story, question=text) for story, text in pairs if story and text][:3]

    def _typable(self, document: Any) -> bool:
        return len(document.raw) <= LONGEST and len(document.words) <= self.task.config.longest

    def one(self, question: Any) -> Answer:
        history = tuple(turns.pairs(turns.read(getattr(question, "history", ""))))
        reply = self.replies([self.task.typed(Typed(question.story, question.question, None, "story", history))])[0]
        pictures = [self._picture(question.question, reply, title=question.question)]
        if reply.asked:
            words, weights = (
                Words([word for word, _ in reply.asked]),
                torch.tensor([[weight for _, weight in reply.asked]]),
            )
            side = between.Side(Words(["read with"]), weights)
            pictures.append(between.picture([side], words, title="Words of the question, and of what was said before"))
        follow_up = self.task.follow(question, reply.text)
        buttons = [(prompt, {**follow_up, "question": prompt}) for prompt in self.task.prompts] if follow_up else []
        return Answer(reply.text, [f"{percent(reply.probability)} sure."], buttons, pictures)

    def _questions_named(self, what: str, split: str) -> Iterator[PassageQuestion]:
        if not what.isdigit():
            path = Path(what)
            if not path.is_file():
                raise ValueError(f"{what}: neither a file of questions nor the number of one of the {split} split")
            yield from (self.task.typed(entry) for entry in read_typed(lines(path, ""), what))
            return
        questions = self.task.questions(split)
        if not 1 <= int(what) <= len(questions):
            raise ValueError(f"question {what}: the {split} split has numbers 1 to {len(questions)}")
        yield questions[int(what) - 1]


def _mass(answer: Reply, batch: dict[str, Tensor], b: int) -> dict[str, float]:
    """How much of an answer's look lies on the right words, and near them."""
    length = len(answer.words)
    if "answer" in batch:
        right = batch["document"][b, :length] == batch["answer"][b] + FIRST
        right &= batch["answer"][b] >= 0
    else:
        places = torch.arange(length)
        right = (places >= batch["first"][b]) & (places <= batch["last"][b]) & (batch["first"][b] >= 0)
    wide = torch.nn.functional.max_pool1d(right.float()[None], 2 * NEAR + 1, stride=1, padding=NEAR)[0] > 0
    weights = answer.weights[answer.final]
    return {"mass": float(weights[right].sum()), "mass_near": float(weights[wide].sum())}
