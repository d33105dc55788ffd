"""A text in, a shorter one out: summaries, headlines, keyphrases, or a question that needs no context.

``data`` is a file or folder in one of the formats of :mod:`regard.data.summaries`, or ``reports``: generated reports
with their headlines, whose names were never seen in training (:mod:`regard.data.made_reports`).

A batch has ``source`` (B, S) and ``source_lengths``; ``extended`` (B, S), the same words, of which those that are not
in the vocabulary have temporary ids from V on, in the order in which the item has them; for training ``target``
(B, T + 1) from bos to eos and ``target_lengths``. A target's word that is unknown but stands in the source has the
temporary id from there, so that a system which copies can write it. Sources of a batch are of like length.

Words are in lower case, with punctuation, one vocabulary for both sides. With ``phrases`` a target is a list of
keyphrases: those that stand in the source in their order there, then the others, with ; between. In training an item
has one of its references, another in each epoch.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, made_reports, summaries
from regard.data.download import locate
from regard.data.scripts import LETTERS, SIGN, UNSPACED, closed
from regard.data.summaries import Pair
from regard.data.tokens import BOS, EOS, UNKNOWN, Ragged
from regard.decode.written import Written
from regard.metrics import captions, keyphrases
from regard.questions import Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._words import Vocabulary, by_length, plan
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Loader, check_split

REPORTS = "reports"
BETWEEN = ";"
"""The separator of keyphrases."""
AT = 5
"""The number of keyphrases that are compared."""
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)+|{LETTERS}(?:[-.@&]{LETTERS})*|['’]{LETTERS}|{UNSPACED}|{SIGN}")
_TIGHT = re.compile(r" (?=[.,;:!?)\]%。，、；：！？）」』،؛؟।]|['’]\w)|(?<=[(\[（「『。，、；：！？]) ")
_STOP = re.compile(
    r"\b(?:a|an|the|of|in|on|at|to|for|from|by|with|and|or|but|as|is|are|was|were|be|been|has|have|had|that|this|these|"
    r"those|it|its|we|our|they|their|which|who|how|not|can|may|also|than|into|using|used|based|such|both|between|more|"
    r"new|show|paper|results?|propose[ds]?|present(?:s|ed)?)\b|[^\w\s-]"
)


@dataclass(frozen=True)
class Config:
    """Which texts, and which of their words are known."""

    data: str = REPORTS
    files: str = ""
    """How the names of the files begin, where a folder holds several sets."""
    phrases: bool = False
    """Are targets lists of keyphrases?"""
    vocab: int = 20000
    """The most words that are known, the most frequent ones."""
    min_count: int = 5
    """How often a word must occur to be known."""
    max_source: int = 400
    """Words of a source that are read, from its beginning."""
    max_length: int = 100
    """Tokens of the longest target, its end included; longer ones are cut for training."""
    batch: int = 16
    train_size: int = 4000
    valid_size: int = 200
    test_size: int = 500
    """Generated reports."""

    def __post_init__(self) -> None:
        at_least(self, "vocab", "min_count", "max_source", "batch", max_length=2)
        at_least(self, "train_size", "valid_size", "test_size")


TEXTS = (
    "Neural machine translation systems make mistakes with rare words. We present a method to copy rare words from the "
    "source sentence with the attention weights of the decoder. The method improves translation quality on two "
    "language pairs without any change of the training.",
    "Deep networks for image classification look at every pixel, which is expensive for large images. We propose a "
    "recurrent attention model that chooses where to look next and is trained by reinforcement learning. On cluttered "
    "digits it makes fewer errors than a convolutional network with the same number of multiplications.",
)
"""Texts to start from where the data is not at hand."""


class Item(NamedTuple):
    """A source as a system reads it.

    Attributes:
        words: of the source.
        ids: of the words in the vocabulary.
        extended: the same ids, but temporary ones for unknown words.
        unknown: the words that these stand for.
    """

    words: tuple[str, ...]
    ids: tuple[int, ...]
    extended: tuple[int, ...]
    unknown: tuple[str, ...]


class Summaries(AskedTask):
    """Texts in, shorter ones out; see the module's docstring. What is known without the data: ``words``, and
    ``usual``, the mean number of words of a target."""

    kind: ClassVar[str] = "writer"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "tokens"
    settings: ClassVar[type] = Config
    items: ClassVar[str] = "texts"
    learned_from = ("min_count", "vocab", "files", "phrases", "max_source", "train_size")
    title = "Say it shorter"
    verb = "Write"
    asks: Mapping[str, Input] = {
        "text": Text(
            20000, default="", title="Text", about="A question in context is question | title | section | turns."
        ),
        "example": Number(0, 99999, default=None, optional=True, hidden=True, about="A text of the test split."),
    }
    without_data = tuple({"text": text} for text in TEXTS)
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._vocabulary = Vocabulary(self.known["words"], tokens)
        self.words = self._vocabulary.words
        """What each token stands for."""
        self.signatures: dict[str, str] = {}
        self._items = lru_cache(maxsize=len(SPLITS))(self._encode_all)

    def learn(self) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        lengths = []
        for pair in self._read["train"]:
            counts.update(tokens(pair.source, self.config.max_source))
            for target in self._targets(pair):
                words = tokens(target)
                counts.update(words)
                lengths.append(len(words))
        frequent = [word for word, count in counts.items() if count >= self.config.min_count]
        frequent.sort(key=lambda word: (-counts[word], word))
        return {"words": sorted(frequent[: self.config.vocab]), "usual": round(float(np.mean(lengths)))}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Any) -> dict[str, Any]:
        return {"words": [str(word) for word in facts["words"]], "usual": int(facts["usual"])}

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words), "longest": self.config.max_length}

    # -----------------------------------------------------------------------------------------------------------------
    # Texts

    @property
    def _where(self) -> str:
        return str(self.data or self.config.data)

    @cached_property
    def _read(self) -> dict[str, list[Pair]]:
        if self._where != REPORTS:
            return summaries.read(locate(self._where), self.config.files)
        splits = {}
        for split in SPLITS:
            random = np.random.default_rng([SPLITS.index(split), 28])
            reports = (
                made_reports.report(random, split == "train") for _ in range(getattr(self.config, f"{split}_size"))
            )
            splits[split] = [Pair(text, (headline,), summaries.lead(text)) for text, headline in reports]
        return splits

    def _targets(self, pair: Pair) -> tuple[str, ...]:
        """The targets of a pair; with ``phrases`` a single one, its keyphrases in the order of the source."""
        if not self.config.phrases:
            return pair.targets
        line = f" {' '.join(tokens(pair.source))} "
        places = {phrase: line.find(f" {' '.join(tokens(phrase))} ") for phrase in _phrases_of(pair)}
        order = sorted(places, key=lambda phrase: (places[phrase] < 0, places[phrase]))
        return (f" {BETWEEN} ".join(order),)

    def _item(self, text: str) -> Item:
        words = tokens(text, self.config.max_source)
        ids = self._vocabulary.encode(" ".join(words))
        numbers: dict[str, int] = {}
        extended = [
            numbers.setdefault(word, len(self.words) + len(numbers)) if number == UNKNOWN else number
            for word, number in zip(words, ids, strict=True)
        ]
        return Item(tuple(words), tuple(ids), tuple(extended), tuple(numbers))

    def _framed(self, target: str, item: Item) -> list[int]:
        """From bos to eos; words that are unknown by their temporary ids, if the source has them."""
        temporary = {word: len(self.words) + number for number, word in enumerate(item.unknown)}
        words = tokens(target, self.config.max_length - 1)
        ids = self._vocabulary.encode(" ".join(words))
        inner = [temporary.get(word, UNKNOWN) if id == UNKNOWN else id for word, id in zip(words, ids, strict=True)]
        return [BOS, *inner, EOS]

    def _encode_all(self, split: str) -> list[tuple[Item, list[list[int]]]]:
        items = []
        for pair in self._read[split]:
            item = self._item(pair.source)
            items.append((item, [self._framed(target, item) for target in self._targets(pair)]))
        return items

    def read(self, question: Any) -> Item:
        if question.example is not None:
            if question.example >= self.count("test"):
                raise ValueError(f"example {question.example}: the test split has {self.count('test'):,}, from 0")
            return self.item("test", question.example)
        item = self._item(question.text)
        if not item.words:
            raise ValueError("there is nothing to read: the text is empty")
        count, most = len(tokens(question.text)), self.config.max_source
        if count > most:
            raise ValueError(f"the text has {count:,} words, and at most {most:,} are read")
        return item

    def item(self, split: str, number: int) -> Item:
        return self._items(check_split(split))[number][0]

    def count(self, split: str) -> int:
        return len(self._read[check_split(split)])

    def tokens(self) -> dict[str, Any]:
        return {"target": self.words}

    def axes(self, item: Item) -> dict[str, Axis]:
        """The source, twice: where words looked, and from where they were copied."""
        return {"words": Words(item.words), "copied": Words(item.words)}

    def write(self, tokens: Sequence[int], item: Item) -> Words:
        size = len(self.words)
        labels = [self.words[id] if id < size else item.unknown[id - size] for id in tokens]
        return Words(labels, None, joined(labels))

    def fields(self, item: Item, words: Words) -> dict[str, Any]:
        """``copied``: the words that were never seen in training."""
        return {"copied": [word for word in words.labels if word in item.unknown]}

    # -----------------------------------------------------------------------------------------------------------------
    # Metrics

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """Of the first texts of a split, in percent. ``rouge_l`` and ``bleu4``, and the same of simple baselines:
        the first sentence, or the question as it is (``lead_…``), as many first words as targets have (``first_…``),
        and the source as it is (``whole_…``). Of keyphrases instead ``f1_5`` of those that stand in the source, beside
        that of the first runs of words that are no stop words (``runs_f1_5``), and ``absent``, how many of the others
        were written. ``unseen`` is how many of the references' words that are not in the vocabulary, but in the source,
        were written; ``copying`` the mean probability with which written words were copied."""
        pairs = self._read[check_split(split)][: len(found)]
        values = self._phrases(pairs, found) if self.config.phrases else self._texts(pairs, found)
        right = total = 0
        for (item, _), pair, written in zip(self._items(split), pairs, found, strict=False):
            rare = {word for target in self._targets(pair)[:1] for word in tokens(target)} & set(item.unknown)
            right, total = right + len(rare & set(written.words.labels)), total + len(rare)
        if total:
            values["unseen"] = 100 * right / total
        copied = [one.looks["copied"].sum(-1).mean() for one in found if "copied" in one.looks and len(one.words)]
        if copied:
            values["copying"] = 100 * float(np.mean(copied))
        return values

    def _texts(self, pairs: Sequence[Pair], answers: Sequence[Written]) -> dict[str, float]:
        references = [[captions.words(target) for target in pair.targets] for pair in pairs]
        ways = {
            "": [answer.text for answer in answers],
            "lead_": [pair.lead for pair in pairs],
            "first_": [" ".join(tokens(pair.source, self.known["usual"])) for pair in pairs],
            "whole_": [pair.source for pair in pairs],
        }
        values = {}
        for name, texts in ways.items():
            outputs = [captions.words(text) for text in texts]
            values[f"{name}rouge_l"] = captions.rouge_l(outputs, references)
            if name in ("", "lead_"):
                bleus, signatures = captions.bleu(outputs, references)
                values[f"{name}bleu4"], self.signatures["bleu4"] = bleus["bleu4"], signatures["bleu4"]
        return values

    def _phrases(self, pairs: Sequence[Pair], answers: Sequence[Written]) -> dict[str, float]:
        right = [keyphrases.present(_phrases_of(pair), pair.source) for pair in pairs]
        written = [answer.text.split(BETWEEN) for answer in answers]
        runs = [_STOP.split(pair.source.lower()) for pair in pairs]
        values = {}
        for name, phrases in ((f"f1_{AT}", written), (f"runs_f1_{AT}", runs)):
            present = [
                keyphrases.present(predicted, pair.source) for predicted, pair in zip(phrases, pairs, strict=True)
            ]
            values[name] = keyphrases.f1_at(present, right, AT)
        hits = total = 0
        for pair, present_ones, predicted in zip(pairs, right, written, strict=True):
            absent = {keyphrases.stems(phrase) for phrase in _phrases_of(pair)} - set(present_ones)
            hits, total = hits + len(absent & {keyphrases.stems(phrase) for phrase in predicted}), total + len(absent)
        return {**values, "absent": 100 * hits / max(total, 1)}

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        lengths = np.array([len(item.words) for item in items], dtype=np.int64)
        for rows in plan(lengths, self.config.batch, None) if len(items) else ():
            yield rows, _batch([items[row] for row in rows])

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        items = self._items(split)
        lengths = [len(item.words) for item, _ in items]
        content = np.concatenate([np.concatenate([item.extended, *targets]) for item, targets in items])
        identity = {**self.identity(split, seed, shuffle), "content": zlib.crc32(content.tobytes())}
        unknown = 100 * sum(id == UNKNOWN for item, _ in items for id in item.ids) / max(sum(lengths), 1)
        report = f"{len(items):,} texts, {sum(lengths):,} words, {len(self.words):,} known, {unknown:.1f} % unknown"

        def make(rows: np.ndarray, epoch: int, k: int) -> Batch:
            turn = epoch if shuffle else 0
            target, count = pad(Ragged.of([_chosen(items[row][1], turn) for row in rows]), np.arange(len(rows)))
            return {**_batch([items[row][0] for row in rows]), "target": target, "target_lengths": count - 1}

        return by_length(lengths, self.config.batch, make, seed=seed, shuffle=shuffle, identity=identity, report=report)


def tokens(text: str, most: int | None = None) -> list[str]:
    """The first words and marks of a text, in lower case."""
    return [match[0] for match in islice(_TOKEN.finditer(text.lower()), most)]


def _phrases_of(pair: Pair) -> list[str]:
    """Keyphrases, of which one's own file may have several in a text."""
    return [phrase.strip() for target in pair.targets for phrase in target.split(BETWEEN) if phrase.strip()]


def joined(words: Sequence[str]) -> str:
    """Words and marks as a text."""
    return closed(_TIGHT.sub("", " ".join(words)))


def _chosen(targets: Sequence[list[int]], epoch: int) -> list[int]:
    return targets[epoch % len(targets)]


def _batch(items: Sequence[Item]) -> Batch:
    rows = np.arange(len(items))
    source, lengths = pad(Ragged.of([item.ids for item in items]), rows)
    extended, _ = pad(Ragged.of([item.extended for item in items]), rows)
    return {"source": source, "source_lengths": lengths, "extended": extended}
