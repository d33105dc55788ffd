"""Recurrent encoders of long sequences such as sound, some layers of which read two steps of the layer below at once.

Chan et al. 2015 (arXiv:1508.01211), eq. 5: hᵢʲ = pBLSTM(hᵢ₋₁ʲ, [h₂ᵢʲ⁻¹; h₂ᵢ₊₁ʲ⁻¹]). Each such layer halves the number
of steps, so that attention has few of them to choose from, and gradients short ways.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.dropout import Dropout
from regard.layers.recurrent import both_ways

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class Listener(nn.Module):
    """Bidirectional layers over (B, S, features): states (B, ⌈S / factor⌉, 2 hidden) and their lengths.

    Args:
        features: width of a frame.
        hidden: of each direction.
        layers: all of them.
        halvings: how many of them, the uppermost, read pairs of steps.
        join: frames that the lowest layer reads at once.
        cell: ``lstm`` or ``gru``.
        dropout: of what each layer but the first reads, and of the states.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        layers: int,
        halvings: int,
        join: int = 1,
        cell: str = "lstm",
        dropout: float = 0.0,
    ):
        super().__init__()
        if layers < 1 or not 0 <= halvings <= layers or join < 1:
            raise ValueError(
                f"a listener has at least one layer, of which some halve, and joins frames: not layers={layers}, "
                f"halvings={halvings}, join={join}"
            )
        self.joins = [join] + [1] * (layers - 1)
        for layer in range(layers - halvings, layers):
            self.joins[layer] *= 2
        self.factor = math.prod(self.joins)
        self.width = 2 * hidden
        widths = [features] + [2 * hidden] * (layers - 1)
        cells = [
            [CELLS[cell](frames_joined * width, hidden, batch_first=True) for _ in range(2)]
            for frames_joined, width in zip(self.joins, widths)
        ]
        self.forwards = nn.ModuleList(pair[0] for pair in cells)
        self.backwards = nn.ModuleList(pair[1] for pair in cells)
        self.dropout = Dropout(dropout)
        self._initialize(hidden)

    def _initialize(self, hidden: int) -> None:
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.data.split(hidden):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
                if "bias_ih" in name and len(parameter) == 4 * hidden:
                    parameter.data[hidden : 2 * hidden].fill_(1.0)  # an LSTM remembers at first

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        states = frames
        for number, count in enumerate(self.joins):
            ahead, behind = cast(nn.RNNBase, self.forwards[number]), cast(nn.RNNBase, self.backwards[number])
            states, lengths = joined(states, lengths, count)
            states = torch.cat(both_ways(ahead, behind, states if number == 0 else self.dropout(states), lengths), -1)
        return self.dropout(states), lengths


def joined(states: Tensor, lengths: Tensor, many: int) -> tuple[Tensor, Tensor]:
    """(B, S, width) → (B, ⌈S / many⌉, many · width): neighbours side by side, zeros beyond the end of each item."""
    if many == 1:
        return states, lengths
    real = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
    states = functional.pad(states * real[..., None], (0, 0, 0, -states.shape[1] % many))
    return states.unflatten(1, (-1, many)).flatten(2), -(-lengths // many)


def shares(lengths: Tensor, size: int, factor: int) -> Tensor:
    """(B, size): which part of the weight of its step each of ``size`` frames gets, 0 beyond the end of an item."""
    places = torch.arange(size, device=lengths.device)
    first = places // factor * factor
    frames = torch.minimum(first + factor, lengths[:, None]) - first
    return torch.where(places < lengths[:, None], 1 / frames.clamp_min(1), 0.0)


def spread(weights: Tensor, share: Tensor, factor: int) -> Tensor:
    """Weights over steps (B, ⌈S / factor⌉) as weights over frames (B, S); ``share`` is that of :func:`shares`."""
    return weights.repeat_interleave(factor, -1)[..., : share.shape[-1]] * share
