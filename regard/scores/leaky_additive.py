from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from regard.kernels.forms import LeakyForm
from regard.parts import Score
from regard.scores.leaky_concat import check_slope, glorot


class LeakyAdditive(Score):
    """e = a·LeakyReLU(q + k). Brody, Alon & Yahav 2021 (arXiv:2105.14491), eq. 7, the score of GATv2.

    The nonlinearity comes before a, so that the order of the keys can differ from query to query, which in
    :class:`LeakyConcat` it cannot. The paper's W [h_i ‖ h_j] is W₁h_i + W₂h_j: query and key are these projections,
    made by the caller, because GATv2's values are its keys.

    With ``heads`` each head has its own a, and the dimension before T and S is H. Shapes: (…, T, key_dim),
    (…, S, key_dim) → (…, T, S).
    """

    equation = "a·LeakyReLU(q + k)"
    paper = "Brody 2021 (GATv2)"
    same_width = True

    def __init__(self, key_dim: int, heads: int | None = None, slope: float = 0.2):
        super().__init__()
        self.query_dim, self.key_dim, self.heads, self.slope = key_dim, key_dim, heads, slope
        check_slope(slope)
        self.v = nn.Parameter(glorot(key_dim, heads))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.form(query, key).scores()

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        return (leaky_relu(query + key, self.slope) * self.v).sum(-1)

    def form(self, query: Tensor, key: Tensor) -> LeakyForm:
        return LeakyForm(query, key, self.v, self.slope)
