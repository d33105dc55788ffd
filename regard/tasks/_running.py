"""Shared by tasks on running text: reading, cutting into tokens and windows, streaming.

``data`` is a folder or file of text (:mod:`regard.data.running`), several joined by ``+``, or ``made``: sentences of a
small grammar (:mod:`regard.data.made_text`). Text up to ``memory`` bytes is held in memory; more is streamed, a piece
at a time, and a run that was stopped goes on with the very next batch in either case.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard._settings import at_least
from regard.data import SPLITS, made_text, running
from regard.data.tokens import LEVELS, UNKNOWN, Tokenizer
from regard.tasks.task import LANGUAGE, AskedTask, Batch, Chunk, Loader, check_split

MADE = "made"
SAMPLE = 32 << 20
"""Characters from which subwords are learned."""


@dataclass(frozen=True)
class RunningConfig:
    """Which text, and how it is cut."""

    data: str = MADE
    level: str = "bpe"
    """``char``, ``bpe`` or ``word``."""
    vocab: int = 8000
    """The largest number of different tokens."""
    lowercase: bool = False
    length: int = 128
    """Tokens of a window."""
    batch: int = 32
    """Windows of a batch."""
    valid_share: float = 0.02
    test_share: float = 0.1
    """The end of every file that is held out, where no file is named after a split."""
    made_size: int = 2000
    """Sentences of generated text."""
    memory: int = 64 << 20
    """Bytes of text that are held in memory; more is streamed."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level is one of {', '.join(LEVELS)}, not {self.level!r}")
        at_least(self, "batch", "memory", length=4, made_size=10)
        for name in ("valid_share", "test_share"):
            if not 0 < getattr(self, name) < 0.5:
                raise ValueError(f"{name} = {getattr(self, name)}: a share between 0 and 0.5")


