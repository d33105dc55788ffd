"""The shapes that the scores with fast twins boil down to. A score says which it is; a kernel asks only for that.

Dense kernels know :class:`DotForm` and :class:`AdditiveForm`, those for edges :class:`DotForm`, :class:`SplitForm` and
:class:`LeakyForm`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu


@dataclass(frozen=True, eq=False)
class DotForm:
    """scale · q·k + bias: query (…, T, D), key (…, S, D), bias (…, 1, S), and ``shift`` (…, T, 1), which is
    constant along a row and so needed only by normalizers that are not shift-invariant."""

    query: Tensor
    key: Tensor
    scale: float = 1.0
    bias: Tensor | None = None
    shift: Tensor | None = None

    def scores(self) -> Tensor:
        scores = (self.query if self.scale == 1.0 else self.query * self.scale) @ self.key.mT
        if self.bias is not None:
            scores = scores + self.bias
        return scores if self.shift is None else scores + self.shift


@dataclass(frozen=True, eq=False)
class AdditiveForm:
    """v · tanh(q + k): query (…, T, D), key (…, S, D), weight (D,), or (H, D) with one v per head."""

    query: Tensor
    key: Tensor
    weight: Tensor

    def bend(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def scores(self) -> Tensor:
        hidden = self.bend(self.query.unsqueeze(-2) + self.key.unsqueeze(-3))  # (…, T, S, D)
        weight = self.weight if self.weight.ndim == 1 else self.weight[:, None, :, None]
        return hidden @ weight if self.weight.ndim == 1 else (hidden @ weight).squeeze(-1)


@dataclass(frozen=True, eq=False)
class LeakyForm(AdditiveForm):
    """v · LeakyReLU(q + k), shaped as its parent."""

    slope: float = 0.2

    def bend(self, x: Tensor) -> Tensor:
        return leaky_relu(x, self.slope)


@dataclass(frozen=True, eq=False)
class SplitForm:
    """LeakyReLU(q + k) of one number for each query, (…, T, 1), and one for each key, (…, S, 1)."""

    query: Tensor
    key: Tensor
    slope: float = 0.2

    def scores(self) -> Tensor:
        return leaky_relu(self.query + self.key.mT, self.slope)
