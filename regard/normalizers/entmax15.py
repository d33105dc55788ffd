from __future__ import annotations

from torch import Tensor

from regard.normalizers._masked import sink
from regard.parts import Normalizer


class Entmax15(Normalizer):
    """α = [e/2 − τ]₊², τ such that Σα = 1: between softmax and sparsemax. Peters, Niculae & Martins 2019
    (arXiv:1905.05702).
    """

    equation = "[e/2 − τ]₊²"
    paper = "Peters 2019"

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        from entmax import entmax15

        if scores.numel() == 0:
            return scores
        if mask is None:
            return entmax15(scores, dim=-1)
        return entmax15(sink(scores, mask, depth=4.0), dim=-1).masked_fill(~mask, 0.0)
