"""Attention-based speech recognition: a decoder whose score sees the weights of the step before.

Chorowski, Bahdanau, Serdyuk, Cho & Bengio 2015, *Attention-Based Models for Speech Recognition* (arXiv:1506.07503), and
Chorowski, Bahdanau, Cho & Bengio 2014, *End-to-end Continuous Speech Recognition using Attention-based Recurrent NN:
First Results* (arXiv:1412.1602).

Bidirectional GRUs turn the frames of sound into states hⱼ. A GRU writes phones or characters:

    sᵢ = GRU(sᵢ₋₁, [E yᵢ₋₁; gᵢ₋₁])
    eᵢⱼ = vᵀ tanh(W sᵢ + V hⱼ + U fᵢⱼ),  fᵢ = F ∗ αᵢ₋₁     query sᵢ, key hⱼ, value hⱼ, location-aware or additive score
    gᵢ = Σⱼ αᵢⱼ hⱼ,  p(yᵢ) = softmax(maxout([sᵢ; gᵢ]))

The convolutions F over the weights of the step before tell equal sounds at different places apart; ``score="content"``
leaves them out. ``smooth`` normalizes by σ(e) / Σ σ(e), so that several frames can share a focus. ``monotonic`` adds a
penalty for each step whose mean position lies before that of the step before (2014, section 2.3).

When the trained system writes, attention can be narrowed, so that long utterances do not distract it: ``sharpen``
multiplies the scores by β, ``keep`` masks all but the k best frames, and ``window`` all that are more than W steps from
the median of the previous weights, beginning with the first (2014, section 3.2; 2015, section 2.2).

``ctc`` is the share of the loss that is CTC on the states of the frames (:mod:`regard.layers.ctc`): from an hour of
speech, attention alone does not learn to go forward.

Deviations: dropout instead of weight noise and column norms; the maxout sees sᵢ after the previous character, which is
the same recursion with its indices shifted; frames may be joined and layers may halve (``join``, ``halvings``), so that
an utterance has fewer states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard._lazy import nearest
from regard._settings import at_least
from regard.layers import text
from regard.layers.ctc import CTC, joint
from regard.layers.dropout import Dropout
from regard.layers.listener import CELLS, Listener, shares, spread
from regard.layers.narrowed import Sharpened, around_median
from regard.layers.use import Use
from regard.normalizers import Smoothed, Softmax
from regard.parts import Normalizer, Score
from regard.scores import LocationAware, Perceptron

SCORES = ("content", "location")


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, features: of the task: tokens, and width of a frame.
        listener, layers, halvings, join, cell: of the encoder, see :class:`regard.layers.listener.Listener`.
        embedding, decoder, maxout: widths of tokens, of the GRU that writes, and of the input of its output layer.
        score: ``content`` or ``location``.
        attention, filters, kernel: width of the score, number and width of the convolutions over the last weights.
        smooth: σ(e) / Σ σ(e) instead of softmax.
        monotonic: weight of the penalty for going back.
        ctc: share of the loss that is CTC on the states of the frames.
        sharpen, keep, window: how attention is narrowed when the system writes; 1, 0 and 0 leave it as it was trained.
        dropout: between layers.
        label_smoothing: of the loss.
        spacing: frames for each token of the longest answer.
    """

    vocab: int
    features: int
    listener: int = 256
    layers: int = 3
    halvings: int = 0
    join: int = 1
    cell: str = "gru"
    embedding: int = 64
    decoder: int = 256
    maxout: int = 64
    score: str = "location"
    attention: int = 512
    filters: int = 10
    kernel: int = 201
    smooth: bool = False
    monotonic: float = 0.0
    ctc: float = 0.0
    sharpen: float = 1.0
    keep: int = 0
    window: int = 0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    spacing: int = 4

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise ValueError(f"score cannot be {self.score!r}: {nearest(self.score, SCORES)}")
        if self.cell not in CELLS:
            raise ValueError(f"cell cannot be {self.cell!r}: {nearest(self.cell, CELLS)}")
        at_least(
            self, "listener", "layers", "join", "embedding", "decoder", "maxout", "attention", "filters", "spacing"
        )
        at_least(self, monotonic=0, keep=0, window=0, label_smoothing=0)
        text.check_share("ctc", self.ctc)
        if self.smooth and (self.sharpen != 1 or self.keep):
            raise ValueError("smooth shares the focus, sharpen and keep narrow it: choose one")


