"""Sentences, or pairs of them, to be classified: sentiment, kinds of questions, acceptability, entailment, paraphrase.

``data`` is a file or folder in one of the formats of :mod:`regard.data.sentences`, of which ``files`` names one set; or
``agreement``: generated sentences that end before their verb, to be classified as singular or plural
(:mod:`regard.data.made_text`); or ``echo``: generated pairs, to be classified by whether both have the same noun.

A batch has ``source`` (B, S) from bos to eos, ``source_lengths`` (B,) and ``label`` (B,); of pairs also ``second``
(B, S₂), which ends with eos, and ``second_lengths``. Sentences of a batch are of like length.

With ``tokens``, the folder of a run, sentences are cut as its were, so that ``init`` in [train] finds its embeddings.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, made_text, parts, sentences
from regard.data.download import locate
from regard.data.lines import clean
from regard.data.sentences import Labelled
from regard.data.tokens import BOS, EOS, LEVELS, Ragged, Tokenizer
from regard.metrics import classes as metrics
from regard.questions import Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._tokens import tokenizer_of
from regard.tasks._words import by_length, plan
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Loader, check_split

AGREEMENT, ECHO = "agreement", "echo"
END = "</s>"


@dataclass(frozen=True)
class Config:
    """Which sentences, and how they are cut."""

    data: str = AGREEMENT
    files: str = ""
    """How the names of the files begin, where a folder holds several sets."""
    names: str = ""
    """What the labels mean, in their order, with commas between."""
    level: str = "word"
    """``word``, ``bpe`` or ``char``."""
    vocab: int = 8000
    lowercase: bool = True
    tokens: str = ""
    """A run whose tokens are used instead."""
    batch: int = 32
    max_length: int = 64
    """Tokens of a sentence, or of both of a pair, their ends included; longer ones are cut in training and when a split
    is measured."""
    share: float = 1.0
    """Of the training sentences, chosen at random."""
    train_size: int = 10000
    valid_size: int = 500
    test_size: int = 1000
    """Generated sentences."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level is one of {', '.join(LEVELS)}, not {self.level!r}")
        at_least(self, "batch", "train_size", "valid_size", "test_size", max_length=4)
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share}: more than 0 and at most 1")


class Item(NamedTuple):
    """A sentence as ids from bos to eos, the second one up to its eos, its class, and the place of its subject, −1
    where they are not known."""

    ids: tuple[int, ...]
    second: tuple[int, ...] = ()
    label: int = -1
    subject: int = -1


