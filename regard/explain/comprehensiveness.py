"""Comprehensiveness of an explanation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.explain._scored import SHARES, Score, erased


def comprehensiveness(score: Score, weights: Tensor, *, shares: Sequence[float] = SHARES) -> Tensor:
    """m(x) − m(x without r): what the answer loses without the items of most weight, the mean over ``shares`` of the
    items. High if the weights name what the answer needs. DeYoung et al. 2020 (arXiv:1911.03429), section 4.1.

    Args:
        score: m, as for :func:`regard.explain.importance`; the paper's is the probability of the predicted class.
        weights: (S,), or (R, S), a row for each of R answers.
        shares: of the items, at least one of them.

    Returns:
        (), or (R,).
    """
    return erased(score, weights, shares, only=False)
