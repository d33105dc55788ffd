"""Scores of an answer with some items left out, for leave-one-out and erasure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Score = Callable[[Tensor], Tensor]
"""(N, S) booleans, which of S items are kept → (N,), how good the answer is then; (N, R) if there are R answers."""

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Shares of the items, those with the most weight: the bins of DeYoung et al. 2020."""

AT_ONCE = 512


def scored(score: Score, keep: Tensor) -> Tensor:
    """(N, S) → (N,) or (N, R). Equal rows are scored once."""
    kinds, kind_of_row = torch.unique(keep, dim=0, return_inverse=True)
    scores = torch.cat([score(part) for part in kinds.split(AT_ONCE)])
    if scores.shape[:1] != kinds.shape[:1]:
        raise ValueError(f"score was given {tuple(kinds.shape)} and returned {tuple(scores.shape)}, not a number a row")
    return scores[kind_of_row]


def remembered(score: Score) -> Score:
    """The same score with a cache: it is computed once for each set of kept items."""
    cache: dict[bytes, Tensor] = {}

    def ask(keep: Tensor) -> Tensor:
        keys = [row.tobytes() for row in keep.cpu().numpy()]
        new = [place for place, key in enumerate(keys) if key not in cache]
        if new:
            cache.update(zip([keys[place] for place in new], score(keep[new])))
        return torch.stack([cache[key] for key in keys])

    return ask


def erased(score: Score, weights: Tensor, shares: Sequence[float], *, only: bool) -> Tensor:
    """score(all) − score(without the items of most weight), or with those alone; the mean over ``shares``.

    Weights (S,) → (), or (R, S), a row for each of R answers → (R,).
    """
    if weights.ndim not in (1, 2) or not weights.shape[-1]:
        raise ValueError(f"weights are (S,), or (R, S) for R answers, of at least one item, not {tuple(weights.shape)}")
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares are above 0 and at most 1, not {list(shares)}")
    rows = weights if weights.ndim == 2 else weights[None]
    count = rows.shape[-1]
    rank = torch.argsort(torch.argsort(rows, dim=-1, descending=True, stable=True), dim=-1)  # 0 for the most weight
    sizes = torch.tensor([max(1, round(share * count)) for share in shares], device=rows.device)
    chosen = rank.unsqueeze(1) < sizes[:, None]  # (R, K, S)
    keep = (chosen if only else ~chosen).flatten(0, 1)
    complete = torch.ones(1, count, dtype=torch.bool, device=rows.device)
    scores = scored(score, torch.cat([complete, keep]))
    if weights.ndim == 1:
        return scores[0] - scores[1:].mean()
    if scores.ndim != 2 or scores.shape[1] != len(rows):
        raise ValueError(f"weights {tuple(weights.shape)} are of {len(rows)} answers, scores are {tuple(scores.shape)}")
    by_own_ranking = (
        scores[1:].unflatten(0, (len(rows), -1)).diagonal(dim1=0, dim2=2)
    )  # (K, R): each answer by its own ranking
    return scores[0] - by_own_ranking.mean(0)
