"""What is masked does not matter: NaN, infinity and overflow in keys and values that may not be attended.

A weight of 0 times NaN is NaN, in the sum and in every product of the backward pass, so that to mask the scores is not
enough; and to clear masked rows at each call would copy all keys and values. Instead the call is made as if all were
well, and sums over a few of its tensors tell whether it was. Only if not is it made again, without the rows that did
harm. Where a value may not be read (another device, torch.compile, vmap), masked rows are cleared beforehand.

NaN in a key or value that a query may attend is left alone: it shows in the context of that query and in its gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from regard.candidates import Narrow
from regard.kernels import groups
from regard.memory import Memory

if TYPE_CHECKING:
    from regard.attended import Attended

HUGE = 2.0**60
"""The products of larger numbers may overflow."""


def guarded(
    look: Callable[[Memory, Tensor], Attended], memory: Memory, allowed: Tensor, *, telling: bool = False
) -> Attended:
    """``look(memory, allowed)``, as if keys and values that are not ``allowed``, (…, T, S), were ordinary numbers.

    ``telling`` says that no score is finite whose gradient is not.
    """
    if not visible(allowed, *(memory.pages or (memory.key, memory.value))):
        return _cleared_first(look, memory, allowed)
    out = look(memory, allowed)
    if harmless(out, memory, telling):
        return out
    suspect = _has_huge_or_nan(memory.key) | _has_huge_or_nan(memory.value)  # (…, S)
    attended = groups.some(allowed, memory.group).any(dim=-2).expand(suspect.shape)
    if bool((suspect & ~attended).any()):
        memory = _cleared(memory, suspect & ~attended)
        out = look(memory, allowed)
        if harmless(out, memory, telling):
            return out
    partly_masked = suspect & attended  # rows that some queries may attend and others not
    if not bool(partly_masked.any()) or bool(partly_masked.all()):
        return out
    suspect = groups.repeat(partly_masked.unsqueeze(-2), memory.group)
    affected = (allowed & suspect).any(dim=-1, keepdim=True).expand(*out.context.shape[:-1], 1)
    clean = look(_cleared(memory, partly_masked), allowed & ~suspect)
    return _joined(affected, out, clean)


def shielded(layer: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """``layer(rows)``, (…, S, D) → (…, S, D'), of which rows that are not finite, or become so, give the parameters of
    the layer no gradient: they may be masked later, and then 0 times NaN would be one."""
    if not torch.is_grad_enabled():
        return layer(rows)
    if not visible(rows):
        bad_rows = ~rows.isfinite().all(dim=-1, keepdim=True)
        return layer(torch.where(bad_rows, 0.0, rows)).masked_fill(bad_rows, math.nan)
    out = layer(rows)
    if out is rows or not out.requires_grad or sound(out):  # of NaN no layer makes a number
        return out
    bad_rows = ~(rows.isfinite().all(dim=-1, keepdim=True) & out.isfinite().all(dim=-1, keepdim=True))
    return torch.where(bad_rows, out.detach(), layer(rows.masked_fill(bad_rows, 0.0)))


def sound(tensor: Tensor) -> bool:
    """Has it neither NaN nor infinity, and a finite sum?"""
    wide = torch.promote_types(tensor.dtype, torch.float32)
    return math.isfinite(tensor.detach().sum(dtype=wide).item())


def visible(*tensors: Tensor) -> bool:
    """May the numbers in these decide what is done?"""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    return torch._C._functorch.maybe_current_level() is None and all(tensor.is_cpu for tensor in tensors)


def harmless(out: Attended, memory: Memory, telling: bool = False) -> bool:
    """Is the context finite, and will the gradients be?"""
    if not sound(out.context):
        return False
    if not out.context.requires_grad:
        return True
    scores = out._scores  # to read them might compute them
    if isinstance(scores, Narrow):
        scores = scores.held
    if telling and isinstance(scores, Tensor) and scores.numel() < memory.key.numel() and sound(scores):
        return True  # masked values that did no harm to the context do none to gradients
    return sound(memory.key) and (memory.value is memory.key or sound(memory.value))


def _has_huge_or_nan(rows: Tensor) -> Tensor:
    """(…, S): the rows with NaN, infinity, or numbers that overflow in a product."""
    return ~(rows.detach().abs() <= HUGE).all(dim=-1)


def _cleared(memory: Memory, rows: Tensor) -> Memory:
    """The memory with zeros in ``rows``, (…, S), which get no gradient."""
    key = torch.where(rows.unsqueeze(-1), 0.0, memory.key)
    shared = memory.value is memory.key
    value = key if shared else torch.where(rows.unsqueeze(-1), 0.0, memory.value)
    return Memory(key, value, group=memory.group)


def _cleared_first(look: Callable[[Memory, Tensor], Attended], memory: Memory, allowed: Tensor) -> Attended:
    """:func:`guarded` where nothing may depend on a value."""
    never_attended = ~groups.some(allowed, memory.group).any(dim=-2)
    if allowed.shape[-2] == 1:
        return look(_cleared(memory, never_attended), allowed)
    bad_rows = memory.key.isnan().any(dim=-1) | ~memory.value.isfinite().all(dim=-1)
    out = look(_cleared(memory, never_attended | bad_rows), allowed)
    affected = (allowed & groups.repeat(bad_rows.unsqueeze(-2), memory.group)).any(dim=-1, keepdim=True)

    def marked(tensor: Tensor) -> Tensor:  # by a sum, so that the gradient of a loss that is NaN goes on
        return tensor + torch.where(affected, math.nan, 0.0).to(tensor.dtype)

    out.context, out._weights = marked(out.context), later(marked, out._weights)
    return out


def _joined(affected: Tensor, spoiled: Attended, clean: Attended) -> Attended:
    """The queries that see a spoiled key, (…, T, 1), from one answer, the others from the other."""

    def joined(spoiled_rows: Tensor, clean_rows: Tensor) -> Tensor:
        return torch.where(affected, spoiled_rows.detach(), clean_rows)

    for name in ("weights", "scores"):
        setattr(clean, name, later(joined, *(getattr(out, "_" + name) for out in (spoiled, clean))))
    if clean.log_prob is not None and spoiled.log_prob is not None:
        clean.log_prob = joined(spoiled.log_prob.unsqueeze(-1), clean.log_prob.unsqueeze(-1)).squeeze(-1)
    clean.context = _Spoiled.apply(clean.context, spoiled.context.detach(), affected)
    return clean


class _Spoiled(Function):
    """Some rows from elsewhere. If they are not finite and count in the loss, their gradient is NaN, as it would be."""

    @staticmethod
    def forward(ctx: Any, clean: Tensor, spoiled: Tensor, sees: Tensor) -> Tensor:
        ctx.save_for_backward(sees & ~spoiled.isfinite().all(dim=-1, keepdim=True))
        return torch.where(sees, spoiled, clean)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (lost,) = ctx.saved_tensors
        return torch.where(lost & (grad != 0), math.nan, grad), None, None


def later(function: Callable[..., Tensor], *values: Any) -> Any:
    """The function of what an :class:`Attended` holds: tensors, or functions that make them when they are read."""
    if any(value is None for value in values):
        return None
    if any(callable(value) for value in values):
        return lambda: function(*(value() if callable(value) else value for value in values))
    return function(*values)
