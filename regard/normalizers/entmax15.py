from __future__ import annotations

import torch
from torch import Tensor

from regard.normalizers._masked import below
from regard.parts import Normalizer


class Entmax15(Normalizer):
    """α = [e/2 − τ]₊², τ such that Σα = 1: between softmax and sparsemax. Peters, Niculae & Martins 2019
    (arXiv:1905.05702), algorithm 2.

    Over a support of k scores x = e/2 with mean μ and sum of squared deviations d, τ = μ − √((1 − d) / k). Only the
    support is searched for, by sorting; τ is then written in terms of e, so that autograd finds the gradient, of any
    order.
    """

    equation = "[e/2 − τ]₊²"
    paper = "Peters 2019"

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if scores.numel() == 0:
            return scores
        x = below(scores.to(torch.promote_types(scores.dtype, torch.float32)), mask, depth=4.0) / 2
        with torch.no_grad():
            ordered = x.sort(dim=-1, descending=True).values
            size = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
            taus = _tau(ordered.cumsum(dim=-1), ordered.square().cumsum(dim=-1), size)
            count = (taus <= ordered).sum(dim=-1, keepdim=True).clamp_min(1)
            threshold = taus.gather(-1, count - 1)
        inside = torch.where(x > threshold, x, 0.0)
        count = (x > threshold).sum(dim=-1, keepdim=True).clamp_min(1)
        tau = _tau(inside.sum(dim=-1, keepdim=True), inside.square().sum(dim=-1, keepdim=True), count)
        weights = (x - tau + 0 * threshold).relu().square()  # where the threshold is NaN, so is the row
        return (weights if mask is None else weights.masked_fill(~mask, 0.0)).to(scores.dtype)


def _tau(total: Tensor, squares: Tensor, count: Tensor) -> Tensor:
    """The threshold of a support of ``count`` scores with this sum and sum of squares."""
    mean = total / count
    deviation = squares - total * mean
    return mean - ((1 - deviation) / count).clamp_min(torch.finfo(mean.dtype).tiny).sqrt()
