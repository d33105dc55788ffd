"""What every system that reads and writes tokens shares: the batch, the reserved ids, the loss.

A batch is a dict of tensors, batch first: ``source`` (B, S) and ``source_lengths`` (B,); for training also ``target``
(B, T + 1), from bos to eos, and ``target_lengths`` (B,), the number T of tokens to predict. Padding is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Batch = Mapping[str, Tensor]
PAD, BOS, EOS, UNKNOWN = range(4)


def inputs(batch: Batch) -> Tensor:
    """(B, T): what the decoder reads, the target without its last token."""
    return batch["target"][:, :-1]


def loss(hidden: Tensor, output: Callable[[Tensor], Tensor], batch: Batch, smoothing: float = 0.0) -> dict[str, Tensor]:
    """Cross-entropy of (B, T, D) decoder states, means over the target's tokens.

    Logits are computed only where there is a target, and label smoothing (Szegedy et al. 2015, arXiv:1512.00567)
    needs no dense one: (1 − ε) · nll + ε · the mean over the vocabulary.
    """
    target = batch["target"][:, 1:]
    real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]  # (B, T)
    wanted = target[real]  # (N,)
    log_prob = torch.log_softmax(output(hidden[real]).float(), dim=-1)  # (N, V)
    each = -log_prob.gather(-1, wanted[:, None]).squeeze(-1)
    count = real.sum()
    nll = each.sum() / count.clamp_min(1)
    total = nll
    if smoothing:
        spread = -log_prob.mean(-1).sum() / count.clamp_min(1)
        total = (1 - smoothing) * nll + smoothing * spread
    right = (log_prob.detach().argmax(-1) == wanted).sum() / count.clamp_min(1)
    return {"loss": total, "nll": nll.detach(), "accuracy": right, "count": count}


def flip(sequence: Tensor, lengths: Tensor) -> Tensor:
    """(B, S, …) with the first ``lengths[b]`` entries of each item in reverse order, and padding where it was."""
    places = torch.arange(sequence.shape[1], device=sequence.device).expand(sequence.shape[0], -1)
    index = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    index = index.reshape(*index.shape, *(1,) * (sequence.ndim - 2)).expand_as(sequence)
    return sequence.gather(1, index)
