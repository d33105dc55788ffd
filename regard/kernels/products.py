"""Matrix products of float32 on the CPU, without building what they read in one piece.

Where it is there, oneDNN makes them: its loops are compiled for the processor that it finds, and on one that MKL, which
``torch.mm`` calls, does not know as its own they are twice as fast. Rows are taken a block at a time, of one of a few
sizes: oneDNN keeps a program for every number of rows that it has seen, and what a block leaves in the cache is still
there when the next product asks for it.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.kernels._once import no_second_derivative

ROWS, EVEN = 512, 64  # rows of a block, and what their number is filled up to a multiple of
LITTLE = 2**19  # multiplications of a call below which oneDNN takes longer to begin


@cache
def ordering() -> bool:
    """Is there a oneDNN that keeps weights in the order of its loops?"""
    return platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()


class Product:
    """x ↦ x Wᵀ, for a weight (N, K) that meets ``rows`` rows at a time, again and again."""

    def __init__(self, weight: Tensor, rows: int):
        self._ordered = ordering() and rows * weight.numel() >= LITTLE
        weight = weight.detach()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, rows) if self._ordered else weight.t()

    def __call__(self, x: Tensor) -> Tensor:
        if self._ordered:
            return torch.ops.mkldnn._linear_pointwise(x, self._weight, None, "none", [], "")
        return torch.mm(x, self._weight)


def gram(left: Tensor, right: Tensor) -> Tensor:
    """leftᵀ right, (R, N) and (R, K) → (N, K)."""
    if ordering() and left.numel() * right.shape[1] >= LITTLE:
        return torch.ops.mkldnn._linear_pointwise(left.t(), right.t(), None, "none", [], "")
    return left.t() @ right


class Blocks:
    """Steps in blocks of about ``ROWS`` rows, B a step.

    Attributes:
        spans: the first step of each block and the one after its last.
        rows: of the largest.
    """

    def __init__(self, steps: int, batch: int):
        per_block = max(1, ROWS // max(batch, 1))
        self.spans = [(first, min(first + per_block, steps)) for first in range(0, steps, per_block)]
        self.batch = batch
        self.rows = self.filled(min(per_block, steps))

    def filled(self, steps: int) -> int:
        """The number of rows of N steps, with those that fill them up."""
        return -(-steps * self.batch // EVEN) * EVEN

    def new(self, like: Tensor, width: int) -> Tensor:
        """Room for a block, (R, width)."""
        return like.new_empty(self.rows, width)

    def fill(self, room: Tensor, steps: int) -> Tensor:
        """The rows of N steps, with zeros in those that fill them up."""
        rows = room[: self.filled(steps)]
        rows[steps * self.batch :] = 0
        return rows

    def join(self, room: Tensor, parts: Sequence[Tensor], first: int, last: int) -> Tensor:
        """Steps first..last of parts (T, B, …), side by side."""
        steps, begin = last - first, 0
        joined = room[: steps * self.batch].view(steps, self.batch, room.shape[1])
        for part in parts:
            end = begin + part.shape[-1]
            joined[..., begin:end] = part[first:last]
            begin = end
        return self.fill(room, steps)

    def split(self, rows: Tensor, outs: Sequence[Tensor | None], widths: Sequence[int], first: int, last: int) -> None:
        """The inverse of :meth:`join`, without what is None."""
        steps = last - first
        blocks = rows[: steps * self.batch].view(steps, self.batch, rows.shape[1]).split(list(widths), -1)
        for out, part in zip(outs, blocks, strict=True):
            if out is not None:
                out[first:last] = part


def linear(parts: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """[parts] Wᵀ + b for parts (T, B, …) that stand side by side, (T, B, N)."""
    return _Linear.apply(weight, bias, *parts)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, *parts: Tensor) -> Tensor:
        steps, batch, _ = parts[0].shape
        blocks = Blocks(steps, batch)
        product, room = Product(weight, blocks.rows), blocks.new(weight, weight.shape[1])
        out = weight.new_empty(steps, batch, len(weight))
        for first, last in blocks.spans:
            rows = product(blocks.join(room, parts, first, last))[: (last - first) * batch]
            torch.add(rows.view(last - first, batch, len(weight)), bias, out=out[first:last])
        ctx.save_for_backward(weight, *parts)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph=True
            no_second_derivative()
        weight, *parts = ctx.saved_tensors
        (grad,), (steps, batch, _) = grads, parts[0].shape
        blocks = Blocks(steps, batch)
        product, room = Product(weight.t(), blocks.rows), blocks.new(weight, weight.shape[1])
        grad_room, widths = blocks.new(weight, len(weight)), [part.shape[-1] for part in parts]
        outs = [torch.empty_like(part) if wanted else None for part, wanted in zip(parts, ctx.needs_input_grad[2:])]
        grad_weight = torch.zeros_like(weight)
        for first, last in blocks.spans:
            rows = blocks.join(grad_room, [grad], first, last)
            grad_weight += gram(rows, blocks.join(room, parts, first, last))
            blocks.split(product(rows), outs, widths, first, last)
        return grad_weight, grad.sum((0, 1)), *outs
