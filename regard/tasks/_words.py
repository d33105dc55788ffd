"""Shared by tasks whose systems write words: a vocabulary, and batches of sentences of like length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from regard.data.tokens import BOS, EOS, SPECIAL, UNKNOWN
from regard.metrics import captions
from regard.tasks.task import Batch, Loader, loader_of

Split = Callable[[str], Sequence[str]]
"""A text → its words."""


class Vocabulary:
    """Words and their ids; the first four ids are reserved.

    Args:
        words: the words, in the order of their ids.
        split: cuts a text into words; if None, in lower case without punctuation, as captions are compared.
    """

    def __init__(self, words: Iterable[str], split: Split | None = None):
        self.words: list[str] = [*SPECIAL, *words]
        """What each id stands for."""
        self._split = split or captions.words
        self._ids = {word: number for number, word in enumerate(self.words) if number > UNKNOWN}

    def __len__(self) -> int:
        return len(self.words)

    @staticmethod
    def seen(texts: Iterable[str], least: int, split: Split | None = None) -> list[str]:
        """The words that occur at least ``least`` times, sorted."""
        counts = Counter(word for text in texts for word in (split or captions.words)(text))
        return sorted(word for word, count in counts.items() if count >= least)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without bos and eos."""
        return [self._ids.get(word, UNKNOWN) for word in self._split(text)]

    def framed(self, text: str, longest: int) -> list[int]:
        """From bos to eos, with at most ``longest`` tokens after bos."""
        return [BOS, *self.encode(text)[: longest - 1], EOS]

    def decode(self, tokens: Iterable[int]) -> list[str]:
        """The words of ids."""
        return [self.words[number] for number in tokens]


def by_length(
    lengths: Sequence[int] | np.ndarray,
    size: int,
    make: Callable[[np.ndarray, int, int], Batch],
    *,
    seed: int,
    shuffle: bool,
    identity: Mapping[str, Any],
    report: str,
) -> Loader:
    """A loader of rows of like length, ``size`` at a time: batch k of an epoch is ``make(rows, epoch, k)``."""
    all_lengths = np.asarray(lengths)
    planned = lru_cache(maxsize=1)(lambda epoch: plan(all_lengths, size, (seed, epoch) if shuffle else None))
    return loader_of(lambda epoch, k: make(planned(epoch)[k], epoch, k), len(planned(0)), identity, report)


def plan(lengths: np.ndarray, size: int, seed: tuple[int, int] | None) -> list[np.ndarray]:
    """The rows of each batch, of like length: in random order, with equal lengths mixed, if there is a ``seed``."""
    random = None if seed is None else np.random.default_rng(seed)
    tie = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    order = np.lexsort((tie, lengths))
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    return batches if random is None else [batches[number] for number in random.permutation(len(batches))]
