"""Many models trained side by side in one set of tensors, none with any influence on another.

Where the outcome depends on the first weights, several restarts are trained at once and one is chosen. Their weights
have leading dimensions for the models, their losses are added up, and what must not be shared between them (clipping,
the learning rate) is done to each by itself in backward. What is trained is therefore what separate runs on the same
batches would train.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def apart(rate: Tensor, limit: float, *tensors: Tensor) -> list[Tensor]:
    """The tensors (N, *models, rows, columns), unchanged. Going back, each model's gradient over all of them is clipped
    to the norm ``limit`` if that is not 0, and then multiplied by its ``rate`` (*models)."""
    return list(_Apart.apply(rate, limit, *tensors))


class _Apart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rate: Tensor, limit: float, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.rate, ctx.limit = rate, limit
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = ctx.rate
        if ctx.limit:
            norm = sum((g.square().sum((0, -2, -1)) for g in gradients), torch.zeros_like(ctx.rate)).sqrt()
            factor = factor * ctx.limit / norm.clamp(min=ctx.limit)
        return None, None, *(g * factor[..., None, None] for g in gradients)


class Linears(nn.Module):
    """Linear layers of several restarts: (R, N, inputs) → (R, N, outputs)."""

    def __init__(self, restarts: int, inputs: int, outputs: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(restarts, outputs, inputs).uniform_(-1, 1) * inputs**-0.5)
        self.bias = nn.Parameter(torch.empty(restarts, outputs).uniform_(-1, 1) * inputs**-0.5) if bias else None

    def forward(self, x: Tensor, which: slice) -> Tensor:
        """``which`` of the restarts x holds."""
        out = x @ self.weight[which].mT
        return out if self.bias is None else out + self.bias[which].unsqueeze(1)


class Contest(nn.Module):
    """How models that are trained side by side are doing, and which of them is the best.

    Attributes:
        trained: (3, *models): examples, errors and loss in training since the last validation.
        judged: (2, *models): examples and loss of the validation that is under way.
        best, stale: (*models): the lowest validation loss, and the validations since.
    """

    trained: Tensor
    judged: Tensor
    best: Tensor
    stale: Tensor

    def __init__(self, models: tuple[int, ...]):
        super().__init__()
        self.register_buffer("trained", torch.zeros(3, *models))
        self.register_buffer("judged", torch.zeros(2, *models))
        self.register_buffer("best", torch.full(models, torch.inf))
        self.register_buffer("stale", torch.zeros(models))

    @torch.no_grad()
    def count(self, loss: Tensor, wrong: Tensor, present: Tensor, *, training: bool) -> None:
        """Add the outcome (*models, B) of a batch of training or of validation."""
        examples = present.sum(-1).expand_as(self.best)
        if training:
            self.trained += torch.stack([examples, wrong.sum(-1), loss.sum(-1)])
        else:
            self.judged += torch.stack([examples, loss.sum(-1)])

    @torch.no_grad()
    def turn(self) -> None:
        """After a validation: see whose loss has fallen, and count from zero."""
        examples, loss = self.judged
        mean = loss / examples  # NaN, which is no better, where there was no example
        self.stale.copy_(torch.where(mean < self.best, 0.0, self.stale + 1))
        self.best.copy_(torch.fmin(self.best, mean))
        self.judged.zero_()
        self.trained.zero_()

    def chosen(self) -> Tensor:
        """Over the last dimension of the models: the one with the fewest errors in training, of equal ones that with
        the lowest loss."""
        _, wrong, loss = self.trained.double()
        sound = loss.isfinite()
        loss = loss.masked_fill(~sound, 0.0)
        score = wrong + loss / (1.0 + loss.amax(-1, keepdim=True))
        return score.masked_fill(~sound, torch.inf).argmin(-1)  # one that diverged is never the best
