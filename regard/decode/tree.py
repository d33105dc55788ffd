"""The tree that a search grows: at every step, the token of each hypothesis and the hypothesis that it continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

Alignment = Tensor | dict[str, Tensor]
"""Weights over the source, or over each of several sources by name."""


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One decoded sequence.

    Attributes:
        tokens: ids, without begin and end.
        score: what hypotheses are ranked by: the log-probability, divided by the length penalty in a beam.
        log_prob: log-probability under the model, the end included.
        alignment: (T, S), the weights over the source with which each token was chosen, or such weights over each of
            several sources, by name; None if the model has none.
        finished: did it end by itself, or was it cut off at the greatest length?
    """

    tokens: list[int]
    score: float
    log_prob: float
    alignment: Any
    finished: bool


class Choice(NamedTuple):
    """What the K hypotheses of each of B sentences become in one step. A place is a number b·K + k."""

    log_prob: Tensor
    """(B, K), of the whole hypothesis; −inf where there is none."""
    token: Tensor
    """(B, K)."""
    parent: Tensor
    """(B, K), the place of the hypothesis that is continued, one step before."""


class Tree:
    """All steps of a search. Nothing is copied while it grows; a hypothesis is read from its last token back."""

    def __init__(self) -> None:
        self.choices: list[Choice] = []
        self.rows: list[Tensor] = []
        self.ends: list[Tensor] = []
        self.alignments: list[Alignment] = []

    def grow(self, choice: Choice, row: Tensor, end: Tensor, alignment: Alignment | None) -> None:
        """One step. ``row`` (B, K) is where each parent stands in ``alignment`` (N, S); ``end`` marks the hypotheses
        that go no further.
        """
        self.choices.append(choice)
        self.rows.append(row)
        self.ends.append(end)
        if alignment is not None:
            self.alignments.append(alignment)

    @property
    def log_prob(self) -> Tensor:
        """(T, B, K)."""
        return torch.stack([choice.log_prob for choice in self.choices])

    @property
    def token(self) -> Tensor:
        """(T, B, K)."""
        return torch.stack([choice.token for choice in self.choices])

    @property
    def end(self) -> Tensor:
        """(T, B, K)."""
        return torch.stack(self.ends)

    def hypotheses(self, last: Tensor, slot: Tensor, score: Tensor, eos: int) -> list[list[Hypothesis]]:
        """Those that ended at step ``last`` in ``slot`` of their sentence, each (B, n), where their score is finite."""
        sentences, width = self.choices[0].token.shape
        place = slot + width * torch.arange(sentences, device=slot.device)[:, None]
        log_prob = self.log_prob.flatten(1)[last, place]
        tokens, alignments = [], []
        for t in reversed(range(len(self.choices))):
            inside = last >= t
            tokens.append(self.choices[t].token.flatten()[place])
            if self.alignments:
                row = torch.where(inside, self.rows[t].flatten()[place], 0)
                alignments.append(_map_sources(lambda weights, row=row: weights[row], self.alignments[t]))
            place = torch.where(inside, self.choices[t].parent.flatten()[place], place)

        # The only copies from the device.
        numbers = torch.stack(tokens[::-1], dim=-1).tolist()  # B × n × T
        steps, scores, log_probs = last.tolist(), score.tolist(), log_prob.tolist()
        weights = (
            _map_sources(lambda *steps: torch.stack(steps, dim=2).cpu(), *alignments[::-1]) if alignments else None
        )

        def read(b: int, n: int) -> Hypothesis:
            ids = numbers[b][n][: steps[b][n] + 1]
            finished = ids[-1] == eos
            ids = ids[:-1] if finished else ids
            alignment = (
                None
                if weights is None
                else _map_sources(lambda source_weights: source_weights[b, n, : len(ids)].clone(), weights)
            )
            return Hypothesis(ids, scores[b][n], log_probs[b][n], alignment, finished)

        finite = score.isfinite().tolist()
        return [[read(b, n) for n, exists in enumerate(row) if exists] for b, row in enumerate(finite)]


def _map_sources(change: Callable[..., Tensor], *alignments: Alignment) -> Any:
    """The same change of the weights over each source, at one step or at several."""
    return tree_map(change, *alignments)
