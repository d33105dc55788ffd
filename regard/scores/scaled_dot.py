from __future__ import annotations

from torch import Tensor

from regard.kernels.forms import DotForm
from regard.parts import Score


class ScaledDot(Score):
    """e = q·k / √D. Vaswani et al. 2017 (arXiv:1706.03762), eq. 1, where D is the width of query and key.

    Shapes: (…, T, D), (…, S, D) → (…, T, S).
    """

    equation = "q·k / √D"
    paper = "Vaswani 2017"
    same_width = True

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return (query * _scale(query)) @ key.mT

    def form(self, query: Tensor, key: Tensor) -> DotForm:
        return DotForm(query, key, scale=_scale(query))


def _scale(query: Tensor) -> float:
    return max(query.shape[-1], 1) ** -0.5
