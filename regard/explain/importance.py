"""Leave-one-out importance."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.explain._scored import Score, scored


def importance(score: Score, count: int) -> Tensor:
    """score(all) − score(all but i), for each of ``count`` items i: what the answer loses without it (Li, Monroe &
    Jurafsky 2016, arXiv:1612.08220).

    Args:
        score: (N, S) booleans, which items are kept → (N,), how good the answer is then; (N, R) for R answers at once.
        count: S.

    Returns:
        (S,), or (R, S).
    """
    if count < 1:
        raise ValueError(f"there is nothing to leave out: {count} items")
    complete = torch.ones(1, count, dtype=torch.bool)
    scores = scored(score, torch.cat([complete, ~torch.eye(count, dtype=torch.bool)]))
    return (scores[0] - scores[1:]).movedim(0, -1)
