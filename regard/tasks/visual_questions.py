"""Questions about images, answered with one of the answers that were seen in training.

``data`` is a folder in the format of DAQUAR or VQA or one with ``questions.tsv`` (:mod:`regard.data.visual_questions`),
or ``scenes``: generated coloured shapes (:mod:`regard.data.scenes`), new in every epoch of training, with one question
each. The kind of the question is drawn first: is an object there, its colour, its shape, or what lies just beside it,
which takes two looks.

A batch has ``question`` (B, T), word ids, ``question_lengths`` (B,), ``answer`` (B,), the number of the right one, −1
if it is not a known answer, beside ``features`` or ``image`` (:mod:`regard.tasks._images`). Of several right answers
the most frequent is learned. Where a right answer is a list (``book, lamp``, as in DAQUAR), ``parts`` (B, P) has the
numbers of those of its parts that are answers, −1 for padding. Questions are lower case without punctuation; a word
that is seen less than ``min_count`` times is unknown.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import torch

from regard._settings import at_least
from regard.data import SPLITS, scenes, visual_questions
from regard.data.photographs import Photograph
from regard.data.tokens import UNKNOWN, Ragged
from regard.data.visual_questions import Asked
from regard.metrics import answers as metrics
from regard.metrics import pointing
from regard.questions import Image, Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._images import ImageConfig, ImageTask, Item
from regard.tasks._words import Vocabulary, by_length
from regard.tasks.task import Batch, Loader, drawn


@dataclass(frozen=True)
class Config(ImageConfig):
    """Which images, and what becomes of the questions."""

    objects: int = 6
    """The most objects of a scene."""
    least: int = 3
    """The fewest objects of a scene."""
    min_count: int = 2
    """How often a word must occur to be known."""
    answers: int = 1000
    """The most frequent answers, which are chosen from."""
    max_length: int = 30
    """Words of the longest question; longer ones are cut."""
    relational: float | None = None
    """Share of the scenes in training whose question is relational where one can be asked; if None, all kinds are drawn
    alike, as they always are in validation and test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        scenes.check(self.pixels, self.objects, self.least)
        at_least(self, "min_count", "max_length", answers=2)
        if self.relational is not None and not 0 <= self.relational <= 1:
            raise ValueError(f"relational, a share of the scenes, is between 0 and 1, not {self.relational}")


@dataclass(frozen=True, eq=False)
class Query(Item):
    """An image with a question about it, and the right answers if they are known."""

    question: str = ""
    answers: tuple[str, ...] = ()


