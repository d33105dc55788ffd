from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.forms import lift
from regard.parts import Score


class InverseDistance(Score):
    """e = scale / ‖q − k‖: the weather stations of the lectures, where near stations count most.

    A softmax of 1/d depends on the unit of distance; ``scale`` sets it and can be learned. At distance 0 the score is
    large and finite, so that the station itself takes all the weight. Scores of halves are float32.
    Shapes: (…, T, D), (…, S, D) → (…, T, S).
    """

    equation = "scale / ‖q − k‖"
    paper = "slides"
    same_width = True

    def __init__(self, scale: float = 1.0, learn_scale: bool = False):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale))) if learn_scale else float(scale)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        # The difference, not ‖q‖² + ‖k‖² − 2q·k: a reciprocal is most sensitive where that cancels.
        squared = (lift(query).unsqueeze(-2) - lift(key).unsqueeze(-3)).square().sum(-1)  # (…, T, S)
        return squared.clamp_min(1e-12).rsqrt() * self.scale
