"""Ranking n-best lists again by a second model, which may need the alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decode.tree import Hypothesis

BOS, EOS = 1, 2


class Scorer(Protocol):
    """A model of given targets."""

    def log_probs(self, batch: Any) -> Tensor:
        """(B, T): the log-probability of each target token, 0 where there is none."""


@torch.inference_mode()
def rescore(scorer: Scorer, source: Tensor, hypotheses: Sequence[Hypothesis], weight: float = 0.5) -> list[Hypothesis]:
    """The hypotheses of one source (S,), best first by (1 − weight) · score + weight · mean log-probability of a token.

    The batch that the scorer sees has ``affiliation`` (N, T), the source token that each target token looked at most,
    where hypotheses have alignments; the end of a target belongs to the end of its source.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight is from 0 to 1, not {weight}")
    if not hypotheses:
        return []
    rows = [[BOS, *hypothesis.tokens, EOS] for hypothesis in hypotheses]
    longest = max(map(len, rows))
    target = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=source.device)
    batch = {
        "source": source.expand(len(rows), -1),
        "source_lengths": torch.full((len(rows),), len(source), device=source.device),
        "target": target,
        "target_lengths": torch.tensor([len(row) - 1 for row in rows], device=source.device),
    }
    if all(hypothesis.alignment is not None for hypothesis in hypotheses):
        places = torch.zeros(len(rows), longest - 1, dtype=torch.long, device=source.device)
        for row, hypothesis in enumerate(hypotheses):
            looked = hypothesis.alignment[: len(hypothesis.tokens), : len(source)].argmax(-1)
            places[row, : len(looked)] = looked
            places[row, len(hypothesis.tokens)] = len(source) - 1
        batch["affiliation"] = places
    means = scorer.log_probs(batch).sum(1) / batch["target_lengths"]
    scores = [(1 - weight) * each.score + weight * mean for each, mean in zip(hypotheses, means.tolist(), strict=True)]
    rescored = [replace(each, score=score) for each, score in zip(hypotheses, scores, strict=True)]
    return sorted(rescored, key=lambda each: -each.score)
