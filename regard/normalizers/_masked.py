"""Masking that is right on rows without an allowed key, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys; zeros where there are none.

    The fill is finite, so that a dead row is a uniform one until the second fill makes it zero; with −inf its gradient
    would pass through NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(torch.where(mask, scores, torch.finfo(scores.dtype).min), dim=-1)
    return torch.where(mask, weights, 0.0)


def below(scores: Tensor, mask: Tensor | None, depth: float) -> Tensor:
    """Scores with the best allowed one at 0 and forbidden ones at −depth, where a normalizer with a threshold gives
    them nothing; a row without an allowed key is level. On −inf its sums would be NaN."""
    if mask is None:
        return scores - scores.detach().amax(dim=-1, keepdim=True)
    best = scores.detach().masked_fill(~mask, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    return torch.where(mask, scores - best, -depth)
