"""Dropout that draws its mask cheaply on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 2**16


class Dropout(nn.Dropout):
    """As ``nn.Dropout``. On a CPU torch draws one number for each entry, one after another; four of 16 bits cost as
    much, and the share is then a multiple of 1/65,536."""

    def forward(self, x: Tensor) -> Tensor:
        plain = not self.training or not 0 < self.p < 1 or x.device.type != "cpu" or torch.compiler.is_compiling()
        if plain or torch._C._functorch.maybe_current_level() is not None:
            return super().forward(x)
        random_bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = random_bits.view(torch.int16)[: x.numel()].view(x.shape) >= round(self.p * _LEVELS) - _LEVELS // 2
        return _Keep.apply(x, keep, 1 / (1 - self.p))


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return (x * keep).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None
