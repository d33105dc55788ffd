from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.kernels.forms import lift
from regard.normalizers._masked import masked_softmax
from regard.parts import Refiner

if TYPE_CHECKING:
    from regard.memory import Memory


class ShiftSharpen(Refiner):
    """The location-based addressing of the Neural Turing Machine. Graves, Wayne & Danihelka 2014 (arXiv:1410.5401),
    eqs. 7-9.

    w_g = g w + (1 − g) w₋₁ (interpolate with the previous weights, the state), w̃ = w_g ∗ s (rotate), w = w̃^γ / Σ w̃^γ
    (sharpen). The rotation runs round the allowed keys, so that padding changes nothing.
    Shapes: weights (…, T, S); state (…, S); at the call ``gate`` (…, T) in [0, 1], ``shift`` (…, T, K) with K odd, a
    distribution over rotations by −K//2 … K//2, ``sharpen`` (…, T) ≥ 1.
    """

    equation = "((g α + (1 − g) α₋₁) ∗ s)^γ / Σ"
    paper = "Graves 2014 (NTM)"
    example = (
        'attention = regard.Attention("cosine", refiner="shift_sharpen")\n'
        "how = {'gate': torch.rand(2, 1), 'shift': torch.eye(3)[:1].expand(2, 1, 3), 'sharpen': torch.ones(2, 1)}\n"
        "out = attention(torch.randn(2, 1, 20), torch.randn(2, 128, 20), **how)"
    )
    needs = ("state", "gate", "shift", "sharpen")
    positional = True
    parallel = False

    def start(self, memory: Memory) -> Tensor:
        """All attention on the first allowed key."""
        allowed = memory.allowed()
        return (allowed & (allowed.cumsum(-1) == 1)).to(memory.value.dtype)

    def forward(
        self, weights: Tensor, mask: Tensor | None, *, state: Tensor, gate: Tensor, shift: Tensor, sharpen: Tensor
    ) -> Tensor:
        if shift.shape[-1] % 2 == 0:
            raise ValueError(f"shift is a distribution over an odd number of rotations, not {shift.shape[-1]}")
        gate = gate.unsqueeze(-1)
        gated = gate * weights + (1 - gate) * state.unsqueeze(-2)
        rotated = lift(_rotate(gated, shift, mask))
        if rotated.shape[-1] == 0:
            return weights
        # w^γ / Σ w^γ as a softmax of γ log w, which neither overflows nor divides by zero; it is free of scale.
        least = torch.finfo(rotated.dtype).tiny
        best = rotated.detach().amax(dim=-1, keepdim=True)
        # Where even the best weight is next to nothing, as after a sigmoid, the slope 1/w would overflow: it gets none.
        relative = torch.where(best < 2**10 * least, rotated.detach(), rotated) / best.clamp_min(least)
        sharpened = masked_softmax(sharpen.unsqueeze(-1) * relative.clamp_min(1e-16).log(), mask)
        return sharpened.to(weights.dtype)


def _rotate(weights: Tensor, shift: Tensor, mask: Tensor | None) -> Tensor:
    """Σ_j shift_j · (weights moved j places round the allowed keys), (…, T, S)."""
    reach = shift.shape[-1] // 2
    moves = range(-reach, reach + 1)
    if mask is None:
        moved = [weights.roll(move, dims=-1) for move in moves]
    else:
        allowed = mask.expand_as(weights)
        count = allowed.sum(-1, keepdim=True).clamp_min(1)
        order = torch.argsort((~allowed).to(torch.uint8), dim=-1, stable=True)  # allowed keys first, in their order
        rank = allowed.cumsum(-1) - 1
        moved = [weights.gather(-1, order.gather(-1, (rank - move) % count)) for move in moves]
    return (torch.stack(moved, dim=-1) * shift.unsqueeze(-2)).sum(-1)
