"""An LSTM that writes words and, before each of them, looks at what was encoded.

Shared by Show, Attend and Tell (Xu et al. 2015, arXiv:1502.03044), which looks at places of an image, and by the video
captioner of Yao et al. 2015 (arXiv:1502.08029), which looks at frames of a clip. With aᵢ for what was encoded:

    eₜᵢ = vᵀ tanh(W hₜ₋₁ + U aᵢ),  φₜ = Σᵢ αₜᵢ aᵢ,  times a gate σ(f(hₜ₋₁)) if there is one
    hₜ, cₜ = LSTM([E yₜ₋₁; φₜ], hₜ₋₁, cₜ₋₁),  h₀ and c₀ by two layers from the mean of aᵢ
    p(yₜ) ∝ exp(Lₒ tanh(E yₜ₋₁ + L_h hₜ + L_φ φₜ))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.normalizers import Hard
from regard.scores import Perceptron

State = tuple[Tensor, Tensor]
"""h and c, (B, hidden) each."""


class AttentiveLSTM(nn.Module):
    """The decoder as the base of a system, which makes its encoder first, then calls :meth:`build`, and says in
    :meth:`_look_at` what is looked at. It is a Writer: ``start``, ``step``, ``alignment``, ``limit``.
    """

    longest: int
    """Tokens of the longest answer."""

    def build(
        self,
        width: int,
        *,
        vocab: int,
        longest: int,
        embedding: int,
        hidden: int,
        attention: int,
        gate: bool,
        dropout: float,
        normalizer: str | Hard = "softmax",
    ) -> None:
        """Make the decoder.

        Args:
            width: of what is looked at.
            vocab, longest: words, and tokens of the longest answer.
            embedding, hidden, attention: widths of words, of the LSTM and of the score; without a width of the score
                (0) there is no attention, and the mean of what was encoded is seen at every step.
            gate: whether what is seen is scaled by a gate.
            dropout: of words and of what the output sees.
        """
        self.longest = longest
        self.words = nn.Embedding(vocab, embedding, padding_idx=text.PAD)
        self.begin = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 2 * hidden))
        self.attention = regard.Attention(Perceptron(hidden, width, attention), normalizer) if attention else None
        self.gate = nn.Linear(hidden, 1) if gate else None
        self.cell = nn.LSTMCell(embedding + width, hidden)
        self.from_hidden = nn.Linear(hidden, embedding)
        self.from_context = nn.Linear(width, embedding, bias=False)
        self.output = nn.Linear(embedding, vocab)
        self.dropout = Dropout(dropout)
        text.initialize(self.words, 0.1)
        with torch.no_grad():
            self.cell.bias_ih.unflatten(0, (4, -1))[1].fill_(1.0)  # at first it remembers

    def _look_at(self, batch: text.Batch) -> tuple[Any, State]:
        """What is looked at, as :meth:`_begin` gives it, with h₀ and c₀."""
        raise NotImplementedError

    def _begin(self, encoded: Tensor, mean: Tensor, mask: Any = None) -> tuple[Any, State]:
        """The encoded (B, S, width) remembered, or its mean (B, width) where there is no attention; h₀ and c₀."""
        hidden, cell = self.begin(mean).chunk(2, -1)
        memory = mean if self.attention is None else self.attention.remember(encoded, mask=mask)
        return memory, (torch.tanh(hidden), cell)

    def _expected(self, words: Tensor) -> dict[str, Tensor]:
        """Further arguments of the attention, at every step of a batch with the words (B, T, embedding)."""
        return {}

    def _unroll(self, batch: text.Batch) -> tuple[Tensor, list[Any]]:
        """What the output layer sees at each step, the right words fed back, (B, T, embedding); and the looks."""
        memory, state = self._look_at(batch)
        words = self.dropout(self.words(text.inputs(batch)))  # (B, T, embedding)
        expected = self._expected(words)
        states, contexts, looks = [], [], []
        for word in words.unbind(1):
            context, out = self._attend(state[0], memory, **expected)
            state = self.cell(torch.cat([word, context], -1), state)
            states.append(state[0])
            contexts.append(context)
            looks.append(out)
        return self._read(words, torch.stack(states, 1), torch.stack(contexts, 1)), looks

    def _attend(self, hidden: Tensor, memory: Any, **expected: Tensor) -> tuple[Tensor, Any]:
        """φₜ (B, width), and how it came about."""
        if self.attention is None:
            context, out = memory, None
        else:
            out = self.attention(hidden[:, None], memory, **expected)
            context = out.context[:, 0]
        return context if self.gate is None else torch.sigmoid(self.gate(hidden)) * context, out

    def _read(self, word: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """(…, embedding): what the output layer sees."""
        mixed = word + self.from_hidden(self.dropout(hidden)) + self.from_context(context)
        return self.dropout(torch.tanh(mixed))

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """What is looked at, h₀ and c₀."""
        memory, (hidden, cell) = self._look_at(batch)
        alignment = None if self.attention is None else hidden.new_zeros(memory.key.shape[:2])
        return {"memory": memory, "hidden": hidden, "cell": cell, "alignment": alignment}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        word = self.words(token)
        context, out = self._attend(state["hidden"], state["memory"])
        hidden, cell = self.cell(torch.cat([word, context], -1), (state["hidden"], state["cell"]))
        alignment = None if out is None else out.weights[:, 0]
        logits = self.output(self._read(word, hidden, context))
        return logits, {"memory": state["memory"], "hidden": hidden, "cell": cell, "alignment": alignment}

    def alignment(self, state: dict[str, Any]) -> Tensor | None:
        """(B, S): where the last step looked; None without attention."""
        return state["alignment"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        first = next(iter(batch.values()))
        return torch.full((len(first),), self.longest, device=first.device)
