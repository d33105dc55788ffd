"""BERT: a Transformer encoder that is trained to predict masked words, and then to classify.

Devlin et al. 2018, *BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding*
(arXiv:1810.04805).

Every layer looks at the whole text, softmax(Q Kᵀ / √d) V with queries, keys and values all from it. The input is
E[token] + P[position] + S[segment], where the second of two sentences is segment 1. What is learned depends on the
task: with ``classes`` = 0, masked tokens are predicted, softmax(E · LayerNorm(GELU(W h))) at the places where
``wanted`` is not 0, and, with ``pairs``, whether the second sentence followed the first, from tanh(W_p h₁) of the first
token; otherwise the class of a text, or of a pair, from the same vector.

A classifier that starts from such a model (``init`` in [train]) takes over embeddings and layers.

Deviation: the paper's ``norm`` is "post"; "pre" trains without a long warm-up. Positions may be ``rotary``. The loss of
the next sentence counts once for each masked token, so that both losses are means over tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.cross_entropy import cross_entropy
from regard.layers.dropout import Dropout
from regard.layers.transformer import Embedding, Encoder, LayerConfig, initialize
from regard.layers.use import Use


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are those of BERT base."""

    vocab: int
    longest: int = 512
    classes: int = 0
    """Number of classes; 0 trains a masked language model."""
    pairs: bool = False
    """Are there two sentences? Without classes, next-sentence prediction is then trained too."""
    dim: int = 768
    heads: int = 12
    hidden: int = 3072
    layers: int = 12
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: str = "post"
    activation: str = "gelu"
    positions: str = "learned"
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        LayerConfig.of(self)  # an error should come now
        at_least(self, "longest", "dim", "heads", "hidden", "layers", classes=0)


class Bert(nn.Module):
    """An encoder with the heads that a task needs; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "encoder.layers.*.own": Use(
            *("word x Wᑫ", "words x Wᴷ", "words x Wⱽ", "scaled dot, many heads"), rows="words", columns="words"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = Embedding(
            *(config.vocab, config.dim, config.dropout),
            kind=config.positions,
            longest=config.longest,
            segments=2,
            norm=config.norm == "post",
        )
        self.encoder = Encoder(LayerConfig.of(config), config.layers)
        if config.classes or config.pairs:
            self.pooler = nn.Linear(config.dim, config.dim)
            self.dropout = Dropout(config.dropout)
        if config.classes:
            self.classes = nn.Linear(config.dim, config.classes)
        else:
            self.transform = nn.Sequential(nn.Linear(config.dim, config.dim), nn.GELU(), nn.LayerNorm(config.dim))
            self.output = nn.Linear(config.dim, config.vocab)
        if config.pairs and not config.classes:
            self.follows = nn.Linear(config.dim, 2)
        initialize(self, config.layers)
        if not config.classes:
            self.output.weight = self.embedding.words.weight

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of masked tokens, or of ``label`` (B,)."""
        hidden = self._encode(batch)
        if self.config.classes:
            return text.class_loss(self._class_logits(hidden), batch["label"], self.config.label_smoothing)
        targets = batch["wanted"]  # (B, S), 0 where nothing is masked
        masked = targets > 0
        rows, smoothing = self.transform(hidden[masked]), self.config.label_smoothing
        sums = cross_entropy(rows, self.output, targets[masked], smoothing)
        count = masked.sum()
        share = 1 / count.clamp_min(1)
        out = {"loss": sums.loss * share, "nll": sums.nll * share, "accuracy": sums.right * share, "count": count}
        if self.config.pairs:
            logits, weight = self.follows(self._pooled(hidden)), masked.sum(1) * share
            pair_losses = functional.cross_entropy(logits, batch["follows"], reduction="none")
            right = (logits.argmax(-1) == batch["follows"]).float()
            out["loss"] = out["loss"] + (pair_losses * weight).sum()
            out |= {"next_nll": (pair_losses.detach() * weight).sum(), "next_accuracy": (right * weight).sum()}
        return out

    def predict(self, batch: text.Batch) -> Tensor:
        """(B, C): the probabilities of the classes."""
        return self._class_logits(self._encode(batch)).log_softmax(-1).exp()

    def restore(self, batch: text.Batch) -> Tensor:
        """(B, S, V): the log-probability of each token at each place."""
        return self.output(self.transform(self._encode(batch))).log_softmax(-1)

    def _encode(self, batch: text.Batch) -> Tensor:
        tokens, lengths, segments = text.joined(batch)
        return self.encoder(self.embedding(tokens, segments=segments), masks.lengths(lengths))

    def _pooled(self, hidden: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.pooler(hidden[:, 0])))

    def _class_logits(self, hidden: Tensor) -> Any:
        return self.classes(self._pooled(hidden))
