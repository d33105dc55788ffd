from __future__ import annotations

import torch
from torch import Tensor

from regard.normalizers._masked import below
from regard.parts import Normalizer


class Sparsemax(Normalizer):
    """α = argmin over the simplex of ‖α − e‖²: most weights are exactly 0. Martins & Astudillo 2016
    (arXiv:1602.02068), algorithm 1.

    α = [e − τ]₊ with τ = (Σ e over the support − 1) / its size. Only the support is searched for, by sorting; τ is then
    written in terms of e, so that autograd finds the gradient, of any order.
    """

    equation = "argmin ‖α − e‖², α in the simplex"
    paper = "Martins 2016"

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if scores.numel() == 0:
            return scores
        e = below(scores.to(torch.promote_types(scores.dtype, torch.float32)), mask, depth=2.0)
        with torch.no_grad():
            ordered = e.sort(dim=-1, descending=True).values
            sums = ordered.cumsum(dim=-1) - 1
            size = torch.arange(1, e.shape[-1] + 1, device=e.device, dtype=e.dtype)
            count = (size * ordered > sums).sum(dim=-1, keepdim=True).clamp_min(1)
            threshold = sums.gather(-1, count - 1) / count
        tau = (torch.where(e > threshold, e, 0.0).sum(dim=-1, keepdim=True) - 1) / count
        weights = (e - tau + 0 * threshold).relu()  # where the threshold is NaN, so is the row
        return (weights if mask is None else weights.masked_fill(~mask, 0.0)).to(scores.dtype)
