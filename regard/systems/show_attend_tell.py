"""Show, Attend and Tell: a captioner that looks at a place of the image for each word that it writes.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel & Bengio 2015, *Show, Attend and Tell: Neural Image Caption
Generation with Visual Attention* (arXiv:1502.03044).

The image is a grid of features aᵢ, i = 1 … L. Before each word the state of an LSTM is the query:

    eₜᵢ = vᵀ tanh(W hₜ₋₁ + U aᵢ)              query hₜ₋₁, key aᵢ, value aᵢ, additive score, softmax or one place
    ẑₜ = βₜ Σᵢ αₜᵢ aᵢ,  βₜ = σ(f_β(hₜ₋₁))     a gate: how much the image counts for this word
    hₜ, cₜ = LSTM([E yₜ₋₁; ẑₜ], hₜ₋₁, cₜ₋₁),  h₀ and c₀ by two layers from the mean of aᵢ
    p(yₜ) ∝ exp(Lₒ tanh(E yₜ₋₁ + L_h hₜ + L_z ẑₜ))

**Soft** attention is trained with the doubly stochastic penalty, λ times the mean over i of (1 − Σₜ αₜᵢ)²: every place
is to be looked at about once. Where captions have fewer words than the grid has places, uniform maps make it least; a
sparse ``normalizer`` such as entmax15 rules them out. **Hard** attention (``hard``) draws one place, sₜ ~ αₜ, and is
trained by REINFORCE:

    ∂ log p(y | s) + λᵣ (log p(yₜ | s) − b) ∂ log p(sₜ) + λₑ ∂ H[sₜ],   b ← 0.9 b + 0.1 log p(yₜ | s)

For half of the images the draw is replaced by its expectation, as soft attention would have it, and during the first
``soft_steps`` steps for all. A trained hard system looks at the likeliest place.

Deviations: the tanh of the output, and the reward of each place, which is the log-probability of its own word instead
of the whole caption's, are those of the authors' code. The penalty is a mean over places, so that λ means the same for
grids of 7 × 7 and 14 × 14. Features are normalized; where there is no pretrained network, small images pass
convolutions that are trained along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

import regard
from regard._settings import at_least
from regard.layers import reinforce, text
from regard.layers.attentive_lstm import AttentiveLSTM
from regard.layers.grid import Grid
from regard.layers.use import Use
from regard.normalizers import Hard


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, features, longest: of the task: words, width of the features of a place (0 if a batch brings images),
            and tokens of the longest caption.
        channels: width of the features of a place where they are computed from images.
        embedding, hidden, attention: widths of words, of the LSTM and of the score.
        gate: is there a gate βₜ? Otherwise it is 1.
        penalty: λ of the doubly stochastic penalty.
        normalizer: of soft attention, such as softmax, or entmax15, which leaves most places out.
        hard: one place for each word instead of all by their weights.
        reinforce, entropy: λᵣ and λₑ of hard attention.
        expected: the share of images for which a draw is replaced by its expectation.
        soft_steps: training steps before anything is drawn.
        dropout: of words and of the input of the output layer.
        label_smoothing: of soft attention.
    """

    vocab: int
    features: int = 0
    longest: int = 30
    channels: int = 64
    embedding: int = 512
    hidden: int = 1000
    attention: int = 512
    gate: bool = True
    penalty: float = 1.0
    normalizer: str = "softmax"
    hard: bool = False
    reinforce: float = 1.0
    entropy: float = 0.01
    expected: float = 0.5
    soft_steps: int = 0
    dropout: float = 0.5
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "embedding", "hidden", longest=2)
        at_least(self, penalty=0, reinforce=0, entropy=0, soft_steps=0, label_smoothing=0)
        if self.attention < 1:
            raise ValueError(f"attention, the width of the score, is at least 1, not {self.attention}")
        if not 0 <= self.expected <= 1:
            raise ValueError(f"expected, a share of the images, is between 0 and 1, not {self.expected}")
        if self.hard and self.label_smoothing:
            raise ValueError("label_smoothing is for soft attention; hard attention is rewarded for the words alone")


