"""Importance-sampled softmax: training over a small part of a large vocabulary.

Jean, Cho, Memisevic & Bengio 2015, *On Using Very Large Target Vocabulary for Neural Machine Translation*
(arXiv:1412.2007), section 3.2. The training text is divided into partitions, and a partition scores only a subset V′ of
the vocabulary, |V′| = τ, which holds every word of its targets; the sum over the vocabulary is estimated from it:

    log p(y) ≈ e_y − log Σ_{k ∈ V′} exp(e_k − log Q(k)),     e = W h + b

A batch is a partition here. Its own words are in V′ for certain, Q = 1; the other places of V′ are drawn uniformly from
the rest of the vocabulary without replacement, so that Q = (τ − n) / (V − n) for n words of the batch, and Z, the sum
inside the logarithm, has the right mean.

Deviation: the paper's partitions span many batches, and its Q is uniform over V′, with which Q cancels and Z is always
too small; that pays with partitions of tens of thousands of words, and costs perplexity with small ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.layers.cross_entropy import Entropy, cross_entropy_of


def check(size: int, smoothing: float) -> None:
    """Of a Config: τ, or 0 for the whole vocabulary, and no label smoothing beside it, whose mean over the vocabulary a
    sample does not have."""
    if size < 0:
        raise ValueError(f"sampled, words to score in training, is at least 0, not {size}")
    if size and smoothing:
        raise ValueError(f"sampled = {size} goes with label_smoothing = 0, not {smoothing}")


def sampled_cross_entropy(rows: Tensor, output: nn.Linear, wanted: Tensor, size: int) -> Entropy:
    """Of rows (N, D) where ``wanted`` (N,) is right, over ``size`` words of ``output``'s vocabulary; all sums are
    estimates, ``right`` from above. More words than that are scored if the batch holds more."""
    kinds, places = wanted.unique(return_inverse=True)
    negatives = draw(kinds, output.out_features, size - len(kinds))
    words = torch.cat([kinds, negatives])
    bias = rows.new_zeros(len(words)) if output.bias is None else output.bias[words]
    if len(negatives):
        share = len(negatives) / (output.out_features - len(kinds))
        bias = torch.cat([bias[: len(kinds)], bias[len(kinds) :] - math.log(share)])
    return cross_entropy_of(rows, output.weight[words], bias, places)


def draw(kinds: Tensor, vocab: int, count: int) -> Tensor:
    """(count,) words that are not among ``kinds``, each as likely as the other; all there are, if fewer."""
    others = torch.ones(vocab, dtype=torch.bool, device=kinds.device)
    others[kinds] = False
    rest = others.nonzero()[:, 0]
    return rest[torch.randperm(len(rest), device=kinds.device)[: max(count, 0)]]
