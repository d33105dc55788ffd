"""Questions about documents: what a reader learns from, what one types, and batches of both."""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest, snake
from regard.tasks._generated import SPLITS, Generated

FORMAT = 1
PAD, UNKNOWN, FIRST = 0, 3, 4
"""Reserved ids, and the first that is free."""
Batch = dict[str, Tensor]

_WORD = re.compile(r"@\w+|\d+(?:[.,]\d+)+|\w+|[^\w\s]")


class Text(NamedTuple):
    """A text and its words: ``raw[places[k][0]:places[k][1]]`` is what ``words[k]`` stands for."""

    raw: str
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, raw: str) -> Text:
        """Letters and digits are words, so is each other sign, and a number such as 1,000.5 is one."""
        found = list(_WORD.finditer(raw))
        return cls(raw, tuple(one[0] for one in found), tuple(one.span() for one in found))

    def piece(self, first: int, last: int) -> str:
        """The text from one word to another, as it is written."""
        return self.raw[self.places[first][0] : self.places[last][1]]


class Question(NamedTuple):
    """A question about a document.

    Attributes:
        document, question: with their words.
        answers: those that are right; none if it is to be found.
        span: the first and the last word of the first of them in the document; −1 if it is not a span.
        names: the words that are entities.
        place: where it stands, for messages.
    """

    document: Text
    question: Text
    answers: tuple[str, ...] = ()
    span: tuple[int, int] = (-1, -1)
    names: frozenset[str] = frozenset()
    place: str = ""


class Typed(NamedTuple):
    """A question as someone typed it."""

    story: str
    question: str
    answer: str | None
    place: str


def read_typed(lines: Iterable[str], name: str) -> Iterator[Typed]:
    """Questions from JSON lines: ``story``, a text or a list of sentences, ``question`` and, if it is known,
    ``answer``."""
    keys = ("story", "question", "answer")
    nothing = True
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            continue
        nothing = False
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{place}: not JSON: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{place}: an object with story and question, not {line.strip()[:60]!r}")
        for key in found:
            if key not in keys:
                raise ValueError(f"{place}: no key is called {key!r}: {nearest(key, keys)}")
        story = found.get("story")
        if isinstance(story, list) and all(isinstance(sentence, str) for sentence in story):
            story = " ".join(story)
        for key, text in (("story", story), ("question", found.get("question"))):
            if not isinstance(text, str) or not _WORD.search(text):
                raise ValueError(f"{place}: {key!r} must be a text, and not empty")
        if not isinstance(found.get("answer", ""), str):
            raise ValueError(f"{place}: 'answer' must be a text")
        yield Typed(str(story), found["question"], found.get("answer"), place)
    if nothing:
        raise ValueError(f'{name}: there is nothing in it; a line is {{"story": "…", "question": "…"}}')


# ---------------------------------------------------------------------------------------------------------------------
# Words and batches


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
        found = zlib.crc32(self.answer.tobytes())
        for arrays in (self.document, self.question):
            for array in arrays:
                found = zlib.crc32(array.tobytes(), found)
        return found


