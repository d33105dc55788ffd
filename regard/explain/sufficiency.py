"""Sufficiency of an explanation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.explain._scored import SHARES, Score, erased


def sufficiency(score: Score, weights: Tensor, *, shares: Sequence[float] = SHARES) -> Tensor:
    """m(x) − m(r): what the answer loses if the items of most weight are all there is, the mean over ``shares`` of the
    items. Low if the weights name what is enough for the answer. DeYoung et al. 2020 (arXiv:1911.03429), section 4.1.

    Arguments as for :func:`regard.explain.comprehensiveness`.
    """
    return erased(score, weights, shares, only=True)
