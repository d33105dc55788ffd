"""Perplexity of an interpolated Kneser-Ney n-gram model, as a baseline for language models.

Kneser & Ney 1995, with one discount D for all orders, in Chen & Goodman's interpolated form: with c the counts of the
longest order and, below it, how many different words stand before an n-gram,

    p(w | h) = max(c(h w) − D, 0) / c(h) + D N(h ·) / c(h) p(w | h'),  N(h ·) the different words after h, h' h without
    its first word; the last p is 1 / V.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

DISCOUNT = 0.75


class NGrams:
    """A model of sequences of ids below ``vocab``, of n-grams of at most ``order``."""

    def __init__(self, sequences: Iterable[Sequence[int]], vocab: int, order: int = 5):
        self.vocab, self.order = vocab, order
        after: list[dict[tuple[int, ...], dict[int, int]]] = [
            defaultdict(lambda: defaultdict(int)) for _ in range(order)
        ]
        for sequence in sequences:
            for place in range(1, len(sequence)):
                history = tuple(sequence[max(0, place - order + 1) : place])
                for size in range(len(history), -1, -1):
                    counts_after = after[size][history[len(history) - size :]]
                    counts_after[sequence[place]] += 1
                    # Below the longest history, an n-gram counts once for each word before it.
                    if counts_after[sequence[place]] > 1:
                        break
        self._after = [dict(histories) for histories in after]
        self._sums = [
            {history: sum(counts.values()) for history, counts in histories.items()} for histories in self._after
        ]

    def log_prob(self, history: Sequence[int], word: int) -> float:
        """log p of a word after its history."""
        probability = 1.0 / self.vocab
        for size in range(min(self.order - 1, len(history)) + 1):
            key = tuple(history[len(history) - size :])
            counts = self._after[size].get(key)
            if counts is None:
                break
            total = self._sums[size][key]
            probability = (max(counts.get(word, 0) - DISCOUNT, 0.0) + DISCOUNT * len(counts) * probability) / total
        return math.log(probability)

    def perplexity(self, sequences: Iterable[Sequence[int]]) -> float:
        """Perplexity of all words of the sequences but the first of each."""
        total, count = 0.0, 0
        for sequence in sequences:
            for place in range(1, len(sequence)):
                total += self.log_prob(sequence[max(0, place - self.order + 1) : place], sequence[place])
                count += 1
        return math.exp(-total / max(count, 1))
