from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.parts import Window


class LocalPredictive(Window):
    """Query t predicts where to look. Luong, Pham & Manning 2015 (arXiv:1508.04025), eqs. 9-10, "local-p".

    pₜ = S · sigmoid(vᵀ tanh(W q)), and the weights within D = ``radius`` of pₜ are multiplied by
    exp(−(s − pₜ)² / 2σ²), σ = D/2, through which alone the gradient reaches W and v; they are not normalized again.
    S is the number of allowed keys, so that padding changes nothing.
    Shapes: query (…, T, query_dim), lengths → start (…, T), width 2D + 1.
    """

    equation = "pₜ = S σ(vᵀ tanh(W q)), α exp(−(s − pₜ)² / 2(D/2)²)"
    paper = "Luong 2015"

    def __init__(self, query_dim: int, radius: int):
        super().__init__()
        if radius < 1:
            raise ValueError(f"the radius of a window with a Gaussian must be at least 1: {radius}")
        self.query_dim, self.radius = query_dim, radius
        self.query = nn.Linear(query_dim, query_dim, bias=False)
        self.v = nn.Linear(query_dim, 1, bias=False)

    def forward(self, query: Tensor, lengths: Tensor, state: None = None) -> tuple[Tensor, int]:
        share = torch.sigmoid(self.v(torch.tanh(self.query(query)))).squeeze(-1)  # (…, T)
        return lengths * share - self.radius, 2 * self.radius + 1

    def factor(self, offset: Tensor) -> Tensor:
        return torch.exp(-2.0 * ((offset - self.radius) / self.radius).square())
