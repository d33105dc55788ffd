"""Pointer-generator: a decoder that generates words or copies those that it attends to.

See, Liu & Manning 2017, *Get To The Point: Summarization with Pointer-Generator Networks* (arXiv:1704.04368).

A bidirectional LSTM reads the source, hᵢ, and an LSTM writes, with state sₜ and input xₜ. Copying is attention used as
output: the same weights that sum the values also are the probabilities of the words that stand there.

    eₜᵢ = vᵀ tanh(W_h hᵢ + W_s sₜ + w_c cₜᵢ)       query sₜ, key hᵢ, value hᵢ, softmax       (eq. 1, 2, 11)
    h*ₜ = Σᵢ aₜᵢ hᵢ                                                                          (eq. 3)
    P_vocab = softmax(V' (V [sₜ; h*ₜ] + b) + b')                                             (eq. 4)
    p_gen = σ(w_h*ᵀ h*ₜ + w_sᵀ sₜ + w_xᵀ xₜ + b)                                             (eq. 8)
    P(w) = p_gen P_vocab(w) + (1 − p_gen) Σ_{i: wᵢ = w} aₜᵢ                                  (eq. 9)
    cₜ = Σ_{t' < t} aₜ'                                                                      (eq. 10)
    loss = −log P(w*ₜ) + λ Σᵢ min(aₜᵢ, cₜᵢ)                                                  (eq. 12, 13)

A word of the source that is not in the vocabulary has a temporary id: V for the first such word of an item, V + 1 for
the next. ``step`` gives log P over the vocabulary and as many temporary ids as the batch needs, −inf for ids that an
item does not have. A temporary id that is fed back is embedded as the unknown word.

Two controls: ``pointer=false`` cannot copy, ``coverage=0`` (λ) leaves coverage out of score and loss.

Deviations: coverage is on from the first step, not for the last 3,000 alone, so that λ is smaller; the score has no
bias; dropout. As in the authors' program, xₜ is a linear layer of the last word and h*ₜ₋₁.
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
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Bidirectional
from regard.layers.use import Use
from regard.parts import Score
from regard.scores import LocationAware, Perceptron


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's.

    Attributes:
        vocab, longest: of the task: words, and tokens of the longest answer.
        embedding: width of the word embeddings, which source and target share.
        hidden: width of the decoder's LSTM, and of each direction of the encoder's.
        attention: width of the score's tanh.
        pointer: can words be copied?
        coverage: λ, the weight of the coverage loss; 0 also takes coverage out of the score.
        dropout: of word embeddings, encoder states and the input of the output layer.
        spread: standard deviation of the initial embeddings.
    """

    vocab: int
    longest: int = 100
    embedding: int = 128
    hidden: int = 256
    attention: int = 512
    pointer: bool = True
    coverage: float = 1.0
    dropout: float = 0.0
    spread: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, "longest", "embedding", "hidden", "attention")
        if not self.coverage >= 0:
            raise ValueError(f"coverage, the weight of a loss, is at least 0, not {self.coverage}")


