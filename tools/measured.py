"""Translations beside their references: scores, their intervals, and whether another system is better."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLES = 1000


@dataclass(frozen=True)
class Measured:
    """A system's translations beside the references."""

    texts: list[str]
    source: list[str]
    target: list[str]
    perplexity: float
    minutes: float
    cased: bool = False

    @functools.cached_property
    def tally(self) -> np.ndarray:
        """(N, 10): of each sentence the right n-grams, n = 1 to 4, all its n-grams, and both lengths."""
        scores = [
            _bleu(self.cased).corpus_score([text], [[reference]]) for text, reference in zip(self.texts, self.target)
        ]
        return np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])

    def bleu(self, rows: Sequence[int] | slice = slice(None)) -> tuple[float, float]:
        """Of some sentences, with half of its interval."""
        tally = self.tally[rows]
        low, high = np.percentile(_resampled(tally), [2.5, 97.5])
        return _score(tally.sum(0)), (high - low) / 2

    @property
    def chrf(self) -> float:
        """Of all sentences."""
        from sacrebleu.metrics import CHRF

        return CHRF(lowercase=not self.cased).corpus_score(self.texts, [self.target]).score

    def row(self) -> str:
        """BLEU, chrF, perplexity and minutes as cells of a table."""
        score, half = self.bleu()
        return f"{score:.1f} ± {half:.1f} | {self.chrf:.1f} | {self.perplexity:.2f} | {self.minutes:.0f}"

    def against(self, before: Measured) -> str:
        """The difference in BLEU with its interval, and in words whether there is one."""
        low, high = np.percentile(_resampled(self.tally) - _resampled(before.tally), [2.5, 97.5])
        difference = f"{self.bleu()[0] - before.bleu()[0]:+.2f} ({low:+.2f} to {high:+.2f})"
        return f"no gain: {difference}" if low <= 0 <= high else f"worse: {difference}" if high < 0 else difference


@functools.cache
def _bleu(cased: bool = False) -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(lowercase=not cased, tokenize="13a")


def _score(sums: np.ndarray) -> float:
    """BLEU of summed tallies."""
    correct, all_, (length, reference_length) = sums[:4].tolist(), sums[4:8].tolist(), sums[8:].tolist()
    return _bleu().compute_bleu(correct, all_, length, reference_length, smooth_method="exp").score


def _resampled(tally: np.ndarray) -> np.ndarray:
    """(SAMPLES,): BLEU of as many sentences, drawn with replacement; of equally many always the same ones."""
    count = len(tally)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return np.array([_score(sums) for sums in drawn @ tally])


def signature(cased: bool = False, **other_metrics: Any) -> str:
    """How BLEU, chrF and ``more`` metrics were computed, in sacrebleu's words."""
    from sacrebleu.metrics import CHRF

    metrics = {"BLEU": _bleu(cased), "chrF": CHRF(lowercase=not cased)} | other_metrics
    for metric in metrics.values():
        metric.corpus_score(["a"], [["a"]])  # only then the number of references is known
    return ", ".join(f"{name} `{metric.get_signature()}`" for name, metric in metrics.items())


def perplexity(model: Any, split: str = "test") -> float:
    """Of a token of a split, also by an ensemble."""
    import torch

    nll = count = 0.0
    with torch.inference_mode():
        for batch in model.task.loader(split):
            target, state = batch["target"], model.model.start(batch)
            for step in range(target.shape[1] - 1):
                logits, state = model.model.step(target[:, step], state)
                gold = target[:, step + 1]
                log_prob = torch.log_softmax(logits, -1).gather(1, gold[:, None])[:, 0]
                nll -= float(log_prob[gold != 0].sum())
                count += float((gold != 0).sum())
    return math.exp(nll / count)
