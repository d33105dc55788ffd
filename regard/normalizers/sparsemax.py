from __future__ import annotations

from torch import Tensor

from regard.normalizers._masked import sink
from regard.parts import Normalizer


class Sparsemax(Normalizer):
    """α = argmin over the simplex of ‖α − e‖²: most weights are exactly 0. Martins & Astudillo 2016
    (arXiv:1602.02068).
    """

    equation = "argmin ‖α − e‖², α in the simplex"
    paper = "Martins 2016"

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        from entmax import sparsemax

        if scores.numel() == 0:
            return scores
        if mask is None:
            return sparsemax(scores, dim=-1)
        return sparsemax(sink(scores, mask, depth=2.0), dim=-1).masked_fill(~mask, 0.0)
