"""What every system that reads and writes tokens shares: the batch, the reserved ids, the loss.

A batch is a dict of tensors, batch first: ``source`` (B, S) and ``source_lengths`` (B,); for training also ``target``
(B, T + 1), from bos to eos, and ``target_lengths`` (B,), the number T of tokens to predict. Padding is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.systems.parts.cross_entropy import cross_entropy

Batch = Mapping[str, Tensor]
PAD, BOS, EOS, UNKNOWN = range(4)


def inputs(batch: Batch) -> Tensor:
    """(B, T): what the decoder reads, the target without its last token."""
    return batch["target"][:, :-1]


def scatter(words: nn.Embedding, spread: float) -> None:
    """Normal word vectors of that standard deviation to begin with; padding stays 0."""
    if spread < 0:
        raise ValueError(f"spread, a standard deviation, is at least 0, not {spread}")
    with torch.no_grad():
        words.weight.normal_(std=spread)[PAD] = 0


def loss(hidden: Tensor, output: nn.Linear, batch: Batch, smoothing: float = 0.0) -> dict[str, Tensor]:
    """Cross-entropy of (B, T, D) decoder states, means over the target's tokens; logits are computed only where there
    is one."""
    target = batch["target"][:, 1:]
    real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]  # (B, T)
    found = cross_entropy(hidden[real], output, target[real], smoothing)
    count = real.sum()
    share = 1 / count.clamp_min(1)
    return {"loss": found.loss * share, "nll": found.nll * share, "accuracy": found.right * share, "count": count}


def flip(sequence: Tensor, lengths: Tensor) -> Tensor:
    """(B, S, …) with the first ``lengths[b]`` entries of each item in reverse order, and padding where it was."""
    places = torch.arange(sequence.shape[1], device=sequence.device).expand(sequence.shape[0], -1)
    index = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    index = index.reshape(*index.shape, *(1,) * (sequence.ndim - 2)).expand_as(sequence)
    return sequence.gather(1, index)
