"""What every system that reads and writes tokens shares: the batch, the reserved ids, the loss.

A batch is a dict of tensors, batch first: ``source`` (B, S) and ``source_lengths`` (B,); for training also ``target``
(B, T + 1), from bos to eos, and ``target_lengths`` (B,), the number T of tokens to predict. Padding is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.layers.cross_entropy import cross_entropy

Batch = Mapping[str, Tensor]
PAD, BOS, EOS, UNKNOWN = range(4)


def inputs(batch: Batch) -> Tensor:
    """(B, T): what the decoder reads, the target without its last token."""
    return batch["target"][:, :-1]


def limit(batch: Batch) -> Tensor:
    """(B,): the longest answer, in tokens: the source's length and 50 more."""
    return batch["source_lengths"] + 50


def initialize(words: nn.Embedding, spread: float) -> None:
    """Embeddings from a normal distribution of standard deviation ``spread``; padding stays 0."""
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


def log_probs(hidden: Tensor, output: nn.Linear, batch: Batch) -> Tensor:
    """(B, T): the log-probability of each of the target's tokens by (B, T, D) decoder states; 0 where there is none."""
    target = batch["target"][:, 1:]
    real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]
    each = torch.log_softmax(output(hidden[real]).float(), -1).gather(-1, target[real][:, None])[:, 0]
    return hidden.new_zeros(target.shape, dtype=each.dtype).masked_scatter(real, each)
