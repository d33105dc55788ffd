from __future__ import annotations

from torch import Tensor

from regard.normalizers._masked import masked_softmax
from regard.parts import Normalizer


class Softmax(Normalizer):
    """α = exp(e/τ) / Σ exp(e/τ), over the allowed keys. ``temperature`` τ below 1 sharpens, above 1 flattens."""

    equation = "exp(e/τ) / Σ exp(e/τ)"
    paper = "–"

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"the temperature of a softmax must be positive: {temperature}")
        self.temperature = temperature

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return masked_softmax(scores if self.temperature == 1.0 else scores / self.temperature, mask)
