from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.forms import DotForm
from regard.parts import Score


class Gaussian(Score):
    """e = −‖q − k‖² / (2 width²); with a softmax this is Nadaraya-Watson kernel regression.

    For many queries the kernels take it as a dot product with a bias for each key: ‖q − k‖² = ‖q‖² + ‖k‖² − 2 q·k.
    That cancels far from the origin (places on a map, times), so both are first moved by the first query.
    Shapes: (…, T, D), (…, S, D) → (…, T, S).
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
        apart = query.unsqueeze(-2) - key.unsqueeze(-3)  # (…, T, S, D)
        squared = apart.square() if apart.requires_grad else apart.square_()
        return squared.sum(-1) * (-0.5 * self.width**-2)

    def form(self, query: Tensor, key: Tensor) -> DotForm | None:
        if query.shape[-2] <= 1 or key.shape[-2] == 0:
            return None  # for one query the plain difference is as fast
        precision = self.width**-2
        origin = query[..., :1, :].detach().nan_to_num()  # not of the keys: padding must not move it
        query, key = query - origin, key - origin
        bias = key.square().sum(-1).unsqueeze(-2) * (-0.5 * precision)  # (…, 1, S)
        shift = query.square().sum(-1, keepdim=True) * (-0.5 * precision)  # (…, T, 1)
        if isinstance(precision, float):
            return DotForm(query, key, precision, bias, shift)
        return DotForm(query * precision, key, 1.0, bias, shift)
