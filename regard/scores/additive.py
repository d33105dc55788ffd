from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.kernels.forms import AdditiveForm
from regard.parts import Score


class Additive(Score):
    """e = vᵀ tanh(W [q; k]). Bahdanau, Cho & Bengio 2014 (arXiv:1409.0473), appendix A.1.2; Luong 2015, eq. 8,
    "concat".

    W acts on the concatenation, so it splits into a part for queries and a part for keys; the keys' is computed once.
    :class:`Perceptron` is the same function with the two parts as separate matrices.
    Shapes: (…, T, query_dim), (…, S, key_dim) → (…, T, S).
    """

    equation = "vᵀ tanh(W [q; k])"
    paper = "Bahdanau 2014"

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, hidden_dim
        self.joint = nn.Linear(query_dim + key_dim, hidden_dim, bias=False)
        self.v = nn.Parameter(torch.empty(hidden_dim).uniform_(-(hidden_dim**-0.5), hidden_dim**-0.5))

    def project(self, key: Tensor) -> Tensor:
        return linear(key, self.joint.weight[:, self.query_dim :])

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.form(query, key).scores()

    def form(self, query: Tensor, key: Tensor) -> AdditiveForm:
        return AdditiveForm(linear(query, self.joint.weight[:, : self.query_dim]), key, self.v)
