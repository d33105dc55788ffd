from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.kernels.forms import AdditiveForm, LocatedForm
from regard.parts import Score

if TYPE_CHECKING:
    from regard.memory import Memory


class LocationAware(Score):
    """e = vᵀ tanh(W q + V k + U f), f = F * α₍ᵢ₋₁₎. Chorowski et al. 2015 (arXiv:1506.07503), eqs. 8-9.

    The score sees where the previous query looked: ``filters`` convolutions of odd width ``kernel`` run over the
    previous weights, which are its state, (…, S); before the first query they are uniform over the allowed keys.
    Shapes: (…, T, query_dim), (…, S, key_dim) → (…, T, S), one query at a time.
    """

    equation = "vᵀ tanh(W q + V k + U (F ∗ α₋₁))"
    paper = "Chorowski 2015"
    needs = ("state", "positions")
    positional = True
    parallel = False

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int, filters: int, kernel: int):
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"the kernel of LocationAware must be odd, so that it has a middle: {kernel}")
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, hidden_dim
        self.filters, self.kernel = filters, kernel
        self.query = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key = nn.Linear(key_dim, hidden_dim, bias=False)
        self.convolution = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.location = nn.Linear(filters, hidden_dim, bias=False)
        self.v = nn.Parameter(torch.empty(hidden_dim).uniform_(-(hidden_dim**-0.5), hidden_dim**-0.5))

    def start(self, memory: Memory) -> Tensor:
        allowed = memory.allowed().to(memory.value.dtype)
        return allowed / allowed.sum(-1, keepdim=True).clamp_min(1)

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def forward(self, query: Tensor, key: Tensor, state: Tensor, positions: Tensor | None = None) -> Tensor:
        form = self.form(query, key, state)
        if positions is None:
            return form.scores()
        index = positions.mT.expand(*state.shape[:-1], -1, self.hidden_dim)  # (…, 1, W): only the rows of a window
        near = form.seen().gather(-2, index).unsqueeze(-3)
        return AdditiveForm(form.query, key + near, self.v).scores()

    def form(self, query: Tensor, key: Tensor, state: Tensor) -> LocatedForm:
        filters = self.convolution.weight.squeeze(1)
        return LocatedForm(self.query(query), key, self.v, state, filters, self.location.weight)
