"""Cross-entropy over a vocabulary, for as many rows at a time as fit into the cache.

The logits of a batch are its largest tensor by far: 4,000 words of 8,000 kinds are 128 MB, and their gradient as much.
Here a few hundred rows are scored, compared, and sent back through the last layer before the next are looked at. The
loss is a number, so its gradient is known up to a factor as soon as the logits are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.kernels import vocabulary

_ENTRIES = 2**22  # of a piece of the logits


class Entropy(NamedTuple):
    """Sums over rows.

    Attributes:
        loss: (1 − ε) · nll + ε · the mean of −log p over the vocabulary, which has a gradient.
        nll: −log p of what was wanted.
        right: how often nothing was likelier than that.
    """

    loss: Tensor
    nll: Tensor
    right: Tensor


def cross_entropy(rows: Tensor, output: nn.Linear, wanted: Tensor, smoothing: float = 0.0) -> Entropy:
    """Of rows (N, D) that ``output`` turns into logits (N, V), where ``wanted`` (N,) is right; with label smoothing ε
    (Szegedy et al. 2015, arXiv:1512.00567), for which no dense target is made."""
    return cross_entropy_of(rows, output.weight, output.bias, wanted, smoothing)


def cross_entropy_of(
    rows: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor, smoothing: float = 0.0
) -> Entropy:
    """The same of a layer's weight (V, D) and bias (V,)."""
    if not vocabulary.trains(rows, weight):
        log_prob = torch.log_softmax(functional.linear(rows, weight, bias).float(), dim=-1)
        target_log_prob = log_prob.gather(-1, wanted[:, None])[:, 0]
        nll, right = -target_log_prob.sum(), (target_log_prob >= log_prob.detach().amax(-1)).sum()
        loss = (1 - smoothing) * nll - smoothing * log_prob.mean(-1).sum() if smoothing else nll
        return Entropy(loss, nll.detach(), right)
    learning = torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad)
    kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    return Entropy(*_Pieces.apply(rows, weight, bias, wanted, smoothing, learning, kind))


class _Pieces(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: Tensor,
        smoothing: float,
        learning: bool,
        kind: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kinds = len(weight)
        size = max(_ENTRIES // kinds, 64)
        logits = weight.new_empty(min(size, len(rows)), kinds)
        inputs, sums, factor = (rows, weight, bias), weight.new_zeros(3), weight.to(kind)
        gradients: list[Any] = [torch.zeros_like(t) if learning and t is not None else None for t in inputs]
        for first in range(0, len(rows), size):
            piece = rows[first : first + size].to(kind)
            error = _product(piece, factor.t(), logits[: len(piece)])
            if bias is not None:
                error += bias
            sums += vocabulary.errors_(error, wanted[first : first + size], smoothing, learning).sum(0)
            if learning:
                narrow = error.to(kind)
                _product(narrow, factor, gradients[0][first : first + size])
                _product(narrow.t(), piece, gradients[1], add=True)
                if bias is not None:
                    gradients[2] += error.sum(0)
        ctx.save_for_backward(*gradients)
        nll, spread, right = sums.unbind()
        ctx.mark_non_differentiable(nll, right)
        return (1 - smoothing) * nll + (smoothing / kinds) * spread, nll, right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if tensor is None else tensor * grad for tensor in ctx.saved_tensors), None, None, None, None


def _product(a: Tensor, b: Tensor, out: Tensor, add: bool = False) -> Tensor:
    """a @ b written, or added, to ``out``, which may be of another kind of number."""
    if out.dtype == a.dtype:
        return out.addmm_(a, b, beta=1 if add else 0)
    return out.add_(a @ b) if add else out.copy_(a @ b)
