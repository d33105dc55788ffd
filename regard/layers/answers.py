"""What systems that choose an answer to a question about an image share: reading both, and the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Batch = Mapping[str, Tensor]
PARTS = 0.7
"""If the right answer is a list, such as *pillow, rug*, the share of the target that goes to its parts, *pillow* and
*rug*, where they are answers themselves; the rest goes to the list."""


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, answers, features: of the task: words, answers to choose from, and the width of the features of a place
            (0 if a batch brings images).
        channels: width of the features of a place where they are made of images.
        dim: width of words, of places and of what is read.
        hops: looks at the image; 0 for none.
        dropout: of words, of the image's features and of the input of the classifier.
        label_smoothing: the share of probability that is spread over all answers in training.
    """

    vocab: int
    answers: int
    features: int = 0
    channels: int = 64
    dim: int = 128
    hops: int = 2
    dropout: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.hops < 0:
            raise ValueError(f"hops is at least 0, not {self.hops}")
        if self.dim < 2 or self.dim % 2:
            raise ValueError(f"dim, of two directions, is even, not {self.dim}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is at least 0 and below 1, not {self.label_smoothing}")


class Placed(nn.Module):
    """What is at each place of an image, and where it is: (B, L, width) → (B, L, dim).

    s = relu(LayerNorm(W f + U relu(V (y, x)))). A linear layer of the coordinates, from −1 to 1, could be compared by a
    dot product only for being far to one side; the hidden layer lets it be compared for being near, too. The places are
    a square grid, row by row; if not, a single row.
    """

    def __init__(self, width: int, dim: int, hidden: int = 64):
        super().__init__()
        self.features = nn.Linear(width, dim)
        self.where = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, dim, bias=False))
        self.norm = nn.LayerNorm(dim)

    def forward(self, grid: Tensor) -> Tensor:
        cells = grid.shape[1]
        side = round(cells**0.5)
        rows, columns = (side, side) if side * side == cells else (1, cells)
        ends = (torch.linspace(-1, 1, size, device=grid.device, dtype=grid.dtype) for size in (rows, columns))
        coordinates = torch.stack(torch.meshgrid(*ends, indexing="ij"), -1).flatten(0, 1)  # (L, 2)
        return torch.relu(self.norm(self.features(grid) + self.where(coordinates)))


class Answerer(nn.Module):
    """A system that chooses an answer. A subclass gives :meth:`logits`."""

    label_smoothing = 0.0

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch of questions, and the share that is answered right."""
        smoothing = self.label_smoothing if self.training else 0.0
        return loss(self.logits(batch), batch["answer"], batch.get("parts"), smoothing)

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """The probabilities of the answers, (B, C)."""
        return self.logits(batch).float().softmax(-1)

    def logits(self, batch: Batch) -> Tensor:
        """One for each answer, (B, C)."""
        raise NotImplementedError


def loss(
    logits: Tensor, answer: Tensor, parts: Tensor | None = None, label_smoothing: float = 0.0
) -> dict[str, Tensor]:
    """Cross-entropy of logits (B, C), a mean over the questions whose answer (B,) is known; −1 is for none.

    Args:
        parts: (B, P), where the answer is a list, the numbers of its parts that are answers themselves; −1 for none.
            They share :data:`PARTS` of the target. ``nll`` is that of the answer alone.
        label_smoothing: the share of the target that is spread over all answers.
    """
    answered = answer >= 0
    count = answered.sum()
    units = count.clamp_min(1)
    nll = cross_entropy(logits, answer, ignore_index=-1, reduction="sum") / units
    right = ((logits.argmax(-1) == answer) & answered).sum() / units
    total = nll
    if parts is not None or label_smoothing:
        target = torch.zeros_like(logits).scatter(1, answer.clamp_min(0)[:, None], 1.0)
        if parts is not None:
            exists = (parts >= 0).to(logits)
            part_count = exists.sum(-1, keepdim=True)
            share = PARTS * (part_count > 0)
            spread = share * exists / part_count.clamp_min(1)
            target = ((1 - share) * target).scatter_add(1, parts.clamp_min(0), spread)
        target = (1 - label_smoothing) * target + label_smoothing / logits.shape[-1]
        total = (-(target * logits.log_softmax(-1)).sum(-1) * answered).sum() / units
    return {"loss": total, "nll": nll.detach(), "accuracy": right, "count": count}
