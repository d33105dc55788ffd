"""A video captioner that attends to the frames of a clip for each word that it writes.

Yao, Torabi, Cho, Ballas, Pal, Larochelle & Courville 2015, *Describing Videos by Exploiting Temporal Structure*
(arXiv:1502.08029).

A clip is a sequence of frames with features vᵢ, i = 1 … n. Before each word the state of an LSTM is the query:

    eₜᵢ = wᵀ tanh(W hₜ₋₁ + U vᵢ)             query hₜ₋₁, key vᵢ, value vᵢ, additive score, softmax
    φₜ = Σᵢ αₜᵢ vᵢ
    hₜ, cₜ = LSTM([E yₜ₋₁; φₜ], hₜ₋₁, cₜ₋₁),  p(yₜ) ∝ exp(Lₒ tanh(E yₜ₋₁ + L_h hₜ + L_φ φₜ))

The paper's table has four rows, by two independent choices:

==========================  ===========  ===========
row                         ``temporal``  ``local``
==========================  ===========  ===========
Enc-Dec (basic)             false        false
+ local                     false        true
+ global                    true         false
+ local + global            true         true
==========================  ===========  ===========

**Global** structure is this attention over time. Without it φ is the mean of all frames at every step. **Local**
structure is motion, features mᵢ concatenated to each vᵢ.

Deviations: the paper's local features come from a 3-D convolutional network over histograms of gradients and of optical
flow, trained to recognize actions. Here differences of the features of consecutive frames stand in for it, mᵢ = ReLU(W
(vᵢ − vᵢ₋₁) + b), a convolution over time of width two that is trained along. With ``times`` a frame has its time as one
more feature; without it, attention over a set of frames cannot know their order. The output adds the word's embedding
itself instead of a projection of it. Features are normalized; small generated clips pass convolutions that are trained
along. The decoder is that of Show, Attend and Tell (:mod:`regard.layers.attentive_lstm`), without its gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from regard._settings import at_least
from regard.layers import text
from regard.layers.attentive_lstm import AttentiveLSTM, State
from regard.layers.frames import Frames
from regard.layers.use import Use


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, features, longest: of the task: words, width of the features of a frame (0 if a batch brings clips), and
            tokens of the longest caption.
        channels: width of the features of a frame where they are computed from clips.
        motion: width of the features of motion.
        embedding, hidden, attention: widths of words, of the LSTM and of the score.
        temporal: attention over the frames; otherwise their mean.
        local: concatenate features of motion to those of frames.
        times: concatenate the time of a frame to its features.
        dropout: of words and of the input of the output layer.
        label_smoothing: of the loss.
    """

    vocab: int
    features: int = 0
    longest: int = 30
    channels: int = 64
    motion: int = 256
    embedding: int = 512
    hidden: int = 512
    attention: int = 256
    temporal: bool = True
    local: bool = True
    times: bool = False
    dropout: float = 0.5
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "embedding", "hidden", "attention", "motion", longest=2, label_smoothing=0)


class TemporalAttention(AttentiveLSTM):
    """Frames, attention, LSTM; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use("decoder state hₜ₋₁", "frames vᵢ", "frames vᵢ", "additive", rows="written", columns="frames"),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        motion = config.motion if config.local else 0
        self.frames = Frames(config.features, config.channels, motion, config.times)
        self.build(
            self.frames.width,
            vocab=config.vocab,
            longest=config.longest,
            embedding=config.embedding,
            hidden=config.hidden,
            attention=config.attention if config.temporal else 0,
            gate=False,
            dropout=config.dropout,
        )

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of captions, the right words fed back."""
        hidden, _ = self._unroll(batch)
        return text.loss(hidden, self.output, batch, self.config.label_smoothing)

    def _look_at(self, batch: text.Batch) -> tuple[Any, State]:
        frames, mask, mean = self.frames(batch)
        return self._begin(frames, mean, mask)
