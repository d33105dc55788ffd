from __future__ import annotations

from torch import Tensor, nn

from regard.kernels.forms import DotForm
from regard.parts import Score


class General(Score):
    """e = qᵀ W k. Luong, Pham & Manning 2015 (arXiv:1508.04025), eq. 8, "general"; elsewhere "bilinear",
    "multiplicative".

    W k is computed once for all queries. Shapes: (…, T, query_dim), (…, S, key_dim) → (…, T, S).
    """

    equation = "qᵀ W k"
    paper = "Luong 2015"

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.query_dim, self.key_dim = query_dim, key_dim
        self.key = nn.Linear(key_dim, query_dim, bias=False)

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def form(self, query: Tensor, key: Tensor) -> DotForm:
        return DotForm(query, key)
