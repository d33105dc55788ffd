"""The counting languages of the Stack RNN, generated. Joulin & Mikolov 2015 (arXiv:1503.01007), section 4.1.

Strings such as aⁿbⁿ follow each other without a gap, and the next symbol is to be predicted. Where the string so far
determines it, a model that counts is never wrong: in aⁿbⁿ from the second b on, and at the first a of the next string.
Training has n < 20 (``longest``), the test n ≤ 60 (``longest_test``), each after a short string, so that a system must
also cope with the memory that it left behind.

A batch has ``symbols`` (B, T + 1), a = 0, b = 1, …, and ``known`` (B, T), 1 where symbol t + 1 is determined (and
measured: the short string before a test string is not). All rows of a batch are equally long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from regard._lazy import nearest
from regard._settings import at_least
from regard.tasks.task import MEMORY, Batch, GeneratedTask


class Group(NamedTuple):
    """A run of one symbol: n·``n`` + m·``m`` of them, ``known`` once the groups before it have been seen."""

    n: int
    m: int
    known: bool


LANGUAGES: dict[str, tuple[Group, ...]] = {
    "anbn": (Group(1, 0, False), Group(1, 0, True)),
    "anbncn": (Group(1, 0, False), Group(1, 0, True), Group(1, 0, True)),
    "anbncndn": (Group(1, 0, False), Group(1, 0, True), Group(1, 0, True), Group(1, 0, True)),
    "anb2n": (Group(1, 0, False), Group(2, 0, True)),
    "anbmcnm": (Group(1, 0, False), Group(0, 1, False), Group(1, 1, True)),
}
"""aⁿbⁿ, aⁿbⁿcⁿ, aⁿbⁿcⁿdⁿ, aⁿb²ⁿ and aⁿbᵐcⁿ⁺ᵐ: each letter's group."""


@dataclass(frozen=True)
class Config:
    """Which language, and how long its strings are.

    Attributes:
        language: a name in ``LANGUAGES``.
        longest: the largest n (n + m where there is an m) in training.
        longest_test: the largest n in the test.
        shortest: the largest n in the first epoch; it grows by one an epoch. The paper's curriculum.
        length: symbols to a row in training.
        batch: rows to a batch.
        batches: batches to an epoch of training.
    """

    language: str = "anbn"
    longest: int = 19
    longest_test: int = 60
    shortest: int = 3
    length: int = 50
    batch: int = 16
    batches: int = 100

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"no language is called {self.language!r}: {nearest(self.language, LANGUAGES)}")
        if not self.fewest <= self.shortest <= self.longest <= self.longest_test:
            raise ValueError(
                f"{self.language} needs {self.fewest} <= shortest <= longest <= longest_test, not "
                f"{self.shortest}, {self.longest} and {self.longest_test}"
            )
        at_least(self, "length", "batch", "batches")

    @property
    def fewest(self) -> int:
        """The smallest n, or n + m."""
        return 2 if any(group.m for group in LANGUAGES[self.language]) else 1


class Counting(GeneratedTask):
    """Strings of a counting language; see the module's docstring."""

    kind: ClassVar[str] = "counting"
    family: ClassVar[str] = MEMORY
    unit: ClassVar[str] = "symbols"
    settings = Config

    @property
    def sizes(self) -> dict[str, int]:
        """The number of symbols."""
        return {"symbols": len(LANGUAGES[self.config.language])}

    def length(self, split: str) -> int:
        """One batch for each n where it is measured."""
        last = {"train": 0, "valid": self.config.longest, "test": self.config.longest_test}[split]
        return last - self.config.fewest + 1 if last else self.config.batches

    def make(self, split: str, random: np.random.Generator, epoch: int, number: int) -> Batch:
        config = self.config
        if split != "train":
            return self.test(random, number + config.fewest)
        longest = min(config.longest, config.shortest + epoch)
        rows = [self._stream(random, longest) for _ in range(config.batch)]
        return _batch(rows)

    def test(self, random: np.random.Generator, n: int) -> Batch:
        """The string of n, after a short one and followed by the beginning of the next; for languages with an m, with
        as many splits of n into n + m as a batch holds."""
        config = self.config
        short = int(random.integers(config.fewest, config.longest + 1))
        splits = range(1, n) if config.fewest == 2 else [n]
        chosen = sorted(random.choice(splits, min(len(splits), config.batch), replace=False))
        before, _ = string(config.language, *_split(short, config.fewest == 2, random))
        rows = []
        for first in chosen:
            symbols, known = string(config.language, int(first), n - int(first))
            # What follows a known group is known: the last symbol of a string determines the first of the next.
            rows.append(([*before, *symbols, 0], [*[0] * len(before), *known, 1]))
        return _batch(rows)

    def _stream(self, random: np.random.Generator, longest: int) -> tuple[list[int], list[int]]:
        """Strings of 1…longest, one after the other, cut to ``length`` + 1 symbols."""
        symbols: list[int] = []
        known: list[int] = []
        while len(symbols) <= self.config.length:
            n = int(random.integers(self.config.fewest, longest + 1))
            next_symbols, next_known = string(self.config.language, *_split(n, self.config.fewest == 2, random))
            known += [int(bool(symbols)), *next_known[1:]]
            symbols += next_symbols
        return symbols[: self.config.length + 1], known[: self.config.length + 1]


def string(language: str, n: int, m: int = 0) -> tuple[list[int], list[int]]:
    """The symbols of a string, and which of them the ones before determine; its first is not, on its own."""
    symbols: list[int] = []
    known: list[int] = []
    before = False
    for letter, group in enumerate(LANGUAGES[language]):
        count = group.n * n + group.m * m
        symbols += [letter] * count
        known += [int(before), *[int(group.known)] * (count - 1)]
        before = group.known
    return symbols, known


def spell(symbols: list[int]) -> str:
    """0, 0, 1 → "aab"."""
    return "".join(chr(ord("a") + symbol) for symbol in symbols)


def _split(n: int, two: bool, random: np.random.Generator) -> tuple[int, int]:
    """n, or n as a sum of two numbers."""
    first = int(random.integers(1, n)) if two else n
    return first, n - first


def _batch(rows: list[tuple[list[int], list[int]]]) -> Batch:
    symbols = torch.tensor([symbols for symbols, _ in rows])
    known = torch.tensor([known[1:] for _, known in rows], dtype=torch.float32)
    return {"symbols": symbols, "known": known}
