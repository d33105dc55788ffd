from __future__ import annotations

from torch import Tensor, nn

from regard.parts import Score


class Concat(Score):
    """e = w·[q; k], the "concatenating" score of the lecture slides.

    It splits into w₁·q + w₂·k, and the first term is the same for every key: after a softmax the weights cannot
    depend on the query. It is here because the slides list it, and a test shows what it cannot do; Luong's "concat"
    score has a tanh and is :class:`Additive`. Shapes: (…, T, query_dim), (…, S, key_dim) → (…, T, S).
    """

    equation = "w·[q; k]"
    paper = "slides"

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.query_dim, self.key_dim = query_dim, key_dim
        self.joint = nn.Linear(query_dim + key_dim, 1, bias=False)

    def project(self, key: Tensor) -> Tensor:
        return key @ self.joint.weight[0, self.query_dim :, None]  # (…, S, 1)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ self.joint.weight[0, : self.query_dim, None] + key.mT
