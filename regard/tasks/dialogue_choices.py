"""Which of these choices answers a question about a dialogue? DREAM, read or generated.

``data`` is a file or folder in the format of :mod:`regard.data.choices`; files are told apart by their names as in
:mod:`regard.data.parts`, and where one is missing, whole dialogues are held out. Without data, dialogues about the
plans of a man and a woman are generated.

A batch has ``document`` (B, S), the words of the dialogue, ``question`` (B, Q), their lengths (B,), and of C choices
``choices`` (B, C, L) with ``choice_lengths`` (B, C), 0 for a missing one. ``features`` (B, S, 4) say of each
word of the dialogue whether it is in the question, whether another form of it is, whether the speaker in the
question says it, and whether it is a number; ``facts`` (B, C, 15) are the overlaps of each choice with the dialogue and
with the turns of that speaker (:func:`regard.metrics.choices.overlaps`) and its length, less their means over the
choices. ``label`` (B,) is the right choice, −1 where it is not known.
"""

from __future__ import annotations

import math
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, choices, parts
from regard.data.choices import MOST, Choosing
from regard.data.download import locate
from regard.data.tokens import UNKNOWN
from regard.metrics import choices as metrics
from regard.metrics.spans import STOP, stem
from regard.questions import Input, Number, Text
from regard.tasks._passages import padded
from regard.tasks._words import Vocabulary, by_length, plan
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Loader, check_split

FEATURES = 4
FACTS = 2 * len(metrics.COLUMNS) + 1


@dataclass(frozen=True)
class Config:
    """Which dialogues, and how much of them is read."""

    data: str = ""
    """A folder or file; empty to generate dialogues."""
    files: str = ""
    """How the names of the files begin, where a folder holds several sets."""
    longest: int = 400
    """Words of a dialogue that are read; those behind them are left out in training and when a split is measured."""
    min_count: int = 3
    """How often a word must occur to be known."""
    batch: int = 32
    train_size: int = 1000
    valid_size: int = 100
    test_size: int = 200
    """Generated dialogues."""

    def __post_init__(self) -> None:
        at_least(self, "longest", "min_count", "batch", "train_size", "valid_size", "test_size")


class Item(NamedTuple):
    """A question, its words as ids, and their features."""

    one: Choosing
    document: np.ndarray
    question: np.ndarray
    choices: list[np.ndarray]
    features: np.ndarray
    facts: np.ndarray