def padded(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays (N, …) of different N as one (B, longest, …), with zeros behind them, and their lengths."""
    lengths = np.array([len(array) for array in arrays])
    made = np.zeros((len(arrays), int(lengths.max(initial=0)), *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in enumerate(arrays):
        made[row, : len(array)] = array
    return made, lengths


def plan(lengths: np.ndarray, size: int, random: np.random.Generator | None) -> list[np.ndarray]:
    """Rows of batches of ``size``, those of like length together; mixed, if ``random`` is given: each batch comes from
    a random pool of fifty, so that its members change from epoch to epoch."""
    order = np.argsort(lengths, kind="stable")
    if random is not None:
        pools = np.array_split(random.permutation(len(lengths)), max(1, len(lengths) // (50 * size)))
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    return batches if random is None else [batches[number] for number in random.permutation(len(batches))]


class Loader(Generated):
    """Batches of one split; see :class:`regard.tasks._generated.Generated`."""

    about = ""

    def report(self) -> str:
        """What there is."""
        return self.about


class Passages:
    """A task of questions about documents. A subclass reads or makes them and says what is right."""

    kind: ClassVar[str] = "reading"
    unit: ClassVar[str] = "questions"
    settings: ClassVar[type]

    def __init__(self, config: Any, data: Path | str | None = None, *, known: dict[str, Any] | None = None):
        self.config, self.data = config, data
        self.known = self._learn(self.questions("train")) if known is None else known
        self.numbers = {word: number for number, word in enumerate(self.known["words"], FIRST + self.markers)}

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
        """What is reached without learning: metrics by name, in percent."""
        raise NotImplementedError

    # What is the same for all.

    @property
    def markers(self) -> int:
        """Ids that stand for entities."""
        return 0

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know."""
        return {"vocab": FIRST + self.markers + len(self.known["words"]), "entities": self.markers}

    def questions(self, split: str) -> list[Question]:
        """The questions of a split."""
        if split not in SPLITS:
            raise ValueError(f"no split is called {split!r}: {nearest(split, SPLITS)}")
        return self._splits[split]

    @cached_property
    def _splits(self) -> dict[str, list[Question]]:
        return self.splits()

    def _learn(self, questions: Sequence[Question]) -> dict[str, Any]:
        """The words that are frequent enough, and whether those are all there are."""
        documents = {id(one.document): one.document for one in questions}
        counts: Counter[str] = Counter()
        for text in [*documents.values(), *(one.question for one in questions)]:
            counts.update(map(str.lower, text.words))
        for name in {name for one in questions for name in one.names}:
            del counts[name.lower()]
        kept = [word for word, count in counts.most_common(self.config.words) if count >= self.config.least]
        return {"words": kept, "closed": len(kept) == len(counts)}

    def batch(self, encoded: Encoded, rows: np.ndarray, random: np.random.Generator | None) -> Batch:
        """The chosen questions, padded. Their entities are dealt markers by ``random``, or keep their own."""
        documents, document_lengths = padded([encoded.document[row] for row in rows])
        questions, question_lengths = padded([encoded.question[row] for row in rows])
        answer = encoded.answer[rows]
        made: dict[str, np.ndarray] = {"document_lengths": document_lengths, "question_lengths": question_lengths}
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
            made["answer"] = np.where(answer < 0, -1, dealt)[:, 0]
        else:
            made["first"], made["last"] = answer.T
        made |= {"document": documents, "question": questions}
        found = {name: torch.from_numpy(array.astype(np.int64)) for name, array in made.items()}
        if encoded.features[0].shape[1]:
            found["features"] = torch.from_numpy(padded([encoded.features[row] for row in rows])[0].astype(np.float32))
        return found

    def batches(self, questions: Sequence[Question], size: int = 64) -> Iterator[tuple[np.ndarray, Batch]]:
        """Questions, those of like length together, and which they are."""
        encoded = self.encode(questions)
        random = np.random.default_rng(0)
        for rows in plan(np.array([len(document) for document in encoded.document]), size, None):
            yield rows, self.batch(encoded, rows, random)

    def loader(self, split: str, *, seed: int = 0, shuffle: bool | None = None) -> Loader:
        """Batches of a split; only ``train`` is mixed, and its entities dealt anew in every epoch, unless ``shuffle``
        says otherwise."""
        questions = self.questions(split)
        encoded = self.encode(questions)
        lengths = np.array([len(document) for document in encoded.document])
        mixed = split == "train" if shuffle is None else shuffle
        size, number = self.config.batch, SPLITS.index(split)
        dealt = getattr(self.config, "permute", True) or split != "train"

        @lru_cache(1)
        def planned(epoch: int) -> list[np.ndarray]:
            return plan(lengths, size, np.random.default_rng([number, seed, epoch]) if mixed else None)

        def make(random: np.random.Generator, epoch: int, place: int) -> Batch:
            return self.batch(encoded, planned(epoch)[place], random if dealt else None)

        identity = {"split": split, "batch": size, "questions": len(questions), "text": encoded.text()}
        found = Loader(make, -(-len(questions) // size), seed=(number, seed), fresh=mixed, identity=identity)
        found.about = (
            f"{len(questions):,} questions, documents of {int(np.median(lengths))} words, up to {lengths.max()}, "
            f"{self.sizes['vocab']:,} ids, {len(found):,} batches"
        )
        return found

    def save(self, folder: Path) -> None:
        """Write what is needed to answer without the data."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FORMAT,
            "task": snake(type(self).__name__),
            "config": dataclasses.asdict(self.config),
            "known": self.known,
        }
        if self.data:
            about["data"] = str(Path(self.data).expanduser().absolute())
        (folder / "task.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, data: Path | str | None = None, **changes: Any) -> Self:
        """The task that :meth:`save` wrote; ``data`` says where its data lies now, if it has moved."""
        path, name = folder / "task.json", snake(cls.__name__)
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            found, task, known = about["format"], about["task"], about["known"]
            values = {**about["config"], **changes}
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not the description of a task") from None
        if found != FORMAT or task != name:
            raise ValueError(f"{path}: the task {task!r} in format {found}; expected {name!r} in format {FORMAT}")
        fields = [field.name for field in dataclasses.fields(cls.settings)]
        for key in values:
            if key not in fields:
                raise ValueError(f"{path}: {name} has no setting {key!r}: {nearest(key, fields)}")
        return cls(cls.settings(**values), data or about.get("data"), known=known)
