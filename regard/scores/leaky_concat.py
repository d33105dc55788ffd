from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from regard.kernels import head_dot
from regard.kernels.forms import SplitForm, TiedForm
from regard.parts import Score


class LeakyConcat(Score):
    """e = LeakyReLU(a·[q; k]). Veličković et al. 2018 (arXiv:1710.10903), eq. 3, the score of GAT.

    a splits into a part for queries and a part for keys, so an edge costs one addition. The same split limits it: the
    LeakyReLU is monotone, so every query ranks the keys in the same order ("static attention", Brody et al. 2021);
    :class:`LeakyAdditive` does not. In GAT query and key are W h_i and W h_j, without a bias.

    With ``heads`` each head has its own a, and the dimension before T and S is H. Shapes: (…, T, query_dim),
    (…, S, key_dim) → (…, T, S).
    """

    equation = "LeakyReLU(a·[q; k])"
    paper = "Veličković 2018 (GAT)"

    def __init__(self, query_dim: int, key_dim: int, heads: int | None = None, slope: float = 0.2):
        super().__init__()
        self.query_dim, self.key_dim, self.heads, self.slope = query_dim, key_dim, heads, slope
        check_slope(slope)
        self.query = nn.Parameter(glorot(query_dim, heads))
        self.key = nn.Parameter(glorot(key_dim, heads))

    def project(self, key: Tensor) -> Tensor:
        return head_dot(key, self.key)  # (…, S, 1)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.form(query, key).scores()

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        return leaky_relu((query * self.query).sum(-1) + key.squeeze(-1), self.slope)

    def form(self, query: Tensor, key: Tensor) -> SplitForm:
        return SplitForm(head_dot(query, self.query), key, self.slope)

    def tied(self, rows: Tensor) -> TiedForm | None:
        return None if self.heads is None else TiedForm(rows, torch.stack([self.query, self.key]), self.slope)


def check_slope(slope: float) -> None:
    """Refuse what would not be a LeakyReLU: the kernels read the sign of its input from its output."""
    if not 0.0 <= slope <= 1.0:
        raise ValueError(f"the slope of a LeakyReLU lies between 0 and 1, not {slope}")


def glorot(width: int, heads: int | None) -> Tensor:
    """(width,) or (heads, width): each vector initialized as the matrix of a layer with one output."""
    bound = (6 / (width + 1)) ** 0.5
    return torch.empty((width,) if heads is None else (heads, width)).uniform_(-bound, bound)
