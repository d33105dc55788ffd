"""Shared by tasks of questions about documents: words, batches of like length, entities that are dealt markers."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data import turns as history
from regard.data.passages import Question, Text, Typed
from regard.tasks.task import MEMORY, SPLITS, Loader, Task, check_split, generated

PAD, UNKNOWN, FIRST = 0, 3, 4
"""Reserved ids, and the first that is free."""
Batch = dict[str, Tensor]
HISTORY = 4000
"""Characters of the earlier questions and answers."""


class Encoded(NamedTuple):
    """Questions as numbers.

    Attributes:
        document, question: for each, the ids of its words; −1 − k is the k-th of its entities.
        answer: (N, 1), which of the entities is right, or (N, 2), a span; −1 if there is no answer.
        features: for each document (S, F); F may be 0.
        own: for each question, the markers that its entities have by themselves.
    """

    document: list[np.ndarray]
    question: list[np.ndarray]
    answer: np.ndarray
    features: list[np.ndarray]
    own: list[np.ndarray]

    def text(self) -> int:
        """A checksum."""
        checksum = zlib.crc32(self.answer.tobytes())
        for arrays in (self.document, self.question):
            for array in arrays:
                checksum = zlib.crc32(array.tobytes(), checksum)
        return checksum


def padded(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays (N, …) of different N as one (B, longest, …), with zeros behind them, and their lengths."""
    lengths = np.array([len(array) for array in arrays])
    table = np.zeros((len(arrays), int(lengths.max(initial=0)), *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in enumerate(arrays):
        table[row, : len(array)] = array
    return table, lengths


def plan(lengths: np.ndarray, size: int, random: np.random.Generator | None) -> list[np.ndarray]:
    """Rows of batches of ``size``, those of like length together; mixed, if ``random`` is given: each batch comes from
    a random pool of fifty, so that its members change from epoch to epoch."""
    order = np.argsort(lengths, kind="stable")
    if random is not None:
        pools = np.array_split(random.permutation(len(lengths)), max(1, len(lengths) // (50 * size)))
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    return batches if random is None else [batches[number] for number in random.permutation(len(batches))]


class Passages(Task):
    """A task of questions about documents. A subclass reads or makes them and says what is right."""

    kind: ClassVar[str] = "reading"
    family: ClassVar[str] = MEMORY
    unit: ClassVar[str] = "questions"

    def __init__(self, config: Any, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.words, self.closed = list(self.known["known"]["words"]), bool(self.known["known"]["closed"])
        self.numbers = {word: number for number, word in enumerate(self.words, FIRST + self.markers)}

    # What a subclass fills in.

    def splits(self) -> dict[str, list[Question]]:
        """All questions, by split."""
        raise NotImplementedError

    def typed(self, one: Typed) -> Question:
        """A question as someone typed it."""
        raise NotImplementedError

    def encode(self, questions: Sequence[Question]) -> Encoded:
        """Questions as numbers."""
        raise NotImplementedError

    def judge(self, question: Question, answer: str) -> dict[str, float]:
        """How good an answer is, from 0 to 1, by the names of the metrics."""
        raise NotImplementedError

    def baselines(self, questions: Sequence[Question]) -> dict[str, float]:
        """Metrics of methods without learning, by name, in percent."""
        raise NotImplementedError

    def readable(self, document: Text, place: str) -> Text:
        """A document that someone typed, if it is no longer than what is read; of a data set the rest is left out."""
        count, most = len(document.words), self.config.longest
        if count > most:
            raise ValueError(f"{place}: the text has {count:,} words, and at most {most:,} are read")
        return document

    # Of conversations.

    turns: int = 0
    """Earlier questions and answers that are read with a question."""
    said: ClassVar[str] = "question"
    """The field of a question that one says."""
    prompts: Sequence[str] = ()
    """Questions that may follow any other."""
    suggested: Sequence[Mapping[str, str]] = ()
    """Questions to start from, instead of those of the test split."""

    def asked(self, question: Question) -> Sequence[str]:
        """The words of a question as they are read, with those said before."""
        return question.question.words

    def follow(self, question: Any, answer: str) -> dict[str, Any]:
        """The fields of the next question that change."""
        if not self.turns:
            return {}
        return {"history": history.add(question.history, question.question, answer, longest=HISTORY)}

    # What is the same for all.

    @property
    def markers(self) -> int:
        """Ids that stand for entities."""
        return 0

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know."""
        return {"vocab": FIRST + self.markers + len(self.words), "entities": self.markers}

    def questions(self, split: str) -> list[Question]:
        """The questions of a split."""
        return self._splits[check_split(split)]

    @cached_property
    def _splits(self) -> dict[str, list[Question]]:
        return self.splits()

    def learn(self) -> dict[str, Any]:
        """The words that are frequent enough, and whether these are all words of the training questions."""
        questions = self.questions("train")
        documents = {id(one.document): one.document for one in questions}
        counts: Counter[str] = Counter()
        for text in [*documents.values(), *(one.question for one in questions)]:
            counts.update(map(str.lower, text.words))
        for name in {name for one in questions for name in one.names}:
            del counts[name.lower()]
        frequent = [word for word, count in counts.most_common(self.config.words) if count >= self.config.least]
        return {"known": {"words": frequent, "closed": len(frequent) == len(counts)}}

    def batch(self, encoded: Encoded, rows: np.ndarray, random: np.random.Generator | None) -> Batch:
        """The chosen questions, padded. Their entities are dealt markers by ``random``, or keep their own."""
        documents, document_lengths = padded([encoded.document[row] for row in rows])
        questions, question_lengths = padded([encoded.question[row] for row in rows])
        answer = encoded.answer[rows]
        arrays: dict[str, np.ndarray] = {"document_lengths": document_lengths, "question_lengths": question_lengths}
        if self.markers:
            if random is None:
                deal = padded([encoded.own[row] for row in rows])[0]
            else:
                deal = random.permuted(np.tile(np.arange(self.markers), (len(rows), 1)), axis=1)
            documents, questions = (
                np.where(ids < 0, FIRST + np.take_along_axis(deal, np.maximum(-1 - ids, 0), 1), ids)
                for ids in (documents, questions)
            )
            dealt = np.take_along_axis(deal, np.maximum(answer, 0), 1)
            arrays["answer"] = np.where(answer < 0, -1, dealt)[:, 0]
        else:
            arrays["first"], arrays["last"] = answer.T
        arrays |= {"document": documents, "question": questions}
        tensors = {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}
        if encoded.features[0].shape[1]:
            tensors["features"] = torch.from_numpy(
                padded([encoded.features[row] for row in rows])[0].astype(np.float32)
            )
        return tensors

    def batches(self, questions: Sequence[Question], size: int = 64) -> Iterator[tuple[np.ndarray, Batch]]:
        """Questions, those of like length together, and which they are."""
        encoded = self.encode(questions)
        random = np.random.default_rng(0)
        for rows in plan(np.array([len(document) for document in encoded.document]), size, None):
            yield rows, self.batch(encoded, rows, random)

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        """If ``shuffle``, entities are dealt anew in every epoch too."""
        questions = self.questions(split)
        encoded = self.encode(questions)
        lengths = np.array([len(document) for document in encoded.document])
        size, number = self.config.batch, SPLITS.index(split)
        dealt = getattr(self.config, "permute", True) or split != "train"

        @lru_cache(1)
        def planned(epoch: int) -> list[np.ndarray]:
            return plan(lengths, size, np.random.default_rng([number, seed, epoch]) if shuffle else None)

        def make(random: np.random.Generator, epoch: int, place: int) -> Batch:
            return self.batch(encoded, planned(epoch)[place], random if dealt else None)

        identity = {"split": split, "batch": size, "questions": len(questions), "text": encoded.text()}
        batches = -(-len(questions) // size)
        report = (
            f"{len(questions):,} questions, documents of {int(np.median(lengths))} words, up to {lengths.max()}, "
            f"{self.sizes['vocab']:,} ids, {batches:,} batches"
        )
        return generated(make, batches, seed=(number, seed), fresh=shuffle, identity=identity, report=report)
