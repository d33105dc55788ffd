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
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def sink(scores: Tensor, mask: Tensor, depth: float) -> Tensor:
    """Scores in which every forbidden key lies ``depth`` under the best allowed one, and dead rows are level.

    Enough for normalizers with a threshold, whose sums would overflow on the largest negative number.
    """
    if scores.shape[-1] == 0:
        return scores
    lowest = torch.finfo(scores.dtype).min
    best = scores.detach().masked_fill(~mask, lowest).amax(dim=-1, keepdim=True)
    floor = torch.where(mask.any(dim=-1, keepdim=True), best - depth, torch.zeros_like(best))
    return torch.where(mask, scores, floor)
