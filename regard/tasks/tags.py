"""A tag for every word: parts of speech, or names of people, places and other things.

``data`` is a file or folder in CoNLL's columns or CoNLL-U (:mod:`regard.data.tags`), of which ``files`` names one set;
or ``entities`` or ``parts``: generated sentences (:mod:`regard.data.made_text`).

A batch has ``source`` (B, S) and ``source_lengths``, tokens; ``places`` (B, W), the token with which each word begins;
``lengths`` (B,), the number of words; ``characters`` (B, W, C); ``shapes`` (B, W), see :func:`shape`; and ``tags``
(B, W). Tokens are the words themselves, or, with ``tokens``, the folder of a run, its subwords from bos to eos.
Sentences of a batch are of like length; one that is longer than ``max_length`` tokens is read in several parts.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, made_text, parts, tags
from regard.data.download import locate
from regard.data.lines import clean
from regard.data.scripts import LETTERS, SIGN, UNSPACED, divided
from regard.data.tokens import BOS, EOS, Ragged, Tokenizer
from regard.metrics import tags as metrics
from regard.questions import Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._tokens import tokenizer_of
from regard.tasks._words import Vocabulary, by_length, plan
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Loader, check_split

ENTITIES, PARTS = "entities", "parts"
ENDINGS = (".conll", ".conllu", ".conll.txt", ".txt", ".tsv", ".train", ".test", ".iob", ".bio")
LONGEST_WORD = 20
"""Characters of a word that are read."""
_TYPED = re.compile(rf"{LETTERS}(?:[-'’.@]{LETTERS})*|(?P<run>(?:{UNSPACED})+)|{SIGN}")


@dataclass(frozen=True)
class Config:
    """Which sentences, and which of their words are known."""

    data: str = ENTITIES
    files: str = ""
    """How the names of the files begin, where a folder holds several sets."""
    column: str = ""
    """Where the tag stands: of CoNLL-U upos, xpos …, of other files a number from 1; the last if empty."""
    min_count: int = 2
    """How often a word must occur to be known."""
    tokens: str = ""
    """A run whose subwords are read instead of words."""
    batch: int = 32
    max_length: int = 128
    """Tokens of a sentence that are read at once."""
    train_size: int = 2000
    valid_size: int = 200
    test_size: int = 300
    """Generated sentences."""

    def __post_init__(self) -> None:
        at_least(self, "min_count", "batch", "train_size", "valid_size", "test_size", max_length=8)


class Item(NamedTuple):
    """Words, their tags if they are known, the tokens and the place of each word among them."""

    words: tuple[str, ...]
    tags: tuple[int, ...]
    ids: tuple[int, ...]
    places: tuple[int, ...]


class Tags(AskedTask):
    """Words in, tags out; see the module's docstring. What is known without the data: ``tags``, ``words``,
    ``characters``, and the ``tokenizer`` of subwords or None."""

    kind: ClassVar[str] = "tagger"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "words"
    settings: ClassVar[type] = Config
    elsewhere = ("data", "tokens")
    learned_from = ("min_count", "tokens", "files", "column")
    title = "Tag the words of a sentence"
    verb = "Tag"
    asks: Mapping[str, Input] = {
        "text": Text(2000, 1, title="Sentence"),
        "example": Number(0, 99999, default=None, optional=True, hidden=True, about="A sentence of the test split."),
    }
    without_data = ({"text": "Anna Smith left Berlin in May to work for the United Nations ."},)
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.tokenizer: Tokenizer | None = self.known["tokenizer"]
        self.classes = self.known["tags"]
        self.names = tags.are_entities(self.classes)
        """Are the tags those of entities?"""
        self._words = Vocabulary(self.known["words"], lambda word: [_plain(word)])
        self._letters = Vocabulary(self.known["characters"], list)
        self._items = lru_cache(maxsize=len(SPLITS))(self._encode_all)

    def learn(self) -> dict[str, Any]:
        train = self._read["train"]
        tags = {tag for sentence in train for tag in sentence.tags}
        for split in SPLITS:  # now, and not when a long training is measured
            for sentence in self._read[split]:
                _check_seen(sentence, tags)
        counts = Counter(_plain(word) for sentence in train for word in sentence.words)
        letters = Counter(letter for sentence in train for word in sentence.words for letter in word)
        return {
            "tags": sorted(tags),
            "words": sorted(word for word, count in counts.items() if count >= self.config.min_count),
            "characters": sorted(letter for letter, count in letters.items() if count > 1),
            "tokenizer": tokenizer_of(self.config.tokens) if self.config.tokens else None,
        }

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        facts = {name: self.known[name] for name in ("tags", "words", "characters")}
        return facts, {} if self.tokenizer is None else {"tokenizer.json": self.tokenizer.to_bytes()}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        path = folder / "tokenizer.json"
        known = {name: [str(text) for text in facts[name]] for name in ("tags", "words", "characters")}
        return {**known, "tokenizer": Tokenizer.load(path) if path.exists() else None}

    @property
    def sizes(self) -> dict[str, int]:
        vocab = len(self._words) if self.tokenizer is None else len(self.tokenizer)
        outside = self.classes.index("O") if self.names and "O" in self.classes else -1
        return {"vocab": vocab, "tags": len(self.classes), "alphabet": len(self._letters), "outside": outside}

    # -----------------------------------------------------------------------------------------------------------------
    # Sentences

    @property
    def _where(self) -> str:
        return str(self.data or self.config.data)

    @cached_property
    def _read(self) -> dict[str, list[tags.Sentence]]:
        if self._where not in (ENTITIES, PARTS):
            files = parts.find(locate(self._where), self.config.files, ENDINGS)
            return parts.split(files, lambda path: tags.read(path, self.config.column), mixed=False)
        splits = {}
        for split in SPLITS:
            random = np.random.default_rng([SPLITS.index(split), 9])
            sentences = (made_text.tagged(random, self._where == ENTITIES) for _ in range(self._size(split)))
            splits[split] = [tags.Sentence(*one, tuple(range(len(one.words)))) for one in sentences]
        return splits

    def _size(self, split: str) -> int:
        return getattr(self.config, f"{split}_size")

    def _encode_all(self, split: str) -> list[Item]:
        numbers = {tag: number for number, tag in enumerate(self.classes)}
        items = []
        for sentence in self._read[split]:
            _check_seen(sentence, numbers)
            item = self._item(sentence.words, tuple(numbers[tag] for tag in sentence.tags))
            items += self._cut(item)
        return items

    def _item(self, words: Sequence[str], chosen: tuple[int, ...] = ()) -> Item:
        if self.tokenizer is None:
            word_ids = tuple(self._words.encode(word)[0] for word in words)
            return Item(tuple(words), chosen, word_ids, tuple(range(len(words))))
        ids, places = [BOS], []
        for word in words:
            places.append(len(ids))
            ids += self.tokenizer.encode(word)[: self.config.max_length - 2] or [EOS]
        return Item(tuple(words), chosen, (*ids, EOS), tuple(places))

    def _cut(self, item: Item) -> list[Item]:
        """Parts of a sentence that can be read at once."""
        if len(item.ids) <= self.config.max_length or len(item.words) == 1:
            return [item]
        half = len(item.words) // 2
        sides = ((item.words[:half], item.tags[:half]), (item.words[half:], item.tags[half:]))
        return [part for words, chosen in sides for part in self._cut(self._item(words, chosen))]

    def read(self, question: Any) -> Item:
        if question.example is not None:
            if question.example >= self.count("test"):
                raise ValueError(f"example {question.example}: the test split has {self.count('test'):,}, from 0")
            return self.item("test", question.example)
        words = [
            word
            for match in _TYPED.finditer(clean(question.text))
            for word in (divided(match[0], self.known["words"]) if match["run"] else [match[0]])
        ]
        if not words:
            raise ValueError("there is nothing to tag: the sentence is empty")
        item = self._item(words)
        if len(item.ids) > self.config.max_length:
            most = self.config.max_length
            raise ValueError(f"the sentence has {len(item.ids):,} tokens, and at most {most:,} are read")
        return item

    def item(self, split: str, number: int) -> Item:
        return self._items(check_split(split))[number]

    def count(self, split: str) -> int:
        return len(self._items(check_split(split)))

    def suggested(self) -> list[dict[str, Any]]:
        try:
            shown = [item for item in self._items("test")[:50] if 4 <= len(item.words) <= 25][:3]
        except (ValueError, OSError):
            return [dict(values) for values in self.without_data]
        return [{"text": " ".join(item.words)} for item in shown]

    def axes(self, item: Item) -> dict[str, Axis]:
        if self.tokenizer is None:
            return {"words": Words(item.words)}
        groups = [-1] * len(item.ids)
        for word, (first, after) in enumerate(zip(item.places, [*item.places[1:], len(item.ids) - 1], strict=True)):
            groups[first:after] = [word] * (after - first)
        return {"words": Words(item.words, groups)}

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Of the tags of the first sentences: accuracy in percent, and that of giving each word its most frequent
        tag (``unigram``); of entities also strict precision, recall and F1."""
        items = self._items(split)[: len(found)]
        right = [[self.classes[tag] for tag in item.tags] for item in items]
        chosen = [list(answer.tags) for answer in found]
        values = {"accuracy": metrics.accuracy(right, chosen)}
        simple = [self._unigram(item.words) for item in items]
        values["unigram"] = metrics.accuracy(right, simple)
        if self.names:
            scores = metrics.entity_scores(right, chosen)
            values |= scores | {"unigram_f1": metrics.entity_scores(right, simple)["f1"]}
        return values

    @cached_property
    def _most_frequent(self) -> tuple[dict[str, str], str]:
        """The most frequent tag of each word, and of all words."""
        counts_of: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in self._read["train"]:
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts_of[word][tag] += 1
        total = sum(counts_of.values(), Counter[str]())
        return {word: counts.most_common(1)[0][0] for word, counts in counts_of.items()}, total.most_common(1)[0][0]

    def _unigram(self, words: Sequence[str]) -> list[str]:
        tags, default = self._most_frequent
        return [tags.get(word, default) for word in words]

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        lengths = np.array([len(item.words) for item in items], dtype=np.int64)
        for rows in plan(lengths, self.config.batch, None) if len(items) else ():
            yield rows, self._batch([items[row] for row in rows])

    def _batch(self, items: Sequence[Item]) -> Batch:
        rows = np.arange(len(items))
        source, source_lengths = pad(Ragged.of([item.ids for item in items]), rows)
        places, lengths = pad(Ragged.of([item.places for item in items]), rows)
        spelled = [[self._letters.encode(word)[:LONGEST_WORD] for word in item.words] for item in items]
        width = max(len(word) for words in spelled for word in words)
        letters = torch.zeros(*places.shape, width, dtype=torch.long)
        for row, words in enumerate(spelled):
            for place, word in enumerate(words):
                letters[row, place, : len(word)] = torch.tensor(word)
        batch = {"source": source, "source_lengths": source_lengths, "places": places, "lengths": lengths}
        batch["characters"] = letters
        batch["shapes"], _ = pad(Ragged.of([[shape(word) for word in item.words] for item in items]), rows)
        if items[0].tags:
            batch["tags"], _ = pad(Ragged.of([item.tags for item in items]), rows)
        return batch

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        items = self._items(split)
        lengths = [len(item.words) for item in items]
        content = zlib.crc32(np.concatenate([item.ids for item in items]).tobytes())
        identity = {**self.identity(split, seed, shuffle), "content": content}
        report = f"{len(items):,} sentences, {sum(lengths):,} words, {len(self.classes)} tags"

        def make(rows: np.ndarray, epoch: int, k: int) -> Batch:
            return self._batch([items[row] for row in rows])

        return by_length(lengths, self.config.batch, make, seed=seed, shuffle=shuffle, identity=identity, report=report)


def _check_seen(sentence: tags.Sentence, known: Container[str]) -> None:
    for tag, line in zip(sentence.tags, sentence.lines, strict=True):
        if tag not in known:
            raise ValueError(f"{sentence.file}:{line}: the tag {tag!r} was never seen in training")


def _plain(word: str) -> str:
    """A word as it is looked up: in lower case, every digit 0."""
    return re.sub(r"\d", "0", word.lower())


def shape(word: str) -> int:
    """What kind of word it looks like: 1 in lower case, 2 with a capital, 3 in capitals, 4 in mixed case, 5 with a
    digit, 6 with @, # or an address, 7 without a letter."""
    if word.startswith(("@", "#", "http")) and len(word) > 1:
        return 6
    if any(map(str.isdigit, word)):
        return 5
    if not any(map(str.isalpha, word)):
        return 7
    if word.islower():
        return 1
    if word.isupper() and len(word) > 1:
        return 3
    return 2 if word[0].isupper() and not any(map(str.isupper, word[1:])) else 4
