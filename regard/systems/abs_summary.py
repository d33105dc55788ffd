"""Attention-based summarization: a feed-forward language model whose last words attend to the text.

Rush, Chopra & Weston 2015, *A Neural Attention Model for Abstractive Sentence Summarization* (arXiv:1509.00685), ABS.

The next word is predicted by a neural language model (Bengio et al. 2003) of the last C words, and an encoder whose
attention has embeddings of the same words as its query:

    p(yᵢ₊₁ | y_c, x) ∝ exp(V h + W enc(x, y_c)),   ỹ_c = [E yᵢ₋C₊₁; …; E yᵢ],   h = tanh(U ỹ_c)     (eq. 2)
    p = softmax(x̃ P ỹ′_c)       query ỹ′_c = [G y]; key x̃ⱼ = F xⱼ; general score; softmax           (section 3.2)
    enc = pᵀ x̄,   x̄ⱼ = Σ_{q = j−Q}^{j+Q} x̃_q / Q                 value: the words around, smoothed

The value of a place is not its word but the mean of the words around it, so that a phrase can be read by aligning to
one of its words.

Deviations: the window is divided by the number of words in it, 2Q + 1 but at the ends, so that padding does not matter.
Dropout. The extractive tuning of ABS+ is not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, pad

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.use import Use
from regard.scores import General


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's.

    Attributes:
        vocab, longest: of the task: words, and tokens of the longest answer.
        embedding: D, width of words.
        hidden: H, width of the language model's hidden layer and of the source's words.
        context: C, words before the predicted one.
        smoothing: Q, words on either side in the mean that is a value.
        dropout: of words and of what the output layer sees.
        spread: standard deviation of the initial embeddings.
    """

    vocab: int
    longest: int = 100
    embedding: int = 200
    hidden: int = 400
    context: int = 5
    smoothing: int = 2
    dropout: float = 0.0
    spread: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, "longest", "embedding", "hidden", "context", smoothing=0)


class AbsSummary(nn.Module):
    """Language model and attention-based encoder; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("the last C words ỹ′_c", "source words x̃", "smoothed source words x̄", "general"),
            rows="written",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        before = config.context * config.embedding
        self.words = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.asking = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.source = nn.Embedding(config.vocab, config.hidden, padding_idx=text.PAD)
        self.attention = regard.Attention(General(before, config.hidden))
        self.model = nn.Linear(before, config.hidden)
        self.output = nn.Linear(2 * config.hidden, config.vocab)
        self.dropout = Dropout(config.dropout)
        for words in (self.words, self.asking, self.source):
            text.initialize(words, config.spread)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs, the right words fed back; all words at once."""
        known_words = {**batch, "target": self._within_vocabulary(batch["target"])}
        tokens = pad(text.inputs(known_words), (self.config.context - 1, 0), value=text.BOS)
        hidden, _ = self._read(tokens.unfold(1, self.config.context, 1), self._remember(batch))
        return text.loss(hidden, self.output, known_words)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The source as keys and values, and an empty history."""
        source = batch["source"]
        return {
            "memory": self._remember(batch),
            "before": source.new_full((len(source), self.config.context), text.BOS),
            "alignment": self.output.weight.new_zeros(source.shape),
        }

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        before = torch.cat([state["before"][:, 1:], self._within_vocabulary(token)[:, None]], 1)
        hidden, out = self._read(before[:, None], state["memory"])
        assert out.weights is not None
        return self.output(hidden[:, 0]), {**state, "before": before, "alignment": out.weights[:, 0]}

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the weights of the last step."""
        return state["alignment"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return torch.full_like(batch["source_lengths"], self.config.longest)

    def _within_vocabulary(self, tokens: Tensor) -> Tensor:
        """Tokens with temporary ids, which only a system that copies can use, replaced by the unknown word."""
        return tokens.masked_fill(tokens >= self.config.vocab, text.UNKNOWN)

    def _remember(self, batch: text.Batch) -> regard.Memory:
        lengths, width = batch["source_lengths"], 2 * self.config.smoothing + 1
        words = self.dropout(self.source(batch["source"]))  # (B, S, hidden)
        real = torch.arange(words.shape[1], device=lengths.device) < lengths[:, None]
        pair = (words * real[..., None]).transpose(1, 2), real[:, None].to(words.dtype)
        pooled = (avg_pool1d(rows, width, 1, self.config.smoothing) for rows in pair)
        total, share = pooled
        values = (total / share.clamp_min(1 / (2 * width))).transpose(1, 2)
        return self.attention.remember(words, values, mask=masks.lengths(lengths))

    def _read(self, before: Tensor, memory: regard.Memory) -> tuple[Tensor, regard.Attended]:
        """(B, T, 2 hidden) of the words before, (B, T, context): [h; enc]."""
        out = self.attention(self.dropout(self.asking(before)).flatten(2), memory)
        hidden = torch.tanh(self.model(self.dropout(self.words(before)).flatten(2)))
        return self.dropout(torch.cat([hidden, out.context], -1)), out
