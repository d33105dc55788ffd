"""Attention that is written out: a softmax over the last dimension whose result multiplies values.

Hugging Face's ``attn_implementation="eager"`` is code of this kind, and so are most attentions that people write
themselves. The result of each softmax is followed through dropout, casts and views; when it is the left factor of a
matrix product, or a factor of an ``einsum`` that sums over its last dimension, it was attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from regard.tape.later import unmasked


@dataclass(eq=False)
class Origin:
    """The weights that several tensors come from: has one of them been seen to multiply values, and with what weights
    instead?"""

    kept: bool = False
    changed: Tensor | None = None


@dataclass(eq=False)
class Trace:
    """How a tensor was made from the result of a softmax. It does not refer to that tensor, which it would keep alive.

    Attributes:
        weights: those before dropout; None if it is the tensor itself.
        allowed: which keys may be attended, if a watcher changes weights.
        replay: what was done to the weights from dropout on, so that it can be done to others.
    """

    origin: Origin
    weights: Tensor | None = None
    allowed: Tensor | None = None
    replay: tuple[Callable[[Tensor], Tensor], ...] = ()

    def instead(self) -> Tensor:
        """The changed weights, after what was done to these."""
        assert self.origin.changed is not None
        out = self.origin.changed
        for step in self.replay:
            out = step(out)
        return out


class Traces:
    """The results of softmaxes that are still alive."""

    def __init__(self) -> None:
        self.known: Any = WeakTensorKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self.known.data)

    def softmax(self, scores: Tensor, out: Tensor, dim: int | None, changing: bool) -> None:
        """``changing``: a watcher changes weights, so allowed keys and dropped weights are kept."""
        if scores.ndim < 2 or dim not in (-1, scores.ndim - 1):
            return
        allowed = unmasked(scores.detach()) if changing else None
        self.known[out] = Trace(Origin(), allowed=allowed)

    def follow(self, func: Callable, out: Any, args: tuple, kwargs: dict[str, Any], changing: bool) -> None:
        """``out`` is ``func`` of a tensor that may come from a softmax."""
        trace = self.find(args)
        if trace is None or out is args[0]:
            return
        before_dropout = args[0] if trace.weights is None else trace.weights
        if func is functional.dropout:
            p, training = _dropout(*args, **kwargs)
            step = _again(args[0], out, p) if changing and training else _nothing
            self.known[out] = Trace(trace.origin, before_dropout, trace.allowed, (*trace.replay, step))
        elif trace.weights is None:
            allowed = trace.allowed
            if allowed is not None and func in SHAPING:
                allowed = func(allowed, *args[1:], **kwargs)
            self.known[out] = Trace(Origin(), allowed=allowed)
        else:
            other_args = args[1:]
            step = lambda weights: func(weights, *other_args, **kwargs)  # noqa: E731
            self.known[out] = Trace(trace.origin, trace.weights, trace.allowed, (*trace.replay, step))

    def find(self, args: tuple) -> Trace | None:
        return self.known.get(args[0]) if self and args and isinstance(args[0], Tensor) else None

    def factor(self, func: Callable, args: tuple) -> tuple[Tensor, Trace] | None:
        """The weights in a product with values, if there are any."""
        if not self:
            return None
        if func is torch.einsum:
            return self._summed(args)
        trace = self.find(args)
        if trace is None or len(args) < 2 or not isinstance(args[1], Tensor) or args[1].ndim < 2:
            return None
        return args[0], trace

    def _summed(self, args: tuple) -> tuple[Tensor, Trace] | None:
        if not isinstance(args[0], str) or len(args) < 2:
            return None
        operands = args[1] if isinstance(args[1], list | tuple) else args[1:]
        inputs, arrow, result = args[0].replace(" ", "").partition("->")
        for letters, operand in zip(inputs.split(","), operands):
            trace = self.find((operand,))
            if trace is not None and len(operands) > 1 and arrow and letters[-1:] not in result:
                return operand, trace
        return None


def substitute(args: tuple, old: Tensor, new: Tensor) -> tuple:
    """The arguments with another tensor in the place of one."""
    return tuple(
        new if arg is old else type(arg)(substitute(tuple(arg), old, new)) if isinstance(arg, list) else arg
        for arg in args
    )


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> tuple[float, bool]:
    return p, training


def _again(before: Tensor, after: Tensor, p: float) -> Callable[[Tensor], Tensor]:
    """Drop from other weights what was dropped from these, without drawing again."""
    lost, scale = (after == 0) & (before != 0), 1 / max(1 - p, torch.finfo(after.dtype).tiny)
    return lambda weights: weights.masked_fill(lost, 0.0) * scale


def _nothing(weights: Tensor) -> Tensor:
    return weights


SOFTMAX = (torch.softmax, Tensor.softmax, functional.softmax, torch.special.softmax)
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum)
SHAPING = (
    Tensor.view,
    Tensor.reshape,
    torch.reshape,
    Tensor.__getitem__,
    Tensor.squeeze,
    torch.squeeze,
    Tensor.unsqueeze,
    torch.unsqueeze,
    Tensor.flatten,
    torch.flatten,
    Tensor.unflatten,
    torch.unflatten,
    Tensor.contiguous,
)
FOLLOWED = (
    *SHAPING,
    functional.dropout,
    Tensor.to,
    Tensor.float,
    Tensor.double,
    Tensor.half,
    Tensor.bfloat16,
    Tensor.type,
    Tensor.type_as,
    Tensor.clone,
    torch.clone,
    Tensor.masked_fill,
    torch.masked_fill,
    Tensor.nan_to_num,
    torch.nan_to_num,
)
