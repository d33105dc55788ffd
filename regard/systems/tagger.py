"""A tagger: words are encoded, and all tags of a sentence are chosen together.

Lample et al. 2016, *Neural Architectures for Named Entity Recognition* (arXiv:1603.01360), with characters by filters
as Ma & Hovy 2016 (arXiv:1603.01354).

A word is [E[word]; its shape; filters over its characters]. Two LSTMs, one from each side, read the sentence, or
(``encoder="transformer"``) the layers of BERT: softmax(Q Kᵀ / √d) V with queries, keys and values all from the
sentence. A linear layer of tanh(W h) scores the tags of each word. A conditional random field chooses all tags of a
sentence together (``crf``); without it each word's tag is chosen alone. The Transformer's embeddings and layers have
the names of BERT's, so that ``init`` in [train] finds them; it then reads BERT's tokens, and a word is the first of its
tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import masks
from regard._settings import at_least
from regard.layers import text, words
from regard.layers.crf import Crf
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bidirectional
from regard.layers.transformer import Embedding, Encoder, LayerConfig, initialize
from regard.layers.use import Use

ENCODERS = ("lstm", "transformer")


@dataclass(frozen=True)
class Config:
    """Sizes and choices."""

    vocab: int
    tags: int
    alphabet: int
    """Kinds of characters."""
    outside: int = -1
    """The tag of words that are part of no entity; −1 if there is none."""
    margin: float = 0.0
    """Added in training to the score of that tag where it is wrong; a larger margin raises the recall of entities."""
    encoder: str = "lstm"
    embedding: int = 100
    """Width of a word, for LSTMs."""
    filters: int = 50
    """Filters of the convolution over the characters of a word; 0 for none."""
    hidden: int = 200
    """Width of each LSTM, or of the layer within a Transformer's."""
    joint: int = 100
    """Width of the layer before the tags."""
    crf: bool = True
    dropout: float = 0.5
    word_dropout: float = 0.05
    """Share of the words that are replaced by the unknown word in the training of LSTMs."""
    longest: int = 99
    """Tokens that a Transformer reads at once."""
    dim: int = 192
    heads: int = 6
    layers: int = 4
    norm: str = "pre"
    activation: str = "gelu"
    positions: str = "learned"

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise ValueError(f"encoder is one of {', '.join(ENCODERS)}, not {self.encoder!r}")
        LayerConfig.of(self)  # an error should come now
        at_least(self, "embedding", "hidden", "joint", "longest", "dim", "heads", "layers", filters=0, margin=0)
        text.check_share("word_dropout", self.word_dropout)


class Tagger(nn.Module):
    """Words in, tags out; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "encoder.layers.*.own": Use(
            *("word x Wᑫ", "words x Wᴷ", "words x Wⱽ", "scaled dot, many heads"), rows="words", columns="words"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        if config.encoder == "lstm":
            self.uses = {}  # no attention
            self.features = words.WordFeatures(
                *(config.vocab, config.embedding, config.alphabet, config.filters),
                dropout=config.dropout,
                word_dropout=config.word_dropout,
            )
            self.encoder: nn.Module = Bidirectional(self.features.width, config.hidden)
            width = 2 * config.hidden
        else:
            self.embedding = Embedding(
                *(config.vocab, config.dim, config.dropout),
                kind=config.positions,
                longest=config.longest,
                segments=2,
                norm=config.norm == "post",
            )
            self.encoder = Encoder(LayerConfig.of(config), config.layers)
            initialize(self, config.layers)
            self.spelling = words.Spelling(config.alphabet, config.filters)
            width = config.dim + self.spelling.width
        self.dropout = Dropout(config.dropout)
        self.joint = nn.Linear(width, config.joint)
        self.output = nn.Linear(config.joint, config.tags)
        self.crf = Crf(config.tags) if config.crf else None

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of ``tags`` (B, W)."""
        scores, lengths, tags = self._scores(batch), batch["lengths"], batch["tags"]
        if self.training:
            scores = words.with_margin(scores, tags, self.config.outside, self.config.margin)
        if self.crf is not None:
            # Searching for the best tags takes as long as learning from them; in training each word's own will do.
            best_tags = scores.argmax(-1) if self.training else self.crf.best(scores, lengths)
            return words.tag_means(self.crf(scores, tags, lengths), best_tags, batch)
        losses = functional.cross_entropy(scores.transpose(1, 2), tags, reduction="none") * words.real(batch)
        return words.tag_means(losses, scores.argmax(-1), batch)

    def predict(self, batch: text.Batch) -> Tensor:
        """(B, W): the tags."""
        scores = self._scores(batch)
        return scores.argmax(-1) if self.crf is None else self.crf.best(scores, batch["lengths"])

    def probabilities(self, batch: text.Batch) -> Tensor:
        """(B, W, K): of each tag of each word, whatever the others are; 0 behind the end."""
        scores = self._scores(batch)
        return words.shares(scores, batch) if self.crf is None else self.crf.marginals(scores, batch["lengths"])

    def _scores(self, batch: text.Batch) -> Tensor:
        """(B, W, K)."""
        if self.config.encoder == "lstm":
            hidden, _ = self.encoder(self.features(batch), batch["lengths"])
        else:
            tokens = self.encoder(self.embedding(batch["source"]), masks.lengths(batch["source_lengths"]))
            hidden = tokens.gather(1, batch["places"][..., None].expand(-1, -1, tokens.shape[-1]))
            hidden = torch.cat([hidden, self.spelling(batch)], -1)
        return self.output(torch.tanh(self.joint(self.dropout(hidden))))