class AttentionRecognizer(nn.Module):
    """Encoder, attention, decoder; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("decoder state sᵢ", "states of the frames hⱼ", "states of the frames hⱼ", "location-aware or additive"),
            normalizer="softmax or smoothed",
            rows="written",
            columns="spectrogram",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.listener = Listener(
            config.features,
            config.listener,
            layers=config.layers,
            halvings=config.halvings,
            join=config.join,
            cell=config.cell,
            dropout=config.dropout,
        )
        width, decoder = self.listener.width, config.decoder
        score: Score = Perceptron(decoder, width, config.attention)
        if config.score == "location":
            score = LocationAware(decoder, width, config.attention, config.filters, config.kernel)
        trained: Normalizer = Smoothed() if config.smooth else Softmax()
        narrow = config.sharpen != 1 or config.keep > 0
        self._normalizers = trained, Sharpened(config.sharpen, config.keep) if narrow else trained
        self.characters = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.attention = regard.Attention(score, trained)
        self.cell = nn.GRUCell(config.embedding + width, decoder)
        self.readout = nn.Linear(decoder + width, 2 * config.maxout)
        self.output = nn.Linear(config.maxout, config.vocab)
        self.ctc = CTC(width, config.vocab) if config.ctc else None
        self.dropout = Dropout(config.dropout)
        text.initialize(self.characters, 0.1)

    def train(self, mode: bool = True) -> AttentionRecognizer:
        """Attention is narrowed only in evaluation."""
        self.attention.normalizer = self._normalizers[0 if mode else 1]
        return super().train(mode)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of transcripts, the right tokens fed back."""
        state = self._listen(batch)
        hidden, weights = [], []
        for word in self.dropout(self.characters(text.inputs(batch))).unbind(1):
            state = self._advance(word, state)
            hidden.append(self._read(state["state"], state["context"]))
            weights.append(state["weights"])
        losses = text.loss(torch.stack(hidden, 1), self.output, batch, self.config.label_smoothing)
        lengths = -(-batch["frame_lengths"] // self.listener.factor)
        if self.ctc is not None:
            losses = joint(losses, self.ctc(state["memory"].value, lengths, batch), self.config.ctc)
        if self.config.monotonic:
            penalty = _backwards(torch.stack(weights, 1), lengths, batch)
            loss = losses["loss"] + self.config.monotonic * penalty
            losses = {**losses, "loss": loss, "penalty": penalty.detach()}
        return losses

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The encoded frames as keys and values, and the state before the first token."""
        share = shares(batch["frame_lengths"], batch["frames"].shape[1], self.listener.factor)
        return {**self._listen(batch), "share": share}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        state = {**state, **self._advance(self.characters(token), state)}
        return self.output(self._read(state["state"], state["context"])), state

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the weights of the last step, spread over the frames."""
        return spread(state["weights"], state["share"], self.listener.factor)

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return batch["frame_lengths"] // self.config.spacing + 2

    def _listen(self, batch: text.Batch) -> dict[str, Any]:
        heard, lengths = self.listener(batch["frames"], batch["frame_lengths"])
        memory = self.attention.remember(heard, mask=masks.lengths(lengths))
        return {
            "memory": memory,
            "looked": self.attention.start(memory),
            "state": heard.new_zeros(len(heard), self.config.decoder),
            "context": heard.new_zeros(len(heard), heard.shape[-1]),
            "weights": heard.new_zeros(heard.shape[:2]),
        }

    def _advance(self, word: Tensor, state: dict[str, Any]) -> dict[str, Any]:
        hidden = self.cell(torch.cat([word, state["context"]], -1), state["state"])
        nearby = None
        if self.config.window and not self.training:
            nearby = around_median(state["weights"], self.config.window)
        out = self.attention(self.dropout(hidden)[:, None], state["memory"], state=state["looked"], mask=nearby)
        return {
            "memory": state["memory"],
            "looked": out.state,
            "state": hidden,
            "context": out.context[:, 0],
            "weights": out.weights[:, 0],
        }

    def _read(self, state: Tensor, context: Tensor) -> Tensor:
        """The input (B, maxout) of the output layer."""
        mixed = self.readout(torch.cat([state, context], -1))
        return self.dropout(mixed.unflatten(-1, (-1, 2)).amax(-1))


def _backwards(weights: Tensor, lengths: Tensor, batch: text.Batch) -> Tensor:
    """Σᵢ max(0, E[jᵢ₋₁] − E[jᵢ]) as a mean over tokens; positions are shares of an item's length in steps."""
    places = torch.arange(weights.shape[-1], device=weights.device) / lengths[:, None]
    mean = (weights * places[:, None]).sum(-1)  # (B, T)
    real = torch.arange(mean.shape[1], device=mean.device) < batch["target_lengths"][:, None]
    back = (mean[:, :-1] - mean[:, 1:]).clamp_min(0) * real[:, 1:]
    return back.sum() / real.sum().clamp_min(1)
