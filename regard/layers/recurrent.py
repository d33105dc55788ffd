"""Recurrent encoders over padded sequences."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def flip(sequence: Tensor, lengths: Tensor) -> Tensor:
    """(B, S, …) with the first ``lengths[b]`` entries of each item in reverse order, and padding where it was."""
    places = torch.arange(sequence.shape[1], device=sequence.device).expand(sequence.shape[0], -1)
    index = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    index = index.reshape(*index.shape, *(1,) * (sequence.ndim - 2)).expand_as(sequence)
    return sequence.gather(1, index)


def both_ways(forwards: nn.RNNBase, backwards: nn.RNNBase, sequence: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The states of two recurrent layers, (B, S, hidden) each: one reads from the front, the other from the end of
    each item."""
    ahead, _ = forwards(sequence)
    behind, _ = backwards(flip(sequence, lengths))
    return ahead, flip(behind, lengths)


def packed(recurrent: nn.RNNBase, sequence: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A stack of recurrent layers over items of different lengths: all top states (B, S, hidden), and the last state of
    each layer after the end of its item, a tuple of (layers, B, hidden)."""
    packed_sequence = pack_padded_sequence(sequence, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, last = recurrent(packed_sequence)
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=sequence.shape[1])
    return padded, last if isinstance(last, tuple) else (last,)


class Bidirectional(nn.Module):
    """Two LSTMs: (B, S, width) → y = [→y; ←y] (B, S, 2 hidden), and the last state of each direction (B, 2 hidden)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.forwards = nn.LSTM(width, hidden, batch_first=True)
        self.backwards = nn.LSTM(width, hidden, batch_first=True)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.data.chunk(4):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:
                    parameter.data[hidden : 2 * hidden].fill_(1.0)  # the forget gate: at first it remembers

    def forward(self, sequence: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        ahead, behind = both_ways(self.forwards, self.backwards, sequence, lengths)
        return torch.cat([ahead, behind], -1), torch.cat([at(ahead, lengths - 1), behind[:, 0]], -1)


def at(rows: Tensor, places: Tensor) -> Tensor:
    """Row ``places[b]`` of each (B, S, width) → (B, width)."""
    return rows[torch.arange(len(rows), device=rows.device), places]
