"""What would one reply? Dialogues, read or generated: the turns so far in, the next turn out.

Vinyals & Le 2015, *A Neural Conversational Model* (arXiv:1506.05869), as a task of any system that reads and writes
tokens: seq2seq without attention, as theirs, or rnnsearch with it. ``data`` is a file or folder in the format of
:mod:`regard.data.talks`, or empty for a generated help desk; where a file is missing, the last dialogues are held out.

A batch has ``source`` (B, S), the last ``turns`` turns, each behind <turn>, and eos; ``source_lengths``; for training
``target`` (B, T + 1) from bos to eos, and ``target_lengths``. Words are in lower case, one vocabulary for both sides.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, parts, talks, turns
from regard.data.download import locate
from regard.data.tokens import EOS, UNKNOWN, Ragged
from regard.metrics.ngrams import NGrams
from regard.questions import Input, Text
from regard.tasks._batches import Encoded, pad
from regard.tasks._words import Vocabulary, by_length, plan
from regard.tasks.summaries import joined, tokens
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Loader, check_split

TURN = "<turn>"
HISTORY = 4000


@dataclass(frozen=True)
class Config:
    """Which dialogues, and how much of them is read."""

    data: str = ""
    files: str = ""
    """How the names of the files begin, where a folder holds several sets; with commas, those for training, validation
    and testing."""
    turns: int = 2
    """The last turns before a reply, which are read."""
    min_count: int = 2
    """How often a word must occur to be known."""
    max_source: int = 80
    """Tokens of these turns that are read, the last ones."""
    max_length: int = 50
    """Tokens of the longest reply, its end included; longer ones are cut for training."""
    batch: int = 32
    train_size: int = 2000
    valid_size: int = 100
    test_size: int = 200
    """Generated dialogues."""

    def __post_init__(self) -> None:
        at_least(self, "turns", "min_count", "batch", max_source=2, max_length=2)
        at_least(self, "train_size", "valid_size", "test_size")


Item = tuple[int, ...]


class Chat(AskedTask):
    """Dialogues; see the module's docstring. What is known without the data: ``words``."""

    kind: ClassVar[str] = "writer"
    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "tokens"
    settings: ClassVar[type] = Config
    items: ClassVar[str] = "replies"
    learned_from = ("min_count", "files", "train_size")
    title = "Talk to it"
    verb = "Say"
    asks: Mapping[str, Input] = {
        "text": Text(500, 1, title="You say"),
        "history": Text(HISTORY, 0, 4, default="", title="Said before", about="A turn a line, you: … or agent: …"),
    }
    perplexities: Mapping[str, Any] = {"perplexity": lambda batch: batch}
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._vocabulary = Vocabulary([TURN, *self.known["words"]], _split)
        self._encoded = lru_cache(maxsize=len(SPLITS))(self._encode_all)

    def learn(self) -> dict[str, Any]:
        texts = (turn for talk in self._read["train"] for turn in talk)
        return {"words": Vocabulary.seen(texts, self.config.min_count, tokens)}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Any) -> dict[str, Any]:
        return {"words": [str(word) for word in facts["words"]]}

    @property
    def sizes(self) -> dict[str, int]:
        return {"source_vocab": len(self._vocabulary), "target_vocab": len(self._vocabulary)}

    @cached_property
    def _read(self) -> dict[str, list[list[str]]]:
        where = self.data or self.config.data
        if where and "," in self.config.files:
            prefixes = [name.strip() for name in self.config.files.split(",")]
            if len(prefixes) != len(SPLITS):
                raise ValueError(f"files = {self.config.files!r}: one name, or three with commas between")
            folder, splits = locate(where), {}
            for split, name in zip(SPLITS, prefixes):
                matches = sorted(folder.glob(f"{name}*"))
                if len(matches) != 1:
                    counted = f"{len(matches)} files in it begin with {name!r}, and one was expected"
                    raise ValueError(f'{folder}: {counted}; of data of your own, say files=""')
                splits[split] = talks.read(matches[0])
            return splits
        if where:
            return parts.split(parts.find(locate(where), self.config.files, (".txt",)), talks.read, mixed=False)
        return {
            split: talks.made(getattr(self.config, f"{split}_size"), random.Random(f"help desk: {split}"))
            for split in SPLITS
        }

    def _source(self, history: Sequence[str]) -> Item:
        ids = [id for turn in history[-self.config.turns :] for id in self._vocabulary.encode(f"{TURN} {turn}")]
        return (*ids[-self.config.max_source + 1 :], EOS)

    def _encode_all(self, split: str) -> tuple[list[Item], list[list[int]]]:
        pairs = [(talk[:turn], talk[turn]) for talk in self._read[split] for turn in range(1, len(talk))]
        framed = [self._vocabulary.framed(reply, self.config.max_length) for _, reply in pairs]
        return [self._source(before) for before, _ in pairs], framed

    def read(self, question: Any) -> Item:
        if not tokens(question.text):
            raise ValueError("there is nothing to reply to: the text is empty")
        words, most = len(tokens(question.text)), self.config.max_source - 2  # beside the sign of a turn and the end
        if words > most:
            raise ValueError(f"the text has {words:,} words, and at most {most:,} are read")
        return self._source([*(one.text for one in turns.read(question.history)), question.text])

    def follow(self, question: Any, answer: str) -> dict[str, Any]:
        """The next turn, with this one in its history; its text stays until one types another."""
        return {"history": turns.add(question.history, question.text, answer, longest=HISTORY)}

    def item(self, split: str, number: int) -> Item:
        return self._encoded(check_split(split))[0][number]

    def count(self, split: str) -> int:
        return len(self._encoded(check_split(split))[0])

    def suggested(self) -> list[dict[str, Any]]:
        return [{"text": "hello"}, {"text": "the network is slow .", "history": "agent: what is the problem ?"}]

    def tokens(self) -> dict[str, Any]:
        return {"target": self._vocabulary.words}

    def axes(self, item: Item) -> dict[str, Axis]:
        return {"words": Words(self._vocabulary.decode(item))}

    def write(self, tokens: Sequence[int], item: Item) -> Words:
        labels = self._vocabulary.decode(tokens)
        return Words(labels, None, joined(labels))

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """``exact``: replies that equal those of the data, in percent; ``different``: the share of different
        replies among all; ``5-gram_perplexity`` of the whole split by a model of the training replies (Kneser-Ney)."""
        replies = self._encoded(split)[1]
        written = [tuple(self._vocabulary.encode(" ".join(answer.words.labels))) for answer in found]
        right = sum(list(one) == reply[1:-1] for one, reply in zip(written, replies))
        model = NGrams(self._encoded("train")[1], len(self._vocabulary))
        count = max(len(found), 1)
        return {
            "exact": 100 * right / count,
            "different": 100 * len(set(written)) / count,
            "5-gram_perplexity": model.perplexity(replies),
        }

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        lengths = np.array([len(item) for item in items], dtype=np.int64)
        for rows in plan(lengths, self.config.batch, None) if len(items) else ():
            source, count = pad(Ragged.of([items[row] for row in rows]), np.arange(len(rows)))
            yield rows, {"source": source, "source_lengths": count}

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        sources, targets = self._encoded(split)
        pairs = Encoded(Ragged.of(sources), Ragged.of(targets))
        content = zlib.crc32(pairs.target.ids.tobytes(), zlib.crc32(pairs.source.ids.tobytes()))
        identity = {**self.identity(split, seed, shuffle), "content": content}
        unknown = 100 * float(np.mean(pairs.target.ids == UNKNOWN))
        report = f"{len(sources):,} replies, {len(self._vocabulary):,} words, {unknown:.1f} % of the replies' unknown"
        lengths = [len(one) + len(other) for one, other in zip(sources, targets, strict=True)]
        options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "identity": identity, "report": report}
        return by_length(lengths, self.config.batch, lambda rows, epoch, k: pairs.batch(rows), **options)


def _split(text: str) -> list[str]:
    return [TURN, *tokens(text.removeprefix(TURN))] if text.startswith(TURN) else tokens(text)
