"""Encoder-decoders without attention: all the decoder knows of the source is one vector.

Cho et al. 2014, *Learning Phrase Representations using RNN Encoder-Decoder* (arXiv:1406.1078), variant ``cho``: a
GRU reads the source into a summary c = tanh(V h_S); the decoder starts from tanh(V' c), and every one of its steps,
and its maxout output, also reads c.

Sutskever, Vinyals & Le 2014, *Sequence to Sequence Learning with Neural Networks* (arXiv:1409.3215), variant
``sutskever``: a deep LSTM reads the source **backwards**, so that the first words to write are close to the first words
read; a second one starts from its last states and writes.

These are the baselines that attention was invented against: their quality falls with the length of the sentence.
Deviation: torch's GRU applies the reset gate after the recurrent product, Cho's before it. Dropout is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import flip, packed
from regard.layers.use import Use


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are Sutskever's."""

    source_vocab: int
    target_vocab: int
    cell: str = "lstm"
    embedding: int = 1000
    hidden: int = 1000
    layers: int = 4
    reverse: bool = True
    feed_summary: bool = False
    """Does every decoder step read the summary, as in Cho's?"""
    maxout: int = 0
    """Width of Cho's maxout layer; 0 leaves it out."""
    dropout: float = 0.0
    spread: float = 0.05
    """Standard deviation of the initial embeddings; larger, such as 1, for short trainings by Adam."""
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.cell not in ("lstm", "gru"):
            raise ValueError(f"cell is 'lstm' or 'gru', not {self.cell!r}")


VARIANTS: dict[str, dict[str, Any]] = {
    "sutskever": {},
    "cho": {
        "cell": "gru",
        "embedding": 100,
        "layers": 1,
        "reverse": False,
        "feed_summary": True,
        "maxout": 500,
    },
}
"""The two papers' models, as differences from the defaults."""


class Seq2seq(nn.Module):
    """Encoder and decoder; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {}

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        hidden, layers = config.hidden, config.layers
        recurrent = nn.LSTM if config.cell == "lstm" else nn.GRU
        between = config.dropout if layers > 1 else 0.0
        fed = hidden if config.feed_summary else 0
        self.source = nn.Embedding(config.source_vocab, config.embedding, padding_idx=text.PAD)
        self.target = nn.Embedding(config.target_vocab, config.embedding, padding_idx=text.PAD)
        self.encoder = recurrent(config.embedding, hidden, layers, dropout=between, batch_first=True)
        self.decoder = recurrent(config.embedding + fed, hidden, layers, dropout=between, batch_first=True)
        if config.feed_summary:
            self.summary = nn.Linear(hidden, hidden)
            self.bridge = nn.Linear(hidden, hidden)
        if config.maxout:
            self.readout = nn.Linear(hidden + config.embedding + fed, 2 * config.maxout)
        self.output = nn.Linear(config.maxout or hidden, config.target_vocab)
        self.dropout = Dropout(config.dropout)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.08, 0.08)
        for words in (self.source, self.target):
            text.initialize(words, config.spread)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs, the right words fed back."""
        summary, state = self._encode(batch)
        words = self.dropout(self.target(text.inputs(batch)))
        hidden, _ = self._decode(words, summary, state)
        return text.loss(hidden, self.output, batch, self.config.label_smoothing)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The state after the source: the summary, and the initial states of the decoder's layers."""
        summary, state = self._encode(batch)
        return {"summary": summary, "held": tuple(part.transpose(0, 1) for part in state)}  # (B, layers, hidden)

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        decoder_state = tuple(part.transpose(0, 1).contiguous() for part in state["held"])
        hidden, decoder_state = self._decode(self.target(token)[:, None], state["summary"], decoder_state)
        return self.output(hidden[:, 0]), {
            "summary": state["summary"],
            "held": tuple(part.transpose(0, 1) for part in decoder_state),
        }

    def alignment(self, state: dict[str, Any]) -> None:
        """None: there is no attention."""

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return text.limit(batch)

    def _encode(self, batch: text.Batch) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        lengths = batch["source_lengths"]
        words = self.dropout(self.source(batch["source"]))
        _, state = packed(self.encoder, flip(words, lengths) if self.config.reverse else words, lengths)
        if not self.config.feed_summary:
            return None, state
        summary = torch.tanh(self.summary(state[0][-1]))  # (B, hidden)
        return summary, tuple(torch.tanh(self.bridge(summary)).expand_as(part).contiguous() for part in state)

    def _decode(
        self, words: Tensor, summary: Tensor | None, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The input (B, T, ·) of the output layer, and the decoder's state after the words (B, T, embedding)."""
        inputs = words if summary is None else torch.cat([words, summary[:, None].expand(-1, words.shape[1], -1)], -1)
        hidden, last = self.decoder(inputs, state if self.config.cell == "lstm" else state[0])
        if self.config.maxout:
            hidden = self.readout(torch.cat([hidden, inputs], -1)).unflatten(-1, (-1, 2)).amax(-1)
        return self.dropout(hidden), last if isinstance(last, tuple) else (last,)
