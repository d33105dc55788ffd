"""Reranking of n-best lists by a second model: one of the same tokens, which may use the alignment, or a
language model of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decode.states import Writer
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
            source_places = hypothesis.alignment[: len(hypothesis.tokens), : len(source)].argmax(-1)
            places[row, : len(source_places)] = source_places
            places[row, len(hypothesis.tokens)] = len(source) - 1
        batch["affiliation"] = places
    means = scorer.log_probs(batch).sum(1) / batch["target_lengths"]
    return _ranked(
        hypotheses,
        [
            (1 - weight) * hypothesis.score + weight * mean
            for hypothesis, mean in zip(hypotheses, means.tolist(), strict=True)
        ],
    )


def rescore_texts(
    hypotheses: Sequence[Hypothesis], texts: Sequence[str], language: Sequence[float], weight: float = 0.008
) -> list[Hypothesis]:
    """The hypotheses y of one source x, best first by log P(y|x) / |y| + weight · log P_LM(y), where |y| is the number
    of characters of y, its end counted (Chan et al. 2015, arXiv:1508.01211, section 3.4).

    Args:
        texts: the text of each hypothesis.
        language: log P_LM of each text; see :func:`log_probs`.
        weight: λ, at least 0; the default is the paper's.
    """
    if not weight >= 0:
        raise ValueError(f"the weight of a language model is at least 0, not {weight}")
    return _ranked(
        hypotheses,
        [
            hypothesis.log_prob / (len(text) + 1) + weight * log_prob
            for hypothesis, text, log_prob in zip(hypotheses, texts, language, strict=True)
        ],
    )


@torch.inference_mode()
def log_probs(model: Writer, tokens: Tensor, lengths: Tensor) -> Tensor:
    """(N,): under a language model, the log-probability of each row of tokens (N, T) after its first token.

    Args:
        tokens: padded rows, each of ``lengths`` (N,) ≥ 1 tokens.
    """
    state = model.start({"prompt": tokens[:, :1], "wanted": lengths - 1})
    total = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    for position in range(1, tokens.shape[1]):
        logits, state = model.step(tokens[:, position - 1], state)
        log_prob = logits.log_softmax(-1).gather(1, tokens[:, position, None])[:, 0]
        total += log_prob.double().masked_fill(lengths <= position, 0.0)
    return total


def _ranked(hypotheses: Sequence[Hypothesis], scores: Sequence[float]) -> list[Hypothesis]:
    rescored = [replace(hypothesis, score=score) for hypothesis, score in zip(hypotheses, scores, strict=True)]
    return sorted(rescored, key=lambda hypothesis: -hypothesis.score)
