"""Attention that is made narrower where it writes than where it was trained (Chorowski et al. 2015, section 2.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.normalizers import Softmax


class Sharpened(Softmax):
    """α ∝ exp(β e) over the ``keep`` best keys alone; 0 keeps all. Keys as good as the last of them are kept too."""

    equation = "exp(β e) / Σ exp(β e)"
    paper = "Chorowski 2015"

    def __init__(self, beta: float = 1.0, keep: int = 0):
        if beta <= 0:
            raise ValueError(f"β of a sharpened softmax must be positive: {beta}")
        super().__init__(1 / beta)
        self.keep = keep

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if 0 < self.keep < scores.shape[-1]:
            allowed_scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
            least = allowed_scores.detach().topk(self.keep, -1).values[..., -1:]
            best = allowed_scores >= least
            mask = best if mask is None else best & mask
        return super().forward(scores, mask)


def around_median(weights: Tensor, radius: int) -> Tensor:
    """(B, S) weights of the query before → (B, S): the keys at most ``radius`` from their median. Without weights, as
    before the first query, these are the first keys."""
    reached = weights.cumsum(-1)
    half = 0.5 * reached[:, -1:].clamp_min(1e-12)
    median = (reached < half).sum(-1, keepdim=True)
    median = torch.where(reached[:, -1:] > 0, median, 0)
    return (torch.arange(weights.shape[-1], device=weights.device) - median).abs() <= radius