class VisualQuestions(ImageTask):
    """Images and questions in, answers out; see the module's docstring. What is known without the data: ``words`` and
    ``answers``, the most frequent first."""

    kind: ClassVar[str] = "classifier"
    unit: ClassVar[str] = "questions"
    settings: ClassVar[type] = Config
    learned_from = ("min_count", "answers")
    title = "Answer a question about a picture"
    verb = "Ask"
    asks: Mapping[str, Input] = {
        "image": Image(default=b"", title="Your picture", about="JPEG, PNG or WebP. It is not kept."),
        "question": Text(400, default="", title="Question", about="The one that belongs to a test picture, if empty."),
        "example": Number(0, 9999, default=0, title="Or a test picture", about="Used while there is none of yours."),
    }
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._vocabulary = Vocabulary(self.known["words"])
        self.words = self._vocabulary.words
        """What each token of a question stands for."""
        self.classes = list(self.known["answers"])
        self._numbers = {answer: number for number, answer in enumerate(self.classes)}
        self._encoded = lru_cache(maxsize=len(SPLITS))(self._encode_all)
        self._cached_owners = lru_cache(maxsize=len(SPLITS))(self._owners)

    def learn(self) -> dict[str, Any]:
        if self.generated:
            return {"words": scenes.asked(), "answers": scenes.answers()}
        train = self._part("train")
        counts = Counter(_likeliest(entry.answers) for entry in train)
        ranked = sorted(counts, key=lambda answer: (-counts[answer], answer))
        words = Vocabulary.seen((entry.question for entry in train), self.config.min_count)
        return {"words": words, "answers": ranked[: self.config.answers]}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: words, answers, and the width of a place's features (0 of scenes)."""
        return {"vocab": len(self.words), "answers": len(self.classes), "features": self.features_width}

    # -----------------------------------------------------------------------------------------------------------------
    # Questions

    @cached_property
    def _questions(self) -> visual_questions.Splits:
        return visual_questions.read(self.home, self.bad)

    def _part(self, split: str) -> list[Asked]:
        return self.part_of(self._questions, split)

    def photographs_of(self, split: str) -> list[Photograph]:
        """Each once, in the order of the questions."""
        return list(dict.fromkeys(entry.photograph for entry in self._part(split)))

    def _owners(self, split: str) -> np.ndarray:
        """The number of the photograph of each question."""
        rows = {photograph: row for row, photograph in enumerate(self.photographs_of(split))}
        return np.array([rows[entry.photograph] for entry in self._part(split)])

    def _drawn(self, split: str, seed: int, epoch: int, row: int) -> tuple[scenes.Scene, list[int]]:
        key = [self.config.data_seed, SPLITS.index(split), seed, epoch, row]
        random = np.random.default_rng(key)
        return scenes.draw(random, self.config.pixels, self.config.objects, self.config.least), key

    def asked(self, split: str, row: int, seed: int = 0, epoch: int = 0) -> scenes.Question:
        """The question about a generated scene: a kind is drawn, and then one of that kind."""
        random = self.draws(split, row, seed, epoch)
        questions = scenes.questions(self.scene(split, row, seed, epoch).things, random)
        kinds = sorted({question.kind for question in questions})
        if split == "train" and self.config.relational is not None and "relation" in kinds:
            twice = random.random() < self.config.relational
            kinds = [kind for kind in kinds if (kind == "relation") == twice]
        kind = kinds[int(random.integers(len(kinds)))]
        chosen = [question for question in questions if question.kind == kind]
        return chosen[int(random.integers(len(chosen)))]

    def count(self, split: str) -> int:
        """The questions of a split."""
        return super().count(split) if self.generated else len(self._part(split))

    def item(self, split: str, number: int) -> Query:
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no question {number} in {split}: they are 0 to {count - 1}")
        if self.generated:
            question = self.asked(split, number)
            return Query(self.scene(split, number).image, question=question.text, answers=(question.answer,))
        entry = self._part(split)[number]
        row = self._cached_owners(split)[number]
        return Query(None, entry.photograph, self.features(split)[[row]][0], entry.question, tuple(entry.answers))

    def read(self, question: Any) -> Query:
        """One's own picture with a question, or a test picture with its own question or another."""
        typed = question.question.strip()
        if not question.image:
            item = self.item(self.shown, question.example)
            return dataclasses.replace(item, question=typed, answers=()) if typed else item
        if not typed:
            raise ValueError("a picture needs a question about it: question=…")
        picture = self.photograph(question.image)
        return Query(picture.pixels, question=typed, dimensions=picture.dimensions)

    def batch_of(self, items: Sequence[Query]) -> Batch:
        return {**self.images(items), **self._question_batch([item.question for item in items])}

    def remarks(self, item: Query) -> list[str]:
        right = f" Right: {_likeliest(item.answers)}." if item.answers else ""
        return [f"Question: {_question_text(item)}{right}"]

    def heading(self, item: Query, answer: str) -> str:
        return f"{_question_text(item)} {answer}"

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def encode(self, question: str) -> list[int]:
        """The ids of a question, at least one."""
        return self._vocabulary.encode(question)[: self.config.max_length] or [UNKNOWN]

    def _question_batch(self, questions: Sequence[str]) -> Batch:
        """Questions, side by side."""
        padded, lengths = pad(Ragged.of([self.encode(question) for question in questions]), np.arange(len(questions)))
        return {"question": padded, "question_lengths": lengths}

    def _number(self, answer: str) -> int:
        return self._numbers.get(answer, -1)

    def _encode_all(self, split: str) -> tuple[Ragged, np.ndarray, np.ndarray]:
        """Every question of a split, the number of its answer, and those of the parts of an answer that is a list."""
        part = self._part(split)
        answers = [_likeliest(entry.answers) for entry in part]
        listed = [
            [n for n in map(self._number, answer.split(", ")) if n >= 0] if ", " in answer else [] for answer in answers
        ]
        parts = np.full((len(part), max(map(len, listed))), -1)
        for row, numbers in zip(parts, listed):
            row[: len(numbers)] = numbers
        right = np.array([self._number(answer) for answer in answers])
        return Ragged.of([self.encode(entry.question) for entry in part]), right, parts

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity = self.identity(split, seed, shuffle)
        size = self.config.batch
        if self.generated:

            def make(rows: range, epoch: int, k: int) -> Batch:
                key = (seed, epoch) if shuffle else (0, 0)
                questions = [self.asked(split, row, *key) for row in rows]
                right = torch.tensor([self._number(question.answer) for question in questions])
                pictures = self.images([Item(self.scene(split, row, *key).image) for row in rows])
                return {**pictures, **self._question_batch([question.text for question in questions]), "answer": right}

            number = self.count(split)
            return drawn(make, number, size, identity, f"{number:,} scenes an epoch, a question each")
        ids, right, parts = self._encoded(split)
        features, owners = self.features(split), self._cached_owners(split)

        def take(rows: np.ndarray, epoch: int, k: int) -> Batch:
            question, lengths = pad(ids, rows)
            batch = {
                "features": features[owners[rows]],
                "question": question,
                "question_lengths": lengths,
                "answer": torch.from_numpy(right[rows]),
            }
            return {**batch, "parts": torch.from_numpy(parts[rows])} if parts.size else batch

        identity["content"] = zlib.crc32(parts.tobytes(), zlib.crc32(right.tobytes(), zlib.crc32(ids.ids.tobytes())))
        report = (
            f"{len(right):,} questions about {len(features):,} images, {len(self.words):,} words, "
            f"{len(self.classes):,} answers, {100 * float((right < 0).mean()):.1f} % of the right ones unknown"
            + (f"; {self.bad}" if self.bad.total else "")
        )
        return by_length(ids.lengths, size, take, seed=seed, shuffle=shuffle, identity=identity, report=report)

    # -----------------------------------------------------------------------------------------------------------------
    # Metrics

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Of the answers to the first questions of a split, in percent: ``exact``, where they have one right answer, or
        ``vqa``, where people gave several, and what the most frequent answer of training would get (``frequent``). Of
        scenes, in percent, ``exact`` of each kind of question, how often the first and the last hop point at the first
        and the last object that the question is about, and the ``chance`` of a random cell for the latter."""
        labels = [answer.label for answer in found]
        if self.generated:
            return self._scene_scores(split, found, labels)
        references = [entry.answers for entry in self._part(split)[: len(found)]]
        if all(len(answers) == 1 for answers in references):
            right = [answers[0] for answers in references]
            frequent = metrics.exact([self.classes[0]] * len(labels), right)
            return {"exact": metrics.exact(labels, right), "frequent": frequent}
        frequent = metrics.agreement([self.classes[0]] * len(labels), references)
        return {"vqa": metrics.agreement(labels, references), "frequent": frequent}

    def _scene_scores(self, split: str, answers: Sequence[Any], labels: Sequence[str]) -> dict[str, float]:
        questions = [self.asked(split, row) for row in range(len(answers))]
        right = [question.answer for question in questions]
        values = {"exact": metrics.exact(labels, right)}
        for kind in sorted({question.kind for question in questions}):
            rows = [row for row, question in enumerate(questions) if question.kind == kind]
            values[kind] = metrics.exact([labels[row] for row in rows], [right[row] for row in rows])
        located = [row for row, question in enumerate(questions) if question.about and answers[row].weights]
        for name, which in (("pointing_first", 0), ("pointing", -1)):
            maps = [list(answers[row].weights.values())[which][-1].numpy() for row in located]
            boxes = [self.scene(split, row).things[questions[row].about[which]].box for row in located]
            if maps:
                hits, chance = pointing.pointing_game(np.stack(maps), boxes)
                values |= {name: 100 * hits, "chance": 100 * chance}
        return values


def _question_text(item: Query) -> str:
    return f"{item.question.rstrip('? ')}?"


def _likeliest(answers: Sequence[str]) -> str:
    """The most frequent, the first of several."""
    return Counter(answers).most_common(1)[0][0]
