"""RNNsearch: a decoder that searches the source for each word it writes.

Bahdanau, Cho & Bengio 2014, *Neural Machine Translation by Jointly Learning to Align and Translate* (arXiv:1409.0473).

A bidirectional GRU turns each source word into an annotation hⱼ = [→hⱼ; ←hⱼ]. Before step i the decoder's previous
state is the query, and the context enters all gates of its GRU:

    eᵢⱼ = vᵀ tanh(W sᵢ₋₁ + U hⱼ)        query sᵢ₋₁, key hⱼ, value hⱼ, additive score, softmax
    cᵢ = Σⱼ αᵢⱼ hⱼ
    sᵢ = GRU(sᵢ₋₁; E yᵢ₋₁, cᵢ),  s₀ = tanh(Wₛ ←h₁)
    t̃ᵢ = Uₒ sᵢ₋₁ + Vₒ E yᵢ₋₁ + Cₒ cᵢ,  tᵢ = maxout over pairs of t̃ᵢ,  p(yᵢ) ∝ exp(Wₒ tᵢ)

Deviations: torch's GRU applies the reset gate after the recurrent product, the paper's before it. Dropout is ours.
Initialization follows the paper: recurrent matrices orthogonal, W and U of the score nearly 0 and v = 0, so that
the first weights are uniform.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard.layers import sampled, text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import both_ways
from regard.layers.use import Use
from regard.scores import Perceptron


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's."""

    source_vocab: int
    target_vocab: int
    embedding: int = 620
    hidden: int = 1000
    attention: int = 1000
    maxout: int = 500
    dropout: float = 0.0
    spread: float = 0.1
    """Standard deviation of the initial embeddings."""
    label_smoothing: float = 0.0
    sampled: int = 0
    """Words of the target's vocabulary that a training step scores (Jean et al. 2015); 0 = all of them."""

    def __post_init__(self) -> None:
        sampled.check(self.sampled, self.label_smoothing)


class RNNsearch(nn.Module):
    """Encoder, search, decoder; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("decoder state sᵢ₋₁", "annotations hⱼ", "annotations hⱼ", "additive"), rows="written", columns="words"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        embedding, hidden = config.embedding, config.hidden
        self.source = nn.Embedding(config.source_vocab, embedding, padding_idx=text.PAD)
        self.target = nn.Embedding(config.target_vocab, embedding, padding_idx=text.PAD)
        self.forwards = nn.GRU(embedding, hidden, batch_first=True)
        self.backwards = nn.GRU(embedding, hidden, batch_first=True)
        self.bridge = nn.Linear(hidden, hidden)
        self.attention = regard.Attention(Perceptron(hidden, 2 * hidden, config.attention))
        self.cell = nn.GRUCell(embedding + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden + embedding + 2 * hidden, 2 * config.maxout)
        self.output = nn.Linear(config.maxout, config.target_vocab)
        self.dropout = Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As in the paper's appendix B.1."""
        for name, parameter in self.named_parameters():
            if parameter.ndim < 2:
                nn.init.zeros_(parameter)
            elif "weight_hh" in name:
                for gate in parameter.data.chunk(3):
                    nn.init.orthogonal_(gate)
            elif name.startswith("attention"):
                nn.init.normal_(parameter, std=0.001)
            else:
                nn.init.xavier_uniform_(parameter)
        for words in (self.source, self.target):
            text.initialize(words, self.config.spread)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs, the right words fed back."""
        memory, state = self._encode(batch)
        words = self.dropout(self.target(text.inputs(batch)))  # (B, T, embedding)
        states, contexts = [], []
        for word in words.unbind(1):
            context = self.attention(state[:, None], memory, weights=False).context[:, 0]
            states.append(state)
            contexts.append(context)
            state = self.cell(torch.cat([word, context], -1), state)
        hidden = self._read(torch.stack(states, 1), words, torch.stack(contexts, 1))
        return self._loss(hidden, batch)

    def _loss(self, hidden: Tensor, batch: text.Batch) -> dict[str, Tensor]:
        few = self.config.sampled if self.training else 0
        return text.loss(hidden, self.output, batch, self.config.label_smoothing, sampled=few)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The annotations as keys and values, and s₀."""
        memory, state = self._encode(batch)
        return {"memory": memory, "state": state, "alignment": state.new_zeros(batch["source"].shape)}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        word = self.target(token)
        out = self.attention(state["state"][:, None], state["memory"])
        context = out.context[:, 0]
        logits = self.output(self._read(state["state"], word, context))
        new = self.cell(torch.cat([word, context], -1), state["state"])
        return logits, {"memory": state["memory"], "state": new, "alignment": out.weights[:, 0]}

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the weights of the last step."""
        return state["alignment"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return text.limit(batch)

    def _encode(self, batch: text.Batch) -> tuple[regard.Memory, Tensor]:
        lengths = batch["source_lengths"]
        words = self.dropout(self.source(batch["source"]))
        ahead, behind = both_ways(self.forwards, self.backwards, words, lengths)
        annotations = torch.cat([ahead, behind], -1)  # (B, S, 2 hidden)
        memory = self.attention.remember(self.dropout(annotations), mask=masks.lengths(lengths))
        return memory, torch.tanh(self.bridge(behind[:, 0]))

    def _read(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        """tᵢ, the input (…, maxout) of the output layer."""
        mixed = self.readout(torch.cat([state, word, context], -1))
        return self.dropout(mixed.unflatten(-1, (-1, 2)).amax(-1))
