"""Sentences as counts of their words, so that any number of embeddings can be applied to them afterwards.

Encoding a sentence as the weighted sum of its words' embeddings is linear: Σⱼ lⱼ ⊙ A xⱼ = Wᵀ φ, where φ counts words
and W = [A; −(k/d) ⊙ A] (see :func:`position_weights`). φ is written once for all embeddings, hops and models.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def count_words(ids: Tensor, words: int, ages: Tensor | None = None, *, position: bool, out: Tensor) -> Tensor:
    """φ (…, 2V), or (…, 2V + L) with ages, of sentences (…, J) of word ids, added to ``out``, which holds zeros.

    With ``position``, word j of J counts 2 (1 − j/J) in the first V entries and 2 (1 − 2j/J) in the second, otherwise 1
    in the first. Padding counts as word 0. An age (…,) counts 1 at its place behind them.
    """
    length = (ids > 0).sum(-1, keepdim=True).clamp(min=1)
    place = torch.arange(1, ids.shape[-1] + 1, device=ids.device, dtype=out.dtype) / length
    if position:
        index, value = [ids, ids + words], [2.0 - 2.0 * place, 2.0 - 4.0 * place]
    else:
        index, value = [ids], [torch.ones_like(place)]
    if ages is not None:
        index, value = [*index, ages[..., None] + 2 * words], [*value, torch.ones_like(place[..., :1])]
    return out.scatter_add_(-1, torch.cat(index, -1), torch.cat(value, -1))


def position_weights(tables: Tensor) -> Tensor:
    """Embeddings (…, V − 1, D) of the words but the null word 0 → W (…, 2V, D) of the module's docstring."""
    dim = tables.shape[-1]
    null = tables.new_zeros(*tables.shape[:-2], 1, dim)
    by_place = torch.arange(1, dim + 1, device=tables.device, dtype=tables.dtype) / -dim
    return torch.cat([null, tables, null, tables * by_place], -2)


def ages(exists: Tensor, noise: float, oldest: Tensor) -> Tensor:
    """(…, S): how far back each sentence is, the newest first; with ``noise`` as if up to that share of empty sentences
    had been said in between, but never more than ``oldest`` (…, 1)."""
    plain = torch.arange(exists.shape[-1], device=exists.device).expand(exists.shape)
    most = math.ceil(noise * exists.shape[-1])
    if not most:
        return plain
    lengths = exists.sum(-1, keepdim=True)
    limit = (lengths * noise).ceil() + 1
    blanks = torch.rand(lengths.shape, device=exists.device) * limit
    places = torch.rand(*exists.shape[:-1], most, device=exists.device) * (lengths + 1)
    places = places.floor().masked_fill(torch.arange(1, most + 1, device=exists.device) > blanks, math.inf)
    before = (places[..., None, :] <= plain[..., None]).sum(-1)
    return torch.minimum(plain + before, oldest)
