"""Rank correlation of weights with importance."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._lazy import nearest

KINDS = ("kendall", "spearman")


def agreement(weights: Tensor, importance: Tensor, *, kind: str = "kendall", allowed: Tensor | None = None) -> Tensor:
    """How alike two sets of numbers rank the same items: 1 if they do, −1 in the opposite order, about 0 at random.

    ``kendall`` is τ_b = (C − D) / √((n₀ − n₁)(n₀ − n₂)): pairs that both order alike, less those that they do not,
    over the geometric mean of the pairs that each orders at all (Kendall 1945), as in Jain & Wallace 2019
    (arXiv:1902.10186). ``spearman`` is the correlation of the ranks, ties sharing their mean.

    Args:
        weights: (…, S).
        importance: (…, S).
        kind: ``kendall`` or ``spearman``.
        allowed: (…, S), which items count; all if None.

    Returns:
        (…): NaN where one of the two ranks nothing, because its numbers are all equal or there are fewer than two.
    """
    if kind not in KINDS:
        raise ValueError(f"no rank correlation is called {kind!r}: {nearest(kind, KINDS)}")
    if weights.shape != importance.shape:
        raise ValueError(f"weights {tuple(weights.shape)} and importance {tuple(importance.shape)} differ in shape")
    allowed = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand(weights.shape)
    pairs = (allowed.unsqueeze(-1) & allowed.unsqueeze(-2)).double()  # (…, S, S)
    signs = [torch.sign(x.double().unsqueeze(-1) - x.double().unsqueeze(-2)) * pairs for x in (weights, importance)]
    if kind == "kendall":
        first, second = (sign.flatten(-2) for sign in signs)
    else:  # the sum over signs is a rank, twice over and from the middle
        first, second = (sign.sum(-1) for sign in signs)
    scale = (first.square().sum(-1) * second.square().sum(-1)).sqrt()
    return ((first * second).sum(-1) / scale.masked_fill(scale == 0, torch.nan)).to(weights.dtype)
