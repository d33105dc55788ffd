"""The gradient of keys and values that queries look at one after the other, as one matrix product.

A decoder looks at the same S values for each token that it writes. The gradient of one look is the outer product of its
weights and of the gradient of its context, (…, S, E), as large as the values themselves; T of them would be written to
memory, and added up. Here each look leaves its two factors, and once all have, one product makes the sum,
Wᵀ G, (…, S, T) × (…, T, E). The same holds for keys that queries are multiplied with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from regard.kernels._once import forward_mode

Factors = dict[int, list[tuple[Tensor, Tensor]]]
"""What looks have left, (…, T, S) and (…, T, E), for each pass of backward by its number."""


class Deferred:
    """Rows (…, S, E) that many queries will look at."""

    def __init__(self, rows: Tensor):
        self._factors: Factors = {}
        self._rows = _Gate.apply(rows, self._factors)

    def sum(self, weights: Tensor) -> Tensor:
        """weights (…, T, S) @ rows."""
        return (
            _Product.apply(weights, self._rows, self._factors, False) if self._fits(weights) else weights @ self._rows
        )

    def dots(self, query: Tensor) -> Tensor:
        """query (…, T, E) @ rowsᵀ."""
        if not self._fits(query):
            return query @ self._rows.mT
        return _Product.apply(query, self._rows, self._factors, True)

    def _fits(self, factor: Tensor) -> bool:
        return factor.shape[:-2] == self._rows.shape[:-2] and factor.dtype == self._rows.dtype


def pays(rows: Tensor) -> bool:
    """Will rows have a gradient, by a plain backward pass?"""
    if torch.compiler.is_compiling() or not (torch.is_grad_enabled() and rows.requires_grad):
        return False
    if torch._C._len_torch_dispatch_stack() or torch.is_autocast_enabled(rows.device.type):
        return False
    return torch._C._functorch.maybe_current_level() is None and not forward_mode()


class _Gate(Function):
    """The rows as they are. Its backward comes after that of all looks."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        ctx.set_materialize_grads(False)
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        pairs = ctx.factors.pop(torch._C._current_graph_task_id(), None)
        if pairs:
            left, right = (torch.cat(factors, dim=-2) for factors in zip(*pairs, strict=True))
            total = left.mT @ right
            grad = total if grad is None else grad + total
        return grad, None


class _Product(Function):
    """factor @ rows, or @ rowsᵀ if ``turned``, which leaves its share of the gradient of the rows to their gate."""

    @staticmethod
    def forward(ctx: Any, factor: Tensor, rows: Tensor, factors: Factors, turned: bool) -> Tensor:
        ctx.save_for_backward(factor, rows)
        ctx.factors, ctx.turned = factors, turned
        return factor @ (rows.mT if turned else rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        factor, rows = ctx.saved_tensors
        if torch._C._will_engine_execute_node(rows.grad_fn):  # else nobody would collect it
            pair = (grad, factor) if ctx.turned else (factor, grad)
            if not torch.is_grad_enabled():  # but for a second derivative no history is needed
                pair = (pair[0].detach(), pair[1].detach())
            ctx.factors.setdefault(torch._C._current_graph_task_id(), []).append(pair)
        grad_factor = grad @ (rows if ctx.turned else rows.mT) if ctx.needs_input_grad[0] else None
        return grad_factor, None, None, None
