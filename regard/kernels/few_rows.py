"""A linear layer for a few rows, for float32 on the CPU and without gradients: weights are read once, as they are
stored, at the speed of the cache that holds them."""

from __future__ import annotations

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import _pool

PRODUCT = 0.04  # nanoseconds of one thread for a weight and a row
PIECE = 64  # outputs that a thread takes together
LEAST = 2**15  # weights from which a call pays


def fits(x: Tensor, weight: Tensor) -> bool:
    """May the compiled loop stand in for torch's product of rows x (…, D) and a weight (E, D)?"""
    pays = weight.numel() >= LEAST and weight.is_contiguous()
    return pays and not torch.is_grad_enabled() and kernels.bare(x, weight)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    from regard.kernels import _stack_loops as loops

    x = x.contiguous()
    (count, width), rows = weight.shape, x.numel() // weight.shape[1]
    out = x.new_empty(*x.shape[:-1], count)
    into, inputs = out.data_ptr(), (weight.data_ptr(), 0 if bias is None else bias.data_ptr(), x.data_ptr())
    cost = PRODUCT * rows * weight.numel()
    _pool.run(loops.columns, -(-count // PIECE), cost, PIECE, *inputs, rows, width, into, count)
    return out
