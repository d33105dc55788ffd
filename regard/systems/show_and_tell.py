"""Show and Tell: a captioner that reads the image once, as a whole, and then writes.

Vinyals, Toshev, Bengio & Erhan 2014, *Show and Tell: A Neural Image Caption Generator* (arXiv:1411.4555).

    x₋₁ = W_I · mean of the image's features,  xₜ = E yₜ
    hₜ, cₜ = LSTM(xₜ, hₜ₋₁, cₜ₋₁),  p(yₜ₊₁) ∝ exp(W hₜ)

There is no attention: it is the baseline of *Show, Attend and Tell*. Deviation: features are normalized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.grid import Grid
from regard.layers.use import Use

State = dict[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's.

    Attributes:
        vocab, features, longest: of the task: words, width of the features of a place (0 if a batch brings images),
            and tokens of the longest caption.
        channels: width of the features of a place where they are computed from images.
        embedding, hidden: widths of words and of the LSTM.
        dropout: of words, the image and the states.
        label_smoothing: of the loss.
    """

    vocab: int
    features: int = 0
    longest: int = 30
    channels: int = 64
    embedding: int = 512
    hidden: int = 512
    dropout: float = 0.5
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "embedding", "hidden", longest=2, label_smoothing=0)


class ShowAndTell(nn.Module):
    """An image as the first input of an LSTM; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {}

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.grid = Grid(config.features, config.channels)
        self.image = nn.Linear(self.grid.width, config.embedding)
        self.words = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        self.cell = nn.LSTM(config.embedding, config.hidden, batch_first=True)
        self.output = nn.Linear(config.hidden, config.vocab)
        self.dropout = Dropout(config.dropout)
        text.initialize(self.words, 0.1)
        with torch.no_grad():
            bias = dict(self.cell.named_parameters())["bias_ih_l0"]
            bias.unflatten(0, (4, -1))[1].fill_(1.0)  # the forget gate is open at first

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of captions, the right words fed back."""
        image, words = self._look_at(batch), self.words(text.inputs(batch))
        states, _ = self.cell(self.dropout(torch.cat([image[:, None], words], 1)))
        return text.loss(self.dropout(states[:, 1:]), self.output, batch, self.config.label_smoothing)

    def start(self, batch: text.Batch) -> State:
        """The state after the image."""
        _, (hidden, cell) = self.cell(self._look_at(batch)[:, None])
        return {"hidden": hidden[0], "cell": cell[0]}

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        before = state["hidden"][None], state["cell"][None]
        out, (hidden, cell) = self.cell(self.words(token)[:, None], before)
        return self.output(out[:, 0]), {"hidden": hidden[0], "cell": cell[0]}

    def alignment(self, state: State) -> None:
        """None: there is no attention."""

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest caption, in tokens."""
        first = next(iter(batch.values()))
        return torch.full((len(first),), self.config.longest, device=first.device)

    def _look_at(self, batch: text.Batch) -> Tensor:
        return self.image(self.grid(batch).mean(1))
