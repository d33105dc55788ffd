from __future__ import annotations

from torch import Tensor, nn

from regard.masks import may_look
from regard.parts import Score


class Location(Score):
    """e_s = (W q)_s: the score of place s, whatever stands there. Luong, Pham & Manning 2015 (arXiv:1508.04025), eq. 9.

    W has a row for each of ``max_length`` places; a shorter sequence uses the first S of them, a longer one is an
    error. Shapes: (…, T, query_dim), (…, S, ·) → (…, T, S).
    """

    equation = "(W q)ₛ"
    paper = "Luong 2015"
    needs = ("positions",)
    positional = True

    def __init__(self, query_dim: int, max_length: int):
        super().__init__()
        self.query_dim, self.max_length = query_dim, max_length
        self.query = nn.Linear(query_dim, max_length, bias=False)

    def project(self, key: Tensor) -> Tensor:
        return key[..., :0]  # only their number counts

    def forward(self, query: Tensor, key: Tensor, positions: Tensor | None = None) -> Tensor:
        places = self.query(query)
        if positions is None:
            self._check(key.shape[-2])
            return places[..., : key.shape[-2]]
        if may_look(positions) and positions.numel():
            self._check(int(positions.max()) + 1)
        return places.gather(-1, positions.unsqueeze(-2))  # (…, T, 1, W): the places of each query's window

    def _check(self, length: int) -> None:
        if length > self.max_length:
            raise ValueError(f"Location was built for at most max_length={self.max_length} keys, not {length}")
