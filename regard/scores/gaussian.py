from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.forms import DotForm
from regard.parts import Score


class Gaussian(Score):
    """e = −‖q − k‖² / (2 width²); with a softmax this is Nadaraya-Watson kernel regression.

    Expanded, ‖q − k‖² = ‖q‖² + ‖k‖² − 2 q·k: a dot product with a bias for each key. Shapes: (…, T, D), (…, S, D) →
    (…, T, S).
    """

    equation = "−‖q − k‖² / (2 width²)"
    paper = "Nadaraya, Watson 1964"
    same_width = True

    def __init__(self, width: float = 1.0, learn_width: bool = False):
        super().__init__()
        if width <= 0:
            raise ValueError(f"the width of a Gaussian must be positive: {width}")
        self.width = nn.Parameter(torch.tensor(float(width))) if learn_width else float(width)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.form(query, key).scores()

    def form(self, query: Tensor, key: Tensor) -> DotForm:
        precision = self.width**-2
        bias = key.square().sum(-1).unsqueeze(-2) * (-0.5 * precision)  # (…, 1, S)
        shift = query.square().sum(-1, keepdim=True) * (-0.5 * precision)  # (…, T, 1)
        if isinstance(precision, float):
            return DotForm(query, key, precision, bias, shift)
        return DotForm(query * precision, key, 1.0, bias, shift)
