"""Listen, Attend and Spell: a pyramid of recurrent layers listens, and a speller attends to it for each character.

Chan, Jaitly, Le & Vinyals 2015, *Listen, Attend and Spell* (arXiv:1508.01211).

The listener is a bidirectional LSTM over frames of sound with pyramidal layers above it
(:mod:`regard.layers.listener`), U = S / 2³ states h_u. The speller writes one character after the other:

    sᵢ = LSTM(sᵢ₋₁, [E yᵢ₋₁; cᵢ₋₁])
    eᵢᵤ = ⟨φ(sᵢ), ψ(hᵤ)⟩,  cᵢ = Σᵤ αᵢᵤ hᵤ     query sᵢ, key hᵤ, value hᵤ, φ and ψ small networks, softmax
    p(yᵢ) = softmax(MLP([sᵢ; cᵢ]))

In training one character in ten that is fed back is drawn from the system's own distribution instead of the transcript
(``sampling``), so that it learns to go on after a mistake.

Deviations: dropout; the lowest layer can read ``join`` frames at once, and CTC can be a second loss (``ctc``). What
the beam found is ranked again by a language model with ``--rescore RUN`` (:mod:`regard.decode.rescoring`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.ctc import CTC, joint
from regard.layers.dropout import Dropout
from regard.layers.listener import Listener, shares, spread
from regard.layers.use import Use
from regard.scores import MLPDot


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, features: of the task: tokens, and width of a frame.
        listener: width of the listener's layers, per direction.
        pyramid: layers that halve the number of steps, above a first one that does not.
        join: frames that the first layer reads at once.
        embedding, speller, layers: width of the character embeddings, and width and number of the speller's layers.
        attention: width of φ and ψ.
        sampling: the share of input characters that are drawn from the system's own distribution in training.
        dropout: between layers.
        label_smoothing: of the loss.
        ctc: share of the loss that is CTC on the listener's states (:mod:`regard.layers.ctc`).
        spacing: frames for each token of the longest answer.
    """

    vocab: int
    features: int
    listener: int = 256
    pyramid: int = 3
    join: int = 1
    embedding: int = 128
    speller: int = 512
    layers: int = 2
    attention: int = 128
    sampling: float = 0.1
    dropout: float = 0.0
    label_smoothing: float = 0.0
    ctc: float = 0.0
    spacing: int = 4

    def __post_init__(self) -> None:
        at_least(self, "listener", "join", "embedding", "speller", "layers", "attention", "spacing", label_smoothing=0)
        if not 0 <= self.sampling <= 1:
            raise ValueError(f"sampling, a share of the characters, is between 0 and 1, not {self.sampling}")
        if self.pyramid < 0:
            raise ValueError(f"pyramid, a number of layers, is at least 0, not {self.pyramid}")
        text.check_share("ctc", self.ctc)


class ListenAttendSpell(nn.Module):
    """Listener and speller; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("speller state sᵢ", "listener states hᵤ", "listener states hᵤ", "MLP dot"),
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
            layers=config.pyramid + 1,
            halvings=config.pyramid,
            join=config.join,
            dropout=config.dropout,
        )
        width = self.listener.width
        self.characters = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        widths = [config.embedding + width] + [config.speller] * (config.layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(input_width, config.speller) for input_width in widths)
        self.attention = regard.Attention(MLPDot(config.speller, width, config.attention))
        self.readout = nn.Linear(config.speller + width, config.speller)
        self.output = nn.Linear(config.speller, config.vocab)
        self.ctc = CTC(width, config.vocab) if config.ctc else None
        self.dropout = Dropout(config.dropout)
        text.initialize(self.characters, 0.1)
        with torch.no_grad():
            for cell in self.cells:
                cell.bias_ih.unflatten(0, (4, -1))[1].fill_(1.0)  # type: ignore[operator]

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of transcripts, the right characters fed back, or drawn ones (``sampling``)."""
        memory, state, context = self._listen(batch)
        tokens = text.inputs(batch)
        drawing = self.training and self.config.sampling > 0
        hidden: list[Tensor] = []
        for t in range(tokens.shape[1]):
            token = tokens[:, t]
            if drawing and hidden:
                token = self._sampled(token, hidden[-1])
            state, context, _ = self._advance(token, state, context, memory)
            hidden.append(self._read(state[-1][0], context))
        losses = text.loss(torch.stack(hidden, 1), self.output, batch, self.config.label_smoothing)
        if self.ctc is None:
            return losses
        lengths = -(-batch["frame_lengths"] // self.listener.factor)
        return joint(losses, self.ctc(memory.value, lengths, batch), self.config.ctc)

    @torch.no_grad()
    def _sampled(self, token: Tensor, hidden: Tensor) -> Tensor:
        """The token, or with probability ``sampling`` a draw from the distribution after ``hidden``."""
        logits = self.output(hidden).float()
        noise = torch.rand_like(logits).clamp_min(1e-20).log().neg().log().neg()  # Gumbel: its argmax is a draw
        sampled = (logits + noise).argmax(-1)
        return torch.where(torch.rand(len(token), device=token.device) < self.config.sampling, sampled, token)

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The listener's states as keys and values, and the state before the first character."""
        memory, state, context = self._listen(batch)
        frames = batch["frames"]
        share = shares(batch["frame_lengths"], frames.shape[1], self.listener.factor)
        alignment = context.new_zeros(memory.key.shape[:2])
        return {"memory": memory, "state": state, "context": context, "share": share, "alignment": alignment}

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        cells, context, out = self._advance(token, state["state"], state["context"], state["memory"])
        assert out.weights is not None
        logits = self.output(self._read(cells[-1][0], context))
        return logits, {**state, "state": cells, "context": context, "alignment": out.weights[:, 0]}

    def alignment(self, state: dict[str, Any]) -> Tensor:
        """(B, S): the weights of the last step, spread over the frames."""
        return spread(state["alignment"], state["share"], self.listener.factor)

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest answer, in tokens."""
        return batch["frame_lengths"] // self.config.spacing + 2

    def _listen(self, batch: text.Batch) -> tuple[regard.Memory, list[tuple[Tensor, Tensor]], Tensor]:
        heard, lengths = self.listener(batch["frames"], batch["frame_lengths"])
        memory = self.attention.remember(heard, mask=masks.lengths(lengths))
        zeros = heard.new_zeros(len(heard), self.config.speller)
        return memory, [(zeros, zeros) for _ in self.cells], heard.new_zeros(len(heard), heard.shape[-1])

    def _advance(
        self, token: Tensor, state: list[tuple[Tensor, Tensor]], context: Tensor, memory: regard.Memory
    ) -> tuple[list[tuple[Tensor, Tensor]], Tensor, regard.Attended]:
        below = torch.cat([self.dropout(self.characters(token)), context], -1)
        cells = []
        for cell, cell_state in zip(self.cells, state, strict=True):
            hidden, inner = cell(below, cell_state)
            cells.append((hidden, inner))
            below = self.dropout(hidden)
        out = self.attention(cells[-1][0][:, None], memory)
        return cells, out.context[:, 0], out

    def _read(self, state: Tensor, context: Tensor) -> Tensor:
        """The input (B, speller) of the output layer."""
        return self.dropout(torch.tanh(self.readout(torch.cat([state, context], -1))))
