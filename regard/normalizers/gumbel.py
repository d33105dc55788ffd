from __future__ import annotations

import torch
from torch import Tensor

from regard.normalizers._masked import masked_softmax
from regard.parts import Normalizer


class Gumbel(Normalizer):
    """α = softmax((e + g) / τ), g ~ Gumbel(0, 1): a sample that is soft enough to differentiate.

    Jang, Gu & Poole 2016 (arXiv:1611.01144), eq. 2. As ``temperature`` τ → 0 it becomes a draw from softmax(e).
    """

    equation = "softmax((e + g) / τ), g ~ Gumbel"
    paper = "Jang 2016"
    needs = ("generator",)
    stochastic = True

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"the temperature of Gumbel must be positive: {temperature}")
        self.temperature = temperature

    def forward(self, scores: Tensor, mask: Tensor | None, generator: torch.Generator | None = None) -> Tensor:
        noise = -torch.empty_like(scores).exponential_(generator=generator).log()
        return masked_softmax((scores + noise) / self.temperature, mask)