class PointerGenerator(nn.Module):
    """Encoder, attention, decoder, pointer; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("decoder state sₜ", "encoder states hᵢ", "encoder states hᵢ, and the words themselves"),
            "additive with coverage",
            rows="written",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        embedding, hidden, wide = config.embedding, config.hidden, 2 * config.hidden
        self.words = nn.Embedding(config.vocab, embedding, padding_idx=text.PAD)
        self.encoder = Bidirectional(embedding, hidden)
        self.bridge = nn.Linear(wide, 2 * hidden)
        # A convolution of width 1 over the coverage is w_c cᵢ.
        score: Score = Perceptron(hidden, wide, config.attention)
        if config.coverage:
            score = LocationAware(hidden, wide, config.attention, filters=1, kernel=1)
        self.attention = regard.Attention(score)
        self.join = nn.Linear(embedding + wide, embedding)
        self.cell = nn.LSTMCell(embedding, hidden)
        self.gate = nn.Linear(wide + hidden + embedding, 1) if config.pointer else None
        self.readout = nn.Linear(hidden + wide, hidden)
        self.output = nn.Linear(hidden, config.vocab)
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, config.spread)
        with torch.no_grad():
            self.cell.bias_ih.unflatten(0, (4, -1))[1].fill_(1.0)  # the forget gate is open at first

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs, the right words fed back. ``coverage`` is Σᵢ min(aₜᵢ, cₜᵢ), the mean over
        tokens."""
        state = self._encode(batch)
        steps = []
        for word in self.dropout(self._embed(text.inputs(batch))).unbind(1):
            covered = state["coverage"]
            state = self._advance(word, state)
            again = torch.minimum(state["weights"], covered).sum(-1)
            steps.append((self._read(state), state["weights"], state["gate"], again))
        hidden, weights, gate, again = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))

        target = batch["target"][:, 1:]
        within = {**batch, "target": self._within_vocabulary(batch["target"])}
        log_prob = text.log_probs(hidden, self.output, within)  # (B, T)
        if self.config.pointer:
            here = _extended(batch)[:, None] == target[:, :, None]  # (B, T, S)
            copied = (weights * here).sum(-1)
            log_prob = log_prob.masked_fill(target >= self.config.vocab, float("-inf"))
            # Below the least number the logarithm has no gradient, instead of an infinite one.
            log_prob = mixture(log_prob, gate, copied.clamp_min(torch.finfo(copied.dtype).tiny).log())
        real = torch.arange(target.shape[1], device=target.device) < batch["target_lengths"][:, None]
        count = real.sum()
        nll = -log_prob[real].sum() / count.clamp_min(1)
        if not self.config.coverage:
            return {"loss": nll, "nll": nll.detach(), "count": count}
        repeated = again[real].sum() / count.clamp_min(1)
        loss = nll + self.config.coverage * repeated
        return {"loss": loss, "nll": nll.detach(), "coverage": repeated.detach(), "count": count}

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The source as keys and values, and the state before the first word."""
        extended = _extended(batch)
        most = int(extended.max()) + 1 if self.config.pointer and extended.numel() else 0
        return {**self._encode(batch), "extended": extended, "size": max(most, self.config.vocab)}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """log P (B, V + temporary ids) of the token after ``token`` (B,)."""
        state = {**state, **self._advance(self._embed(token), state)}
        log_prob = torch.log_softmax(self.output(self._read(state)), -1)
        if not self.config.pointer:
            return log_prob, state
        weights, size = state["weights"], state["size"]
        log_prob = functional.pad(log_prob, (0, size - self.config.vocab), value=float("-inf"))
        copied = weights.new_zeros(len(token), size).scatter_add(1, state["extended"], weights)
        return mixture(log_prob, state["gate"][:, None], copied.log()), state

    def alignment(self, state: dict[str, Any]) -> dict[str, Tensor]:
        """(B, S) each: ``words``, the weights aₜᵢ of the last step, and ``copied``, the probability of copying,
        (1 − p_gen) aₜᵢ."""
        weights = state["weights"]
        if not self.config.pointer:
            return {"words": weights}
        return {"words": weights, "copied": torch.sigmoid(-state["gate"])[:, None] * weights}

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return torch.full_like(batch["source_lengths"], self.config.longest)

    def _within_vocabulary(self, tokens: Tensor) -> Tensor:
        return tokens.masked_fill(tokens >= self.config.vocab, text.UNKNOWN)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.words(self._within_vocabulary(tokens))

    def _encode(self, batch: text.Batch) -> dict[str, Any]:
        lengths = batch["source_lengths"]
        states, last = self.encoder(self.dropout(self._embed(batch["source"])), lengths)
        states = self.dropout(states)
        hidden, inner = self.bridge(last).tanh().chunk(2, -1)
        zeros = states.new_zeros(states.shape[:2])
        return {
            "memory": self.attention.remember(states, mask=masks.lengths(lengths)),
            "hidden": hidden,
            "inner": inner,
            "context": states.new_zeros(len(states), states.shape[-1]),
            "coverage": zeros,
            "weights": zeros,
            "gate": states.new_zeros(len(states)),
        }

    def _advance(self, word: Tensor, state: dict[str, Any]) -> dict[str, Any]:
        inputs = self.join(torch.cat([word, state["context"]], -1))
        hidden, inner = self.cell(inputs, (state["hidden"], state["inner"]))
        covered = state["coverage"] if self.config.coverage else None
        out = self.attention(hidden[:, None], state["memory"], state=covered, weights=True)
        context, weights = out.context[:, 0], out.weights[:, 0]
        gate = state["gate"]
        if self.gate is not None:
            gate = self.gate(torch.cat([context, hidden, inputs], -1))[:, 0]
        return {
            "memory": state["memory"],
            "hidden": hidden,
            "inner": inner,
            "context": context,
            "coverage": state["coverage"] + weights,
            "weights": weights,
            "gate": gate,
        }

    def _read(self, state: dict[str, Any]) -> Tensor:
        """The input (B, hidden) of the output layer."""
        return self.dropout(self.readout(torch.cat([state["hidden"], state["context"]], -1)))


def mixture(log_vocab: Tensor, gate: Tensor, log_copy: Tensor) -> Tensor:
    """log(p_gen P_vocab + (1 − p_gen) P_copy) with p_gen = σ(gate), in log space."""
    return torch.logaddexp(functional.logsigmoid(gate) + log_vocab, functional.logsigmoid(-gate) + log_copy)


def _extended(batch: text.Batch) -> Tensor:
    """(B, S): the words of the source, unknown ones by their temporary ids."""
    return batch["extended"] if "extended" in batch else batch["source"]
