from __future__ import annotations

import torch
from torch import Tensor

from regard.parts import Normalizer


class Sigmoid(Normalizer):
    """α = 1 / (1 + exp(−e)): each key is judged alone. A row sums to anything between 0 and the number of allowed
    keys.
    """

    equation = "1 / (1 + exp(−e))"
    paper = "–"
    sums_to_one = False
    shift_invariant = False

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.sigmoid(scores if mask is None else torch.where(mask, scores, float("-inf")))
