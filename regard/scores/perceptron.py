from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.forms import AdditiveForm
from regard.parts import Score


class Perceptron(Score):
    """e = vᵀ tanh(W q + U k). Bahdanau, Cho & Bengio 2014 (arXiv:1409.0473), the form their appendix computes with.

    The same function as :class:`Additive`, whose joint matrix is [W U]. Shapes: (…, T, query_dim), (…, S, key_dim) →
    (…, T, S).
    """

    equation = "vᵀ tanh(W q + U k)"
    paper = "Bahdanau 2014"

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, hidden_dim
        self.query = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v = nn.Parameter(torch.empty(hidden_dim).uniform_(-(hidden_dim**-0.5), hidden_dim**-0.5))

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.form(query, key).scores()

    def form(self, query: Tensor, key: Tensor) -> AdditiveForm:
        return AdditiveForm(self.query(query), key, self.v)
