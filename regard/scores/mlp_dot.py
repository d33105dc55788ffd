from __future__ import annotations

from torch import Tensor, nn

from regard.kernels.forms import DotForm
from regard.parts import Score


class MLPDot(Score):
    """e = φ(q)·ψ(k), φ and ψ small MLPs. Chan et al. 2015, "Listen, Attend and Spell" (arXiv:1508.01211), eqs. 9-10.

    Each MLP is Linear, ReLU, Linear, both layers ``hidden_dim`` wide; ψ(k) is computed once for all queries.
    Shapes: (…, T, query_dim), (…, S, key_dim) → (…, T, S).
    """

    equation = "φ(q)·ψ(k)"
    paper = "Chan 2015 (LAS)"

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int):
        super().__init__()
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, hidden_dim
        self.query = nn.Sequential(nn.Linear(query_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, hidden_dim))
        self.key = nn.Sequential(nn.Linear(key_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, hidden_dim))

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.query(query) @ key.mT

    def form(self, query: Tensor, key: Tensor) -> DotForm:
        return DotForm(self.query(query), key)
