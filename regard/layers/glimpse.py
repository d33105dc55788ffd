"""Glimpse network and recurrent core. Mnih, Heess, Graves & Kavukcuoglu 2014 (arXiv:1406.6247)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.glimpses import Retina

CORES = ("rnn", "lstm")


class GlimpseNetwork(nn.Module):
    """What is seen and where it was seen, as one vector: g = ReLU(W_g ReLU(V_g ρ(x, l)) + W_l ReLU(V_l l)).

    Shapes: location (B, 2), image (B, C, height, width) → (B, out).
    """

    def __init__(self, channels: int, size: int, scales: int, what: int, where: int, out: int):
        super().__init__()
        self.retina = Retina(size, scales)
        self.what = nn.Linear(channels * scales * size * size, what)
        self.where = nn.Linear(2, where)
        self.from_what = nn.Linear(what, out)
        self.from_where = nn.Linear(where, out)

    def forward(self, location: Tensor, image: Tensor) -> Tensor:
        patches = self.retina(location, image).context.flatten(1)
        what, where = torch.relu(self.what(patches)), torch.relu(self.where(location))
        return torch.relu(self.from_what(what) + self.from_where(where))


class Core(nn.Module):
    """What is remembered: h ← ReLU(W h + U g), or an LSTM. The state is (h,) or (h, c), each (B, hidden)."""

    def __init__(self, kind: str, inputs: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        if kind == "lstm":
            self.cell: nn.Module = nn.LSTMCell(inputs, hidden)
            with torch.no_grad():
                self.cell.bias_ih.unflatten(0, (4, -1))[1].fill_(1.0)  # at first it remembers
        else:
            self.cell = nn.RNNCell(inputs, hidden, nonlinearity="relu")
        self.kind = kind

    def start(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Zeros, for as many rows and of the kind of ``rows``."""
        zeros = rows.new_zeros(len(rows), self.hidden)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def forward(self, glimpse: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if self.kind == "lstm":
            hidden, cell = self.cell(glimpse, state)
            return hidden, cell
        return (self.cell(glimpse, state[0]),)


def check_images(image: Tensor, channels: int, height: int, width: int) -> None:
    """A ValueError unless these are images (B, channels, height, width)."""
    expected = (channels, height, width)
    if tuple(image.shape[1:]) != expected:
        raise ValueError(f"images are {tuple(image.shape)}, but the system is built for (B, {str(expected)[1:]}")
