from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.kernels.forms import DotForm, lift
from regard.parts import Score


class Cosine(Score):
    """e = β cos(q, k). Graves, Wayne & Danihelka 2014 (arXiv:1410.5401), eqs. 5-6, "content-based addressing".

    A cosine is at most 1: with β = 1 and S keys no weight exceeds e²/(e² + S − 1), so attention cannot become
    sharp. Give a larger ``gain``, learn it, or pass ``gain=`` (…, T) at the call, as the NTM does with its key
    strength β_t. Shapes: (…, T, D), (…, S, D) → (…, T, S).
    """

    equation = "β cos(q, k)"
    paper = "Graves 2014 (NTM)"
    same_width = True
    needs = ("gain",)

    def __init__(self, gain: float = 1.0, learn_gain: bool = False):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(float(gain))) if learn_gain else float(gain)

    def project(self, key: Tensor) -> Tensor:
        # In float16 the square of a small number is 0.
        return normalize(lift(key), dim=-1, eps=1e-8).to(key.dtype)

    def forward(self, query: Tensor, key: Tensor, gain: Tensor | None = None) -> Tensor:
        return self.form(query, key, gain).scores()

    def form(self, query: Tensor, key: Tensor, gain: Tensor | None = None) -> DotForm:
        strength = self.gain if gain is None else gain.unsqueeze(-1)
        return DotForm(self.project(query) * strength, key)
