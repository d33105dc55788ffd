"""Words as taggers see them: an embedding of each, and what its characters say.

A batch has ``source`` (B, S), tokens, with ``places`` (B, W), the token with which each word begins; ``lengths`` (B,),
the number of words; and ``characters`` (B, W, C), those of each word, 0 behind its end.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import text
from regard.layers.dropout import Dropout

SPAN = 3
"""Characters that a filter sees at once."""


class Characters(nn.Module):
    """The strongest answer of each filter along a word: (B, W, C) → (B, W, filters). Ma & Hovy 2016
    (arXiv:1603.01354)."""

    def __init__(self, alphabet: int, filters: int, dim: int = 25):
        super().__init__()
        self.letters = nn.Embedding(alphabet, dim, padding_idx=text.PAD)
        self.filters = nn.Conv1d(dim, filters, SPAN, padding=SPAN - 1)

    def forward(self, characters: Tensor) -> Tensor:
        rows = self.letters(characters.flatten(0, 1)).transpose(1, 2)  # (B·W, dim, C)
        found = self.filters(rows)  # (B·W, filters, C + 2)
        # Where all that a filter sees is padding, it answers its bias; how much padding there is must not matter.
        length = (characters.flatten(0, 1) > 0).sum(-1)
        there = torch.arange(found.shape[-1], device=found.device) < length[:, None] + SPAN - 1
        strongest = found.masked_fill(~there[:, None], float("-inf")).amax(-1)
        return strongest.unflatten(0, characters.shape[:2])


class WordFeatures(nn.Module):
    """Embeddings of words, and beside them what their characters say: (B, W, embedding + filters)."""

    def __init__(self, vocab: int, embedding: int, alphabet: int, filters: int, dropout: float, word_dropout: float):
        super().__init__()
        self.words = nn.Embedding(vocab, embedding, padding_idx=text.PAD)
        text.initialize(self.words, 0.1)
        self.characters = Characters(alphabet, filters) if filters else None
        self.dropout, self.word_dropout = Dropout(dropout), word_dropout
        self.width = embedding + filters

    def forward(self, batch: text.Batch) -> Tensor:
        tokens = batch["source"].gather(1, batch["places"])
        if self.training and self.word_dropout:
            lost = (torch.rand(tokens.shape, device=tokens.device) < self.word_dropout) & (tokens > text.UNKNOWN)
            tokens = tokens.masked_fill(lost, text.UNKNOWN)
        x = self.words(tokens)
        if self.characters is not None:
            x = torch.cat([x, self.characters(batch["characters"])], -1)
        return self.dropout(x)


def real(batch: text.Batch) -> Tensor:
    """(B, W): where there is a word."""
    return torch.arange(batch["places"].shape[1], device=batch["places"].device) < batch["lengths"][:, None]


def tag_means(each: Tensor, chosen: Tensor, batch: text.Batch) -> dict[str, Tensor]:
    """What a tagger tells: means over words of its loss, ``each`` item's or word's, and of tags that are right."""
    there = real(batch)
    count = there.sum()
    share = 1 / count.clamp_min(1)
    right = ((chosen == batch["tags"]) & there).sum()
    loss = each.sum() * share
    return {"loss": loss, "nll": loss.detach(), "accuracy": right * share, "count": count}