class Sentences(AskedTask):
    """Sentences to be classified; see the module's docstring. What is known without the data: the ``tokenizer``, the
    ``labels`` and whether there are ``pairs``."""

    kind: ClassVar[str] = "classifier"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "sentences"
    settings: ClassVar[type] = Config
    elsewhere = ("data", "tokens", "names")
    learned_from = ("level", "vocab", "lowercase", "tokens", "files")
    title = "Classify a sentence"
    verb = "Classify"
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.tokenizer: Tokenizer = self.known["tokenizer"]
        names = [name.strip() for name in config.names.split(",") if name.strip()]
        if names and len(names) != len(self.known["labels"]):
            raise ValueError(f"names = {config.names!r}, but the labels are {', '.join(self.known['labels'])}")
        self.classes = names or self.known["labels"]
        self._items = lru_cache(maxsize=len(SPLITS))(self._encode_all)

    def learn(self) -> dict[str, Any]:
        train = self._read["train"]
        labels = sorted({one.label for one in train})
        if len(labels) < 2:
            raise ValueError(f"{self._where}: all sentences are {labels[0]!r}; there is nothing to choose from")
        names = [name.strip() for name in self.config.names.split(",") if name.strip()]
        if len(names) == len(labels) and names != labels and not all(label.isdecimal() for label in labels):
            raise ValueError(  # "spam" would be shown as "positive"
                f"names = {self.config.names!r} is for labels that are numbers, and here they are {', '.join(labels)}: "
                'say names=""'
            )
        for split in SPLITS:  # now, and not when a long training is measured
            for one in self._read[split]:
                self._check(one, labels, bool(train[0].second))
        texts = [text for one in train for text in (one.text, one.second) if text]
        config = self.config
        options: dict[str, Any] = {"level": config.level, "vocab": config.vocab, "lowercase": config.lowercase}
        tokens = self.config.tokens
        tokenizer = tokenizer_of(tokens) if tokens else Tokenizer.train(texts, **options)
        return {"tokenizer": tokenizer, "labels": labels, "pairs": bool(train[0].second)}

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        facts = {"labels": self.known["labels"], "pairs": self.known["pairs"]}
        return facts, {"tokenizer.json": self.tokenizer.to_bytes()}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        known = {"labels": [str(label) for label in facts["labels"]], "pairs": bool(facts["pairs"])}
        return {**known, "tokenizer": Tokenizer.load(folder / "tokenizer.json")}

    @property
    def sizes(self) -> dict[str, Any]:
        sizes = {"vocab": len(self.tokenizer), "classes": len(self.classes), "longest": self.config.max_length}
        return {**sizes, "pairs": self.known["pairs"]}

    @property
    def _most(self) -> int:
        """Tokens of each sentence."""
        return self.config.max_length // 2 if self.known["pairs"] else self.config.max_length

    @property
    def asks(self) -> Mapping[str, Input]:  # type: ignore[override]
        """A sentence, or two."""
        pair = {"second": Text(1000, 1, title="Second sentence")} if self.known["pairs"] else {}
        example = Number(0, 9999, default=None, optional=True, hidden=True, about="An item of the test split instead.")
        return {"text": Text(1000, 1, title="Sentence"), **pair, "example": example}

    # -----------------------------------------------------------------------------------------------------------------
    # Sentences

    @property
    def _where(self) -> str:
        return str(self.data or self.config.data)

    @cached_property
    def _subjects(self) -> dict[str, list[int]]:
        return {split: [sentence.subject for sentence in self._agreement(split)] for split in SPLITS}

    def _agreement(self, split: str) -> list[made_text.Sentence]:
        random = np.random.default_rng([SPLITS.index(split), 7])
        return [made_text.sentence(random) for _ in range(getattr(self.config, f"{split}_size"))]

    def _echo(self, split: str) -> list[Labelled]:
        random, pairs = np.random.default_rng([SPLITS.index(split), 8]), []
        for _ in range(getattr(self.config, f"{split}_size")):
            one, other = (made_text.sentence(random, 6) for _ in range(2))
            same = random.random() < 0.5
            noun = one.words[one.subject] if same else other.words[other.subject]
            words = [*other.words[: other.subject], noun, *other.words[other.subject + 1 :]]
            label = "same" if noun == one.words[one.subject] else "other"
            pairs.append(Labelled(" ".join(one.words), label, " ".join(words)))
        return pairs

    @cached_property
    def _read(self) -> dict[str, list[Labelled]]:
        if self._where == AGREEMENT:
            splits = {split: self._agreement(split) for split in SPLITS}
            return {
                split: [Labelled(" ".join(one.words), made_text.NUMBERS[one.plural]) for one in part]
                for split, part in splits.items()
            }
        if self._where == ECHO:
            return {split: self._echo(split) for split in SPLITS}
        return parts.split(parts.find(locate(self._where), self.config.files, ()), sentences.read)

    def _ids(self, one: Labelled) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens of a sentence and of its second one."""
        first = (BOS, *self.tokenizer.encode(one.text), EOS)
        return first, (*self.tokenizer.encode(one.second), EOS) if one.second else ()

    def _encode_all(self, split: str) -> list[Item]:
        numbers = {label: number for number, label in enumerate(self.known["labels"])}
        subjects = self._subjects[split] if self._where == AGREEMENT else None
        items = []
        for row, one in enumerate(self._read[split]):
            self._check(one, numbers, self.known["pairs"])
            ids, second = (self._cut(tokens) for tokens in self._ids(one))
            items.append(Item(ids, second, numbers[one.label], 1 + subjects[row] if subjects else -1))
        if split == "train" and self.config.share < 1:
            order = np.random.default_rng(0).permutation(len(items))
            items = [items[row] for row in sorted(order[: max(1, int(self.config.share * len(items)))])]
        return items

    def _check(self, one: Labelled, labels: Collection[str], pairs: bool) -> None:
        where = one.place or self._where
        if one.label not in labels:
            raise ValueError(f"{where}: the label {one.label!r} was never seen in training, only {', '.join(labels)}")
        if bool(one.second) != pairs:
            this, others = ("two sentences", "one") if one.second else ("one sentence", "two")
            raise ValueError(f"{where}: {this} in a line, and {others} in those of training")

    def _cut(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        most = self._most
        return ids if len(ids) <= most else (*ids[: most - 1], EOS)

    def read(self, question: Any) -> Item:
        if question.example is not None:
            if question.example >= self.count("test"):
                raise ValueError(f"example {question.example}: the test split has {self.count('test'):,}, from 0")
            return self.item("test", question.example)
        sentence = Labelled(clean(question.text), "", clean(getattr(question, "second", "")))
        if not sentence.text or (self.known["pairs"] and not sentence.second):
            raise ValueError("there is nothing to read: the sentence is empty")
        ids, second = self._ids(sentence)
        for tokens in (ids, second):
            if len(tokens) > self._most:
                raise ValueError(f"the sentence has {len(tokens):,} tokens, and at most {self._most:,} are read")
        return Item(ids, second)

    def item(self, split: str, number: int) -> Item:
        return self._items(check_split(split))[number]

    def count(self, split: str) -> int:
        return len(self._items(check_split(split)))

    def suggested(self) -> list[dict[str, Any]]:
        try:
            shown = self._read["test"][:3]
        except (ValueError, OSError):
            return [dict(values) for values in self.without_data]
        return [{"text": one.text, **({"second": one.second} if one.second else {})} for one in shown]

    def axes(self, item: Item) -> dict[str, Axis]:
        """``words`` are all that is read, ``first`` and ``second`` the two sentences."""
        first, second = self._labels(item.ids), self._labels(item.second)
        return {"words": Words([*first, *second]), "first": Words(first), "second": Words(second)}

    def _labels(self, ids: Sequence[int]) -> list[str]:
        return [piece.strip() or piece for piece in self.tokenizer.pieces(ids)]

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Accuracy, F1 averaged over the classes, and Matthews' correlation, in percent; of made sentences how much of
        the last look lies on the subject."""
        items = self._items(split)[: len(found)]
        right = np.array([item.label for item in items])
        chosen = np.array([int(answer.probabilities.argmax()) for answer in found])
        values = metrics.scores(right, chosen, len(self.classes))
        looks = [answer.weights for answer in found if answer.weights]
        if self._where == AGREEMENT and looks:
            name = next(reversed(looks[0]))
            on = [
                float(look[name][..., len(i.ids) - 1, i.subject].mean()) for look, i in zip(looks, items, strict=True)
            ]
            values["subject"] = 100 * float(np.mean(on))
        return values

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        lengths = np.array([len(item.ids) + len(item.second) for item in items], dtype=np.int64)
        for rows in plan(lengths, self.config.batch, None) if len(items) else ():
            yield rows, self._batch([items[row] for row in rows])

    @staticmethod
    def _batch(items: Sequence[Item]) -> Batch:
        rows = np.arange(len(items))
        source, lengths = pad(Ragged.of([item.ids for item in items]), rows)
        batch = {"source": source, "source_lengths": lengths, "label": torch.tensor([item.label for item in items])}
        if items[0].second:
            batch["second"], batch["second_lengths"] = pad(Ragged.of([item.second for item in items]), rows)
        return batch

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        items = self._items(split)
        lengths = [len(item.ids) + len(item.second) for item in items]
        content = zlib.crc32(np.concatenate([item.ids for item in items]).tobytes())
        identity = {**self.identity(split, seed, shuffle), "content": content}
        counts = Counter(self.classes[item.label] for item in items)
        classes = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(6))
        report = f"{len(items):,} sentences: {classes}"

        def make(rows: np.ndarray, epoch: int, k: int) -> Batch:
            return self._batch([items[row] for row in rows])

        return by_length(lengths, self.config.batch, make, seed=seed, shuffle=shuffle, identity=identity, report=report)
