"""Stacked LSTMs with global or local attention.

Luong, Pham & Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation* (arXiv:1508.04025).

The decoder steps first and attends afterwards, with its new top state hₜ:

    aₜ(s) = softmax over s of score(hₜ, h̄ₛ)      query hₜ, key h̄ₛ, value h̄ₛ
    cₜ = Σₛ aₜ(s) h̄ₛ,   h̃ₜ = tanh(W_c [cₜ; hₜ]),   p(yₜ) = softmax(Wₛ h̃ₜ)

``score`` is dot, general, additive (the paper's "concat") or location, or, not in the paper, cosine with a learned
gain; ``local`` is "none" (global), "m" (monotonic: a window around t) or "p" (predictive). ``normalizer`` is any that
has a gradient; "hard" is straight-through: the best key in forward, the softmax in backward. With input feeding the
next step reads [E yₜ; h̃ₜ], so that the model knows its past alignments; then time steps cannot be computed in
parallel. ``reverse`` feeds the source backwards, as Sutskever et al. did; the encoder's states are put back into
reading order, so that a window of local-m moves with the source in either case. Decoder layers start from the encoder's
last states, layer by layer.
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
from regard.layers.recurrent import flip, packed
from regard.layers.use import Use
from regard.normalizers import Hard
from regard.parts import Normalizer, Score, Window
from regard.scores import Additive, Cosine, Dot, General, Location
from regard.windows import LocalMonotonic, LocalPredictive

SCORES = ("dot", "general", "additive", "cosine", "location")
LOCAL = ("none", "m", "p")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's best single model."""

    source_vocab: int
    target_vocab: int
    embedding: int = 1000
    hidden: int = 1000
    layers: int = 4
    attention: bool = True
    score: str = "general"
    local: str = "p"
    radius: int = 10
    normalizer: str = "softmax"
    feed: bool = True
    reverse: bool = True
    dropout: float = 0.2
    spread: float = 0.06
    """Standard deviation of the initial embeddings. The paper's, uniform in ±0.1, suits long training by SGD. Adam
    moves a number by about its learning rate a step, so that in a short training small embeddings stay too small."""
    label_smoothing: float = 0.0
    sampled: int = 0
    """Words of the target's vocabulary that a training step scores (Jean et al. 2015); 0 = all of them."""
    max_length: int = 100
    """The longest source that the location score can point into."""

    def __post_init__(self) -> None:
        sampled.check(self.sampled, self.label_smoothing)
        if self.score not in SCORES:
            raise ValueError(f"score is one of {', '.join(SCORES)}, not {self.score!r}")
        if self.local not in LOCAL:
            raise ValueError(f"local is one of {', '.join(LOCAL)}, not {self.local!r}")


