"""Features of words for taggers: an embedding of each word, of its shape, and filters over its characters.

A batch has ``source`` (B, S), tokens, with ``places`` (B, W), the token with which each word begins; ``lengths`` (B,),
the number of words; ``characters`` (B, W, C), those of each word, 0 behind its end; and ``shapes`` (B, W), what
kind of word it looks like, a number below :data:`SHAPES`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import text
from regard.layers.dropout import Dropout

SHAPES, SHAPE_WIDTH = 8, 10
"""Kinds of words by their look, and the width of their embeddings."""
SPAN = 3
"""Characters that a filter sees at once."""


class Characters(nn.Module):
    """The strongest response of each filter along a word: (B, W, C) → (B, W, filters). Ma & Hovy 2016
    (arXiv:1603.01354)."""

    def __init__(self, alphabet: int, filters: int, dim: int = 25):
        super().__init__()
        self.letters = nn.Embedding(alphabet, dim, padding_idx=text.PAD)
        self.filters = nn.Conv1d(dim, filters, SPAN, padding=SPAN - 1)

    def forward(self, characters: Tensor) -> Tensor:
        rows = self.letters(characters.flatten(0, 1)).transpose(1, 2)  # (B·W, dim, C)
        responses = self.filters(rows)  # (B·W, filters, C + 2)
        # A filter that sees only padding responds with its bias; how much padding there is must not matter.
        length = (characters.flatten(0, 1) > 0).sum(-1)
        valid = torch.arange(responses.shape[-1], device=responses.device) < length[:, None] + SPAN - 1
        strongest = responses.masked_fill(~valid[:, None], float("-inf")).amax(-1)
        return strongest.unflatten(0, characters.shape[:2])


class Spelling(nn.Module):
    """How words are written: an embedding of their shape, and filters over their characters: (B, W, width)."""

    def __init__(self, alphabet: int, filters: int):
        super().__init__()
        self.shapes = nn.Embedding(SHAPES, SHAPE_WIDTH)
        self.characters = Characters(alphabet, filters) if filters else None
        self.width = SHAPE_WIDTH + filters

    def forward(self, batch: text.Batch) -> Tensor:
        shapes = self.shapes(batch["shapes"])
        return shapes if self.characters is None else torch.cat([shapes, self.characters(batch["characters"])], -1)


class WordFeatures(nn.Module):
    """Embeddings of words with their :class:`Spelling` appended: (B, W, width)."""

    def __init__(self, vocab: int, embedding: int, alphabet: int, filters: int, dropout: float, word_dropout: float):
        super().__init__()
        self.words = nn.Embedding(vocab, embedding, padding_idx=text.PAD)
        text.initialize(self.words, 0.1)
        self.spelling = Spelling(alphabet, filters)
        self.dropout, self.word_dropout = Dropout(dropout), word_dropout
        self.width = embedding + self.spelling.width

    def forward(self, batch: text.Batch) -> Tensor:
        tokens = batch["source"].gather(1, batch["places"])
        if self.training:
            tokens = text.without_words(tokens, self.word_dropout)
        return self.dropout(torch.cat([self.words(tokens), self.spelling(batch)], -1))


def real(batch: text.Batch) -> Tensor:
    """(B, W): where there is a word."""
    return torch.arange(batch["places"].shape[1], device=batch["places"].device) < batch["lengths"][:, None]


def shares(scores: Tensor, batch: text.Batch) -> Tensor:
    """(B, W, K): the probability of each tag of each word alone; 0 behind the end."""
    return scores.softmax(-1) * real(batch)[..., None]


def tag_means(each: Tensor, chosen: Tensor, batch: text.Batch) -> dict[str, Tensor]:
    """What a tagger returns: means over words of its loss, ``each`` item's or word's, and of tags that are right."""
    real_words = real(batch)
    count = real_words.sum()
    share = 1 / count.clamp_min(1)
    right = ((chosen == batch["tags"]) & real_words).sum()
    loss = each.sum() * share
    return {"loss": loss, "nll": loss.detach(), "accuracy": right * share, "count": count}


def with_margin(scores: Tensor, tags: Tensor, outside: int, margin: float) -> Tensor:
    """Scores (B, W, K) with ``margin`` added to the tag ``outside`` of words that are part of an entity: calling them
    outside is then the mistake that costs most, and more entities are found (softmax-margin, Gimpel & Smith 2010; for
    recall, Mohit et al. 2012)."""
    if outside < 0 or not margin:
        return scores
    added = torch.zeros_like(scores)
    added[..., outside] = margin * (tags != outside).to(scores.dtype)
    return scores + added
