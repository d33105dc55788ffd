"""What a translator wrote, beside what was wanted: how good it is, how sure that is, and whether another is better."""

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
    """What a system wrote, beside what was wanted."""

    texts: list[str]
    source: list[str]
    target: list[str]
    perplexity: float
    minutes: float
    cased: bool = False

    @functools.cached_property
    def tally(self) -> np.ndarray:
        """(N, 10): of each sentence the right n-grams, n = 1 to 4, all its n-grams, and both lengths."""
        each = [_bleu(self.cased).corpus_score([text], [[wanted]]) for text, wanted in zip(self.texts, self.target)]
        return np.array([[*found.counts, *found.totals, found.sys_len, found.ref_len] for found in each])

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
        told = f"{self.bleu()[0] - before.bleu()[0]:+.2f} ({low:+.2f} to {high:+.2f})"
        return f"no gain: {told}" if low <= 0 <= high else f"worse: {told}" if high < 0 else told


@functools.cache
def _bleu(cased: bool = False) -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(lowercase=not cased, tokenize="13a")


def _score(sums: np.ndarray) -> float:
    """BLEU of summed tallies."""
    right, all_, (ours, wanted) = sums[:4].tolist(), sums[4:8].tolist(), sums[8:].tolist()
    return _bleu().compute_bleu(right, all_, ours, wanted, smooth_method="exp").score


def _resampled(tally: np.ndarray) -> np.ndarray:
    """(SAMPLES,): BLEU of as many sentences, drawn with replacement; of equally many always the same ones."""
    count = len(tally)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return np.array([_score(sums) for sums in drawn @ tally])


def signature(cased: bool = False, **more: Any) -> str:
    """How BLEU, chrF and ``more`` metrics were computed, in sacrebleu's words."""
    from sacrebleu.metrics import CHRF

    metrics = {"BLEU": _bleu(cased), "chrF": CHRF(lowercase=not cased)} | more
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
                wanted = target[:, step + 1]
                log_prob = torch.log_softmax(logits, -1).gather(1, wanted[:, None])[:, 0]
                nll -= float(log_prob[wanted != 0].sum())
                count += float((wanted != 0).sum())
    return math.exp(nll / count)
