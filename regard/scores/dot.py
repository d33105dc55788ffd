from __future__ import annotations

from torch import Tensor

from regard.kernels.forms import DotForm
from regard.parts import Score


class Dot(Score):
    """e = q·k. Luong, Pham & Manning 2015 (arXiv:1508.04025), eq. 8, "dot".

    Shapes: (…, T, D), (…, S, D) → (…, T, S). With unit-variance entries the scores have standard deviation √D, so that
    the softmax saturates for wide vectors; :class:`ScaledDot` is the remedy.
    """

    equation = "q·k"
    paper = "Luong 2015"
    same_width = True

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def form(self, query: Tensor, key: Tensor) -> DotForm:
        return DotForm(query, key)
