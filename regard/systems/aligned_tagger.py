"""A decoder with aligned inputs writes one tag after another, each from the encoded word at its own place.

Liu & Lane 2016, *Attention-Based Recurrent Neural Network Models for Joint Intent Detection and Slot Filling*
(arXiv:1609.01454), section 3.1.

Two LSTMs read the sentence, h₁ … h_T. The decoder's state sᵢ follows from sᵢ₋₁, the tag before, the word at its own
place hᵢ (``aligned``), and the context cᵢ of the attention,

    eᵢⱼ = vᵀ tanh(W [sᵢ₋₁; hⱼ]),  α = softmax(e),  cᵢ = Σⱼ αᵢⱼ hⱼ,

and the tag is softmax(W [sᵢ; cᵢ]). Without ``aligned`` it must find its place by attention alone, as a translator does.
There are as many tags as words.

Deviation: slots alone, without the intent of the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text, words
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bidirectional
from regard.layers.use import Use
from regard.scores import Additive


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
    embedding: int = 100
    filters: int = 50
    """Filters of the convolution over the characters of a word; 0 for none."""
    hidden: int = 128
    """Width of each LSTM of the encoder; the decoder's is twice as wide."""
    attention: int = 100
    """Width of the score's tanh."""
    tag_embedding: int = 30
    """Width of the embedding of the previous tag."""
    aligned: bool = True
    """Does the decoder read the encoded word at its own place?"""
    dropout: float = 0.5
    word_dropout: float = 0.05
    """Share of the words that are replaced by the unknown word in training."""

    def __post_init__(self) -> None:
        at_least(self, "embedding", "hidden", "attention", "tag_embedding", filters=0, margin=0)
        text.check_share("word_dropout", self.word_dropout)


class AlignedTagger(nn.Module):
    """Words in, tags out one by one; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use("state sᵢ₋₁", "encoded words", "encoded words", "additive", rows="words", columns="words"),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.features = words.WordFeatures(
            *(config.vocab, config.embedding, config.alphabet, config.filters),
            dropout=config.dropout,
            word_dropout=config.word_dropout,
        )
        self.encoder = Bidirectional(self.features.width, config.hidden)
        width = 2 * config.hidden
        self.attention = regard.Attention(Additive(width, width, config.attention))
        self.tags = nn.Embedding(config.tags + 1, config.tag_embedding)  # the last stands before the first tag
        self.cell = nn.LSTMCell(config.tag_embedding + width * (2 if config.aligned else 1), width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(2 * width, config.tags)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of ``tags`` (B, W), each predicted after the right ones (teacher forcing)."""
        tags = batch["tags"]
        before = torch.cat([torch.full_like(tags[:, :1], self.config.tags), tags[:, :-1]], 1)
        state, scores = self._start(batch), []
        for place, tag in enumerate(before.unbind(1)):
            tag_scores, state = self._step(tag, place, state)
            scores.append(tag_scores)
        logits = torch.stack(scores, 1)  # (B, W, K)
        if self.training:
            logits = words.with_margin(logits, tags, self.config.outside, self.config.margin)
        losses = functional.cross_entropy(logits.transpose(1, 2), tags, reduction="none") * words.real(batch)
        return words.tag_means(losses, logits.argmax(-1), batch)

    def predict(self, batch: text.Batch) -> Tensor:
        """(B, W): the tags by greedy decoding."""
        state, tags = self._start(batch), []
        tag = torch.full_like(batch["lengths"], self.config.tags)
        for place in range(batch["places"].shape[1]):
            scores, state = self._step(tag, place, state)
            tag = scores.argmax(-1)
            tags.append(tag)
        return torch.stack(tags, 1)

    def _start(self, batch: text.Batch) -> dict[str, Any]:
        encoded, last = self.encoder(self.features(batch), batch["lengths"])
        memory = self.attention.remember(encoded, mask=masks.lengths(batch["lengths"]))
        return {"encoded": encoded, "memory": memory, "hidden": torch.tanh(last), "cell": torch.zeros_like(last)}

    def _step(self, tag: Tensor, place: int, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The scores (B, K) of the tag at a place, after the tag before it."""
        context = self.attention(state["hidden"][:, None], state["memory"]).context[:, 0]
        inputs = [self.tags(tag), context] + ([state["encoded"][:, place]] if self.config.aligned else [])
        hidden, cell = self.cell(torch.cat(inputs, -1), (state["hidden"], state["cell"]))
        scores = self.output(self.dropout(torch.cat([hidden, context], -1)))
        return scores, {**state, "hidden": hidden, "cell": cell}