class DialogueChoices(AskedTask):
    """Questions about dialogues with choices; see the module's docstring. What is known without the data: ``words``."""

    kind: ClassVar[str] = "classifier"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "questions"
    settings: ClassVar[type] = Config
    items: ClassVar[str] = "questions"
    learned_from = ("min_count", "files", "train_size")
    title = "Choose an answer about a dialogue"
    config: Config
    asks: Mapping[str, Input] = {
        "dialogue": Text(6000, 1, 7, title="Dialogue", about="A turn a line, such as W: Hello."),
        "question": Text(400, 1, title="Question"),
        "choices": Text(1000, 1, 3, title="Choices", about=f"A choice a line, from 2 to {MOST}."),
        "example": Number(0, 9999, default=None, optional=True, hidden=True, about="One of the test split instead."),
    }

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._vocabulary = Vocabulary(self.known["words"])
        self._ids = {word: number for number, word in enumerate(self._vocabulary.words)}
        self._items = lru_cache(maxsize=len(SPLITS))(lambda split: [self._item(one) for one in self._read[split]])

    def learn(self) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        counted = set()
        for one in self._read["train"]:
            texts = [one.question, *one.choices]
            if one.dialogue.raw not in counted:
                counted.add(one.dialogue.raw)
                texts.append(one.dialogue)
            counts.update(word.lower() for text in texts for word in text.words)
        return {"words": sorted(word for word, count in counts.items() if count >= self.config.min_count)}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Any) -> dict[str, Any]:
        return {"words": [str(word) for word in facts["words"]]}

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self._vocabulary), "features": FEATURES, "facts": FACTS}

    # -----------------------------------------------------------------------------------------------------------------
    # Questions

    @cached_property
    def _read(self) -> dict[str, list[Choosing]]:
        where = self.data or self.config.data
        if where:
            files = parts.find(locate(where), self.config.files, (".json",))
            splits = parts.split(files, choices.read, mixed=False)
        else:
            splits = {
                split: choices.parse(
                    choices.make(getattr(self.config, f"{split}_size"), random.Random(f"choices: {split}")), "made"
                )
                for split in SPLITS
            }
        return {split: [question for dialogue in splits[split] for question in dialogue] for split in SPLITS}

    def _item(self, one: Choosing) -> Item:
        longest, question = self.config.longest, one.question.words
        words = [word.lower() for word in one.dialogue.words[:longest]]
        question_words = {word.lower() for word in question if word[0].isalnum()}
        forms = {stem(word) for word in question_words - STOP}
        own_turns = [turn for turn in one.turns if metrics.asked_about(question, turn.speaker)]
        speaker = np.zeros(len(one.dialogue.words), bool)
        for turn in own_turns if len({turn.speaker for turn in own_turns}) == 1 else one.turns:
            speaker[turn.first : turn.end] = True
        spoken = zip(words, speaker)
        features = [[word in question_words, stem(word) in forms, own, word[0].isdigit()] for word, own in spoken]
        return Item(
            one,
            self._encode(words),
            self._encode(question),
            [self._encode(choice.words) for choice in one.choices],
            np.array(features, np.float32),
            self._facts(one, speaker[:longest]),
        )

    def _facts(self, one: Choosing, speaker: np.ndarray) -> np.ndarray:
        words = [metrics.stems(choice.words) for choice in one.choices]
        question = metrics.stems(one.question.words)
        dialogue = one.dialogue.words[: len(speaker)]
        overlaps = [
            metrics.overlaps(metrics.stems(part), question, words)
            for part in (dialogue, [word for word, own in zip(dialogue, speaker) if own])
        ]
        lengths = np.array([[math.log1p(len(choice))] for choice in words], np.float32)
        return np.concatenate([*overlaps, lengths], 1)

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        return np.array([self._ids.get(word.lower(), UNKNOWN) for word in words], np.int64)

    def read(self, question: Any) -> Item:
        if question.example is not None:
            if question.example >= self.count("test"):
                raise ValueError(f"example {question.example}: the test split has {self.count('test'):,}, from 0")
            return self.item("test", question.example)
        lines = [line.strip() for line in question.choices.split("\n") if line.strip()]
        if not 2 <= len(lines) <= MOST:
            raise ValueError(f"{len(lines)} choices: there must be from 2 to {MOST}, one a line")
        text, turns = choices.spoken(question.dialogue)
        if not turns:
            raise ValueError("there is nothing to read: the dialogue is empty")
        if len(text.words) > self.config.longest:
            most = self.config.longest
            raise ValueError(f"the dialogue has {len(text.words):,} words, and at most {most:,} are read")
        return self._item(choices.of(text, turns, question.question, lines))

    def item(self, split: str, number: int) -> Item:
        return self._items(check_split(split))[number]

    def count(self, split: str) -> int:
        return len(self._read[check_split(split)])

    def suggested(self) -> list[dict[str, Any]]:
        try:
            shown = self._read["test"][:3]
        except (ValueError, OSError):
            return []
        return [
            {
                "dialogue": one.dialogue.raw,
                "question": one.question.raw,
                "choices": "\n".join(choice.raw for choice in one.choices),
            }
            for one in shown
        ]

    def classes_of(self, item: Item) -> Sequence[str]:
        return [choice.raw for choice in item.one.choices]

    def axes(self, item: Item) -> dict[str, Axis]:
        return {
            "words": Words(item.one.dialogue.words[: self.config.longest]),
            "choices": Words([choice.raw for choice in item.one.choices]),
        }

    def heading(self, item: Item, answer: str) -> str:
        return f"{item.one.question.raw} {answer}"

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Accuracy in percent, and that of methods without learning: the choice with most words in common with the
        dialogue (``overlap``), the sliding ``window``, ``window_distance``, the same with distance, and the last again
        with only the turns of the speaker in the question; and always choosing the most frequent ``position``."""
        items = self._items(split)[: len(found)]
        right = np.array([item.one.right for item in items])
        chosen = {"accuracy": np.array([int(answer.probabilities.argmax()) for answer in found])}
        half = len(metrics.COLUMNS)
        simple = [metrics.baselines(item.facts[:, :half]) for item in items]
        chosen |= {name: np.array([choices[name] for choices in simple]) for name in simple[0]}
        of_speaker = [metrics.baselines(item.facts[:, half : 2 * half]) for item in items]
        chosen["window_speaker"] = np.array([choices["window_distance"] for choices in of_speaker])
        frequent = Counter(one.right for one in self._read["train"]).most_common(1)[0][0]
        chosen["position"] = np.full(len(items), frequent)
        return {name: 100 * float(np.mean(numbers == right)) for name, numbers in chosen.items()}

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        lengths = np.array([len(item.document) for item in items], dtype=np.int64)
        for rows in plan(lengths, self.config.batch, None) if len(items) else ():
            yield rows, self._batch([items[row] for row in rows])

    @staticmethod
    def _batch(items: Sequence[Item]) -> Batch:
        arrays: dict[str, np.ndarray] = {}
        for name in ("document", "question"):
            arrays[name], arrays[f"{name}_lengths"] = padded([getattr(item, name) for item in items])
        most = max(len(item.choices) for item in items)
        all_choices = [choice for item in items for choice in (item.choices + [np.zeros(0, np.int64)] * most)[:most]]
        words, lengths = padded(all_choices)
        arrays["choices"], arrays["choice_lengths"] = words.reshape(len(items), most, -1), lengths.reshape(-1, most)
        arrays["features"], _ = padded([item.features for item in items])
        arrays["facts"], _ = padded([item.facts - item.facts.mean(0) for item in items])
        arrays["label"] = np.array([item.one.right for item in items])
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        items = self._items(split)
        lengths = [len(item.document) for item in items]
        content = zlib.crc32(np.concatenate([item.document for item in items]).tobytes())
        identity = {**self.identity(split, seed, shuffle), "content": content}
        median = int(np.median(lengths))
        report = f"{len(items):,} questions, dialogues of {median} words, {len(self._vocabulary):,} words known"
        options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "identity": identity, "report": report}
        return by_length(
            lengths, self.config.batch, lambda rows, epoch, k: self._batch([items[row] for row in rows]), **options
        )