class RunningTask(AskedTask):
    """Windows of running text. A subclass says how a window becomes a row of a batch, :meth:`rows`.

    What is known without the data: the ``tokenizer``.
    """

    family: ClassVar[str] = LANGUAGE
    unit: ClassVar[str] = "tokens"
    learned_from = ("level", "vocab", "lowercase")
    config: Any

    def __init__(self, config: Any, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.tokenizer: Tokenizer = self.known["tokenizer"]
        self._ids = lru_cache(maxsize=len(SPLITS))(self._encode)

    def learn(self) -> dict[str, Any]:
        def sample() -> Iterator[str]:
            remaining = SAMPLE
            for text, _ in self._pieces("train"):
                yield from text[:remaining].splitlines(keepends=True)
                remaining -= len(text)
                if remaining <= 0:
                    return

        options = {"level": self.config.level, "vocab": self.config.vocab, "lowercase": self.config.lowercase}
        return {"tokenizer": Tokenizer.train(sample(), **options)}

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        return {}, {"tokenizer.json": self.tokenizer.to_bytes()}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        return {"tokenizer": Tokenizer.load(folder / "tokenizer.json")}

    def tokens(self) -> dict[str, Any]:
        return {"target": self.tokenizer.backend.to_str()}

    # -----------------------------------------------------------------------------------------------------------------
    # Text

    @property
    def _where(self) -> str:
        return str(self.data or self.config.data)

    @cached_property
    def _texts(self) -> dict[str, running.Running]:
        shares = {"valid": self.config.valid_share, "test": self.config.test_share}
        return running.find(self._where, shares)

    @property
    def _size(self) -> int:
        """Bytes of the training text; 0 if it is generated."""
        return 0 if self._where == MADE else self._texts["train"].size

    def _pieces(self, split: str, place: running.Place = running.Place()) -> Iterator[tuple[str, running.Place]]:  # noqa: B008
        if self._where == MADE:
            share = {"train": 1.0, "valid": 0.1, "test": 0.1}[split]
            size = max(10, int(share * self.config.made_size))
            yield made_text.running(SPLITS.index(split), size), running.Place(1)
            return
        texts = self._texts[split]
        if not texts.files:
            raise ValueError(f"{self._where}: there is no text for {split!r}; a file's name would start with {split}")
        yield from texts.pieces(place, min(running.PIECE, self.config.memory))

    def text(self, split: str) -> str:
        """The text of a split that fits into memory."""
        return "".join(text for text, _ in self._pieces(check_split(split)))

    def _encode(self, split: str) -> np.ndarray:
        parts = [self._numbers(text) for text, _ in self._pieces(split)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def _numbers(self, text: str) -> np.ndarray:
        # Lines stay apart: no token reaches over the end of one, and the first word of each has its space before it.
        return self.tokenizer.encode_all(text.splitlines(keepends=True)).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids that were cut line by line."""
        text = self.tokenizer.decode(ids)
        return text if self.config.level == "char" else text.replace("\n ", "\n")

    @lru_cache(maxsize=len(SPLITS))  # noqa: B019
    def characters(self, split: str) -> float:
        """Characters of a token of a split, on average."""
        return sum(len(text) for text, _ in self._pieces(split)) / max(len(self._ids(split)), 1)

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def rows(self, windows: list[np.ndarray], ids: np.ndarray, random: np.random.Generator) -> Batch:
        """A batch of windows of ``length`` + 1 tokens (the last of a split may be shorter) of a text ``ids``."""
        raise NotImplementedError

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        config = self.config
        streamed = split == "train" and self._size > config.memory
        identity: dict[str, Any] = {"split": split, "seed": seed, "shuffle": shuffle}
        identity |= {"length": config.length, "batch": config.batch}
        if streamed:
            identity["bytes"] = self._size

            def parts(start: Any) -> Iterator[tuple[np.ndarray, Any]]:
                for text, after in self._pieces(split, running.Place(*start) if start else running.Place()):
                    yield self._numbers(text), list(after)

            report = f"about {self._size / 1e6:,.0f} MB of text, streamed"
            return Loader(self._chunks(parts, seed, shuffle), length=None, identity=identity, report=report)
        ids = self._ids(split)
        windows = _windows(len(ids), config.length, None if not shuffle else np.random.default_rng(0))
        if not len(windows):
            least = 2 * config.length if shuffle else 2
            raise ValueError(f"{self._where}: {len(ids)} tokens for {split!r}, and at least {least} are needed")
        identity["text"] = zlib.crc32(ids.tobytes())
        report = f"{len(ids):,} tokens of {len(self.tokenizer):,} kinds, {len(windows):,} windows of {config.length}"
        if (unknown := float(np.mean(ids == UNKNOWN))) > 0:
            report += f"; {100 * unknown:.1f} % of them unknown (more kinds: vocab=…)"
        in_memory: Callable[[Any], Iterator[tuple[np.ndarray, Any]]] = lambda start: iter([] if start else [(ids, [1])])  # noqa: E731
        length = -(-len(windows) // config.batch)
        return Loader(self._chunks(in_memory, seed, shuffle), length=length, identity=identity, report=report)

    def _chunks(
        self, parts: Callable[[Any], Iterator[tuple[np.ndarray, Any]]], seed: int, shuffle: bool
    ) -> Callable[[int, int, Any], Iterator[Chunk]]:
        size, length = self.config.batch, self.config.length

        def chunks(epoch: int, first: int, start: Any) -> Iterator[Chunk]:
            for number, (ids, after) in enumerate(parts(start), first):
                key = [seed, epoch if shuffle else 0, number]
                starts = _windows(len(ids), length, np.random.default_rng(key) if shuffle else None)

                def make(k: int, ids: np.ndarray = ids, starts: np.ndarray = starts, key: list[int] = key) -> Batch:
                    windows = [ids[place : place + length + 1] for place in starts[k * size : (k + 1) * size]]
                    return self.rows(windows, ids, np.random.default_rng([*key, k]))

                yield Chunk(-(-len(starts) // size), make, after)

        return chunks


def _windows(tokens: int, length: int, random: np.random.Generator | None) -> np.ndarray:
    """Where windows begin: one after another through the text. With ``random`` from a random place, in random
    order, and only whole ones, so that their number is always the same."""
    if random is None:
        return np.arange(0, max(tokens - 1, 0), length)
    first = int(random.integers(length))
    return first + length * random.permutation(max((tokens - length) // length, 0))