class ShowAttendTell(AttentiveLSTM):
    """Grid, attention, LSTM; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "attention": Use(
            *("decoder state hₜ₋₁", "places of the image aᵢ", "places of the image aᵢ", "additive", "softmax or hard"),
            rows="written",
            columns="places",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.grid = Grid(config.features, config.channels)
        self.build(
            self.grid.width,
            vocab=config.vocab,
            longest=config.longest,
            embedding=config.embedding,
            hidden=config.hidden,
            attention=config.attention,
            gate=config.gate,
            dropout=config.dropout,
            normalizer=Hard("sample") if config.hard else config.normalizer,
        )
        self.baseline: Tensor
        self.steps: Tensor
        if config.hard:
            self.register_buffer("baseline", torch.zeros(()))
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def train(self, mode: bool = True) -> ShowAttendTell:
        """Hard attention draws in training, and takes the likeliest place otherwise."""
        if self.attention is not None and isinstance(self.attention.normalizer, Hard):
            self.attention.normalizer.mode = "sample" if mode else "argmax"
        return super().train(mode)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of captions, the right words fed back."""
        hidden, looks = self._unroll(batch)
        losses = self._judge(hidden, looks, batch) if self.config.hard else self._spread(hidden, looks, batch)
        if self.config.hard and self.training:
            self.steps += 1
        return losses

    def _look_at(self, batch: text.Batch) -> tuple[regard.Memory, tuple[Tensor, Tensor]]:
        grid = self.grid(batch)  # (B, L, width)
        return self._begin(grid, grid.mean(1))

    def _expected(self, words: Tensor) -> dict[str, Tensor]:
        """In training of hard attention, the images (B, 1) whose draws are replaced by their expectation."""
        if not self.config.hard or not self.training:
            return {}
        share = 1.0 if int(self.steps) < self.config.soft_steps else self.config.expected
        return {"expected": torch.rand(len(words), 1, device=words.device) < share}

    def _spread(self, hidden: Tensor, looks: list[regard.Attended], batch: text.Batch) -> dict[str, Tensor]:
        """The loss of soft attention: that of the words, and the doubly stochastic penalty."""
        losses = text.loss(hidden, self.output, batch, self.config.label_smoothing)
        weights, lengths = _joined(looks, "weights"), batch["target_lengths"]  # (B, T, L)
        covered = (weights * _real(batch)[..., None]).sum(1)  # (B, L)
        penalties = (1 - covered).square().mean(-1)
        penalty = (penalties * lengths).sum() / losses["count"].clamp_min(1)  # a mean over words, as all numbers here
        return {**losses, "loss": losses["loss"] + self.config.penalty * penalty, "penalty": penalty.detach()}

    def _judge(self, hidden: Tensor, looks: list[regard.Attended], batch: text.Batch) -> dict[str, Tensor]:
        """The loss of hard attention: that of the words, of the places drawn, and the entropy of their distribution."""
        reward, real = text.log_probs(hidden, self.output, batch), _real(batch)  # (B, T)
        count = real.sum()
        share = 1 / count.clamp_min(1)
        nll = -reward.sum() * share
        policy_gain = _joined(looks, "log_prob") * (reward.detach() - self.baseline) * real
        entropy = (reinforce.entropy(_joined(looks, "scores")) * real).sum() * share
        if self.training:
            with torch.no_grad():
                self.baseline.copy_(torch.where(self.steps == 0, -nll, 0.9 * self.baseline - 0.1 * nll))
        loss = nll - self.config.reinforce * policy_gain.sum() * share - self.config.entropy * entropy
        return {"loss": loss, "nll": nll.detach(), "entropy": entropy.detach(), "count": count}


def _joined(looks: list[regard.Attended], name: str) -> Tensor:
    """One field of the looks of all steps, (B, T, …)."""
    return torch.cat([getattr(out, name) for out in looks], 1)


def _real(batch: text.Batch) -> Tensor:
    """(B, T): true for words, false for padding."""
    target = batch["target"]
    return torch.arange(target.shape[1] - 1, device=target.device) < batch["target_lengths"][:, None]
