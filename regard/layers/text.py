"""What every system that reads and writes tokens shares: the batch, the reserved ids, the loss.

A batch is a dict of tensors, batch first: ``source`` (B, S) and ``source_lengths`` (B,); for training also ``target``
(B, T + 1), from bos to eos, and ``target_lengths`` (B,), the number T of tokens to predict. Padding is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.cross_entropy import cross_entropy
from regard.layers.sampled import sampled_cross_entropy

Batch = Mapping[str, Tensor]
PAD, BOS, EOS, UNKNOWN = range(4)


def inputs(batch: Batch) -> Tensor:
    """(B, T): what the decoder reads, the target without its last token."""
    return batch["target"][:, :-1]


def limit(batch: Batch) -> Tensor:
    """(B,): the longest answer, in tokens: the source's length and 50 more."""
    return batch["source_lengths"] + 50


def last_of_prompt(batch: Batch) -> Tensor | None:
    """(B,): the last token of ``prompt`` (B, P), which a language model is fed first; None, that is bos, if there is no
    prompt."""
    prompt = batch.get("prompt")
    return None if prompt is None else prompt[:, -1]


def continuation(batch: Batch, longest: int) -> Tensor:
    """(B,): the most tokens that a language model may add: ``wanted`` (B,) of the batch, or else ``longest``."""
    if "wanted" in batch:
        return batch["wanted"]
    tokens = batch.get("prompt", batch.get("target"))
    assert tokens is not None
    return torch.full((len(tokens),), longest, device=tokens.device)


def initialize(words: nn.Embedding, spread: float) -> None:
    """Embeddings from a normal distribution of standard deviation ``spread``; padding stays 0."""
    if spread < 0:
        raise ValueError(f"spread, a standard deviation, is at least 0, not {spread}")
    with torch.no_grad():
        words.weight.normal_(std=spread)[PAD] = 0


def check_share(name: str, share: float) -> None:
    """For a Config: refuse a share of words that is not below 1."""
    if not 0 <= share < 1:
        raise ValueError(f"{name} = {share}: a share from 0 to less than 1")


def without_words(tokens: Tensor, share: float) -> Tensor:
    """Tokens of which a ``share``, chosen at random, is unknown; reserved ones stay."""
    if not share:
        return tokens
    lost = (torch.rand(tokens.shape, device=tokens.device) < share) & (tokens > UNKNOWN)
    return tokens.masked_fill(lost, UNKNOWN)


def loss(
    hidden: Tensor, output: nn.Linear, batch: Batch, smoothing: float = 0.0, *, sampled: int = 0
) -> dict[str, Tensor]:
    """Cross-entropy of (B, T, D) decoder states, means over the target's tokens; logits are computed only where there
    is one, and with ``sampled`` only of that many words (:mod:`regard.layers.sampled`)."""
    target = batch["target"][:, 1:]
    real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]  # (B, T)
    if 0 < sampled < output.out_features:
        entropy = sampled_cross_entropy(hidden[real], output, target[real], sampled)
    else:
        entropy = cross_entropy(hidden[real], output, target[real], smoothing)
    count = real.sum()
    share = 1 / count.clamp_min(1)
    return {"loss": entropy.loss * share, "nll": entropy.nll * share, "accuracy": entropy.right * share, "count": count}


def class_loss(logits: Tensor, label: Tensor, smoothing: float = 0.0) -> dict[str, Tensor]:
    """Cross-entropy of classes (B, C), means over the items."""
    loss = functional.cross_entropy(logits, label, label_smoothing=smoothing)
    nll = functional.cross_entropy(logits.detach(), label)
    right = (logits.argmax(-1) == label).float().mean()
    return {"loss": loss, "nll": nll, "accuracy": right, "count": torch.tensor(len(label), device=label.device)}


def joined(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    """What is read as one sequence: tokens (B, S), their lengths (B,), and the segment of each (B, S). A pair has its
    second sentence in ``second`` (B, S₂) and ``second_lengths``; it follows the first, as segment 1."""
    first, lengths = batch["source"], batch["source_lengths"]
    if "second" not in batch:
        return first, lengths, batch.get("segments")
    second, more = batch["second"], batch["second_lengths"]
    places = torch.arange(int((lengths + more).max()), device=first.device).expand(len(first), -1)
    behind = places - lengths[:, None]
    first_tokens = first.gather(1, places.clamp(max=first.shape[1] - 1))
    second_tokens = second.gather(1, behind.clamp(0, second.shape[1] - 1))
    in_second = (behind >= 0) & (behind < more[:, None])
    tokens = torch.where(behind < 0, first_tokens, torch.where(in_second, second_tokens, PAD))
    return tokens, lengths + more, in_second.long()


def log_probs(hidden: Tensor, output: nn.Linear, batch: Batch) -> Tensor:
    """(B, T): the log-probability of each of the target's tokens by (B, T, D) decoder states; 0 where there is none."""
    target = batch["target"][:, 1:]
    real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]
    logits = output(hidden[real])
    token_log_prob = torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
    token_log_prob = token_log_prob.gather(-1, target[real][:, None])[:, 0]
    return hidden.new_zeros(target.shape, dtype=token_log_prob.dtype).masked_scatter(real, token_log_prob)