class Luong(nn.Module):
    """Encoder, decoder, attention; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("decoder state hₜ", "encoder states h̄ₛ", "encoder states h̄ₛ", "dot, general, additive, cosine, location"),
            rows="written",
            columns="words",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        hidden, layers = config.hidden, config.layers
        between = config.dropout if layers > 1 else 0.0
        self.source = nn.Embedding(config.source_vocab, config.embedding, padding_idx=text.PAD)
        self.target = nn.Embedding(config.target_vocab, config.embedding, padding_idx=text.PAD)
        self.encoder = nn.LSTM(config.embedding, hidden, layers, dropout=between, batch_first=True)
        fed = hidden if self.feeds else 0
        self.decoder = nn.LSTM(config.embedding + fed, hidden, layers, dropout=between, batch_first=True)
        if config.attention:
            self.attention = regard.Attention(_score(config), _normalizer(config), window=_window(config))
            self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, config.target_vocab)
        self.dropout = Dropout(config.dropout)
        for parameter in self.parameters():
            if parameter.ndim:  # the gain of a cosine, a scalar, starts large enough for sharp weights
                nn.init.uniform_(parameter, -0.1, 0.1)
        for words in (self.source, self.target):
            text.initialize(words, config.spread)

    @property
    def feeds(self) -> bool:
        """Is there input feeding?"""
        return self.config.feed and self.config.attention

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of pairs, the right words fed back."""
        memory, state = self._encode(batch)
        words = self.dropout(self.target(text.inputs(batch)))
        if not self.feeds:
            hidden, _ = self._look(self.decoder(words, state)[0], memory, None)
            return self._loss(hidden, batch)
        looks, attentional, outputs = self._first_look(memory), words.new_zeros(words.shape[0], self.config.hidden), []
        for word in words.unbind(1):
            attentional, state, out = self._advance(word, attentional, state, memory, looks)
            looks = out and out.state
            outputs.append(attentional)
        return self._loss(torch.stack(outputs, 1), batch)

    def _loss(self, hidden: Tensor, batch: text.Batch) -> dict[str, Tensor]:
        few = self.config.sampled if self.training else 0
        return text.loss(hidden, self.output, batch, self.config.label_smoothing, sampled=few)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The encoder's states as keys and values, and the decoder's first state."""
        memory, (hidden, cell) = self._encode(batch)
        return {
            "memory": memory,
            "hidden": hidden.transpose(0, 1),  # (B, layers, hidden): batch first
            "cell": cell.transpose(0, 1),
            "seen": hidden.new_zeros(hidden.shape[1:]),
            "looks": self._first_look(memory),
            "alignment": hidden.new_zeros(batch["source"].shape) if self.config.attention else None,
        }

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        decoder_state = tuple(state[name].transpose(0, 1).contiguous() for name in ("hidden", "cell"))
        attentional, decoder_state, out = self._advance(
            self.target(token), state["seen"], decoder_state, state["memory"], state["looks"]
        )
        new = {
            "memory": state["memory"],
            "hidden": decoder_state[0].transpose(0, 1),
            "cell": decoder_state[1].transpose(0, 1),
            "seen": attentional,
            "looks": out and out.state,
            "alignment": None if out is None or out.weights is None else out.weights[:, 0],
        }
        return self.output(attentional), new

    def alignment(self, state: dict[str, Any]) -> Tensor | None:
        """(B, S): the weights of the last step."""
        return state["alignment"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return text.limit(batch)

    def _encode(self, batch: text.Batch) -> tuple[regard.Memory | None, tuple[Tensor, ...]]:
        lengths = batch["source_lengths"]
        words = self.dropout(self.source(batch["source"]))
        states, last = packed(self.encoder, flip(words, lengths) if self.config.reverse else words, lengths)
        if not self.config.attention:
            return None, last
        states = flip(states, lengths) if self.config.reverse else states
        return self.attention.remember(states, mask=masks.lengths(lengths)), last

    def _first_look(self, memory: regard.Memory | None) -> Any:
        return None if memory is None else self.attention.start(memory)

    def _advance(
        self, word: Tensor, attentional: Tensor, state: tuple[Tensor, ...], memory: regard.Memory | None, looks: Any
    ) -> tuple[Tensor, tuple[Tensor, ...], regard.Attended | None]:
        """One step: h̃ₜ (B, hidden), the LSTM's state, and the result of the attention."""
        read = torch.cat([word, attentional], -1) if self.feeds else word
        top, state = self.decoder(read[:, None], state)
        hidden, out = self._look(top, memory, looks)
        return hidden[:, 0], state, out

    def _look(self, states: Tensor, memory: regard.Memory | None, looks: Any) -> tuple[Tensor, regard.Attended | None]:
        """h̃ (B, T, hidden) of decoder states (B, T, hidden); without attention the states themselves."""
        if memory is None:
            return self.dropout(states), None
        out = self.attention(states, memory, state=looks)
        return self.dropout(torch.tanh(self.combine(torch.cat([out.context, states], -1)))), out


def _score(config: Config) -> Score:
    hidden = config.hidden
    built: dict[str, Any] = {
        "dot": Dot,
        "general": lambda: General(hidden, hidden),
        "additive": lambda: Additive(hidden, hidden, hidden),
        "cosine": lambda: Cosine(gain=10.0, learn_gain=True),
        "location": lambda: Location(hidden, config.max_length),
    }
    return built[config.score]()


def _normalizer(config: Config) -> str | Normalizer:
    return Hard("straight_through") if config.normalizer == "hard" else config.normalizer


def _window(config: Config) -> Window | None:
    if config.local == "m":
        return LocalMonotonic(config.radius)
    return LocalPredictive(config.hidden, config.radius) if config.local == "p" else None
