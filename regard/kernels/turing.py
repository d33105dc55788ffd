"""One step of a Neural Turing Machine's heads, fused: address, read, write (Graves, Wayne & Danihelka 2014, eqs. 2-9).

A step is some sixty tiny tensor operations in plain PyTorch, and as many backward: on a CPU their overhead is most of
the time. Here it is one, for float32 on the CPU. The plain twin is in :mod:`regard.systems.ntm`, by the parts of the
core; :func:`fits` says when this one may stand in for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.attended import witness
from regard.kernels import _pool
from regard.kernels._once import no_second_derivative

# Nanoseconds of one thread: for a number of the memory and head, and for a weight with its exponentials and logarithm.
NUMBER, WEIGHT = 0.3, 5.0


def fits(*tensors: Tensor) -> bool:
    """May the fused step be taken? Not while somebody records: a tape sees attention where the core computes it."""
    return witness.see is None and not torch.compiler.is_compiling() and kernels._fits_numba(*tensors)


def step(memory: Tensor, weights: Tensor, raw: Tensor, reads: int, shifts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Address with H heads, read with the first R, then write with the others.

    Args:
        memory: (B, W, N), the width before the rows.
        weights: (B, H, N), where the heads were.
        raw: (B, H·(W + 3 + K) + (H − R)·2W), what the controller says. For each head the key (W), and before their
            squashing the key strength β, the gate g, the sharpening γ and the shifts s (K). Then for each write head
            the erase (W) and add (W) vectors.
        reads: R.
        shifts: K, odd.

    Returns:
        The written memory (B, W, N), the weights (B, H, N), and what was read before the writing, (B, R, W).
    """
    batch, width, rows = memory.shape
    heads = weights.shape[1]
    expected = heads * (width + 3 + shifts) + (heads - reads) * 2 * width
    if weights.shape != (batch, heads, rows) or raw.shape != (batch, expected) or shifts % 2 == 0:
        raise ValueError(
            f"memory {tuple(memory.shape)}, weights {tuple(weights.shape)} and {shifts} shifts, an odd number, ask for "
            f"raw ({batch}, {expected}), not {tuple(raw.shape)}"
        )
    return _Step.apply(memory, weights, raw, reads, shifts)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, memory: Tensor, weights: Tensor, raw: Tensor, reads: int, shifts: int) -> Any:
        from regard.kernels import _turing_loops

        batch, width, rows = memory.shape
        heads = weights.shape[1]
        memory, weights, raw = memory.contiguous(), weights.contiguous(), raw.contiguous()
        new = memory.new_empty
        out = new(batch, width, rows), new(batch, heads, rows), new(batch, reads, width)
        saved = new(batch, heads, 3, rows), new(batch, rows)
        arrays = _pool.arrays(memory, weights, raw, *out, *saved)
        _pool.run(_turing_loops.forward, batch, _cost(memory, heads), shifts, *arrays)
        ctx.save_for_backward(memory, weights, raw, out[1], *saved)
        ctx.shifts = shifts
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        from regard.kernels import _turing_loops

        if torch.is_grad_enabled():  # create_graph=True
            no_second_derivative()
        saved = ctx.saved_tensors
        memory, weights, raw = saved[:3]
        out = torch.empty_like(memory), torch.empty_like(weights), torch.empty_like(raw)
        arrays = _pool.arrays(*saved, *grads, *out)
        _pool.run(_turing_loops.backward, len(memory), 2 * _cost(memory, weights.shape[1]), ctx.shifts, *arrays)
        return *out, None, None


def _cost(memory: Tensor, heads: int) -> float:
    return heads * (NUMBER * memory.numel() + WEIGHT * memory.shape[0] * memory.shape[2])
