"""Dot products through torch's scaled_dot_product_attention, where it is right and where it is fast.

Measured on CPU: SDPA is fast only for 4-D inputs with E = D and without dropout; at T = 1 two matrix products beat it,
and with gradients they do up to some fifty keys.
It gives NaN for a row without an allowed key, hence the detour.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.kernels import groups, halves
from regard.kernels._once import explain_second_derivative, forward_mode
from regard.kernels.forms import DotForm
from regard.masks import may_look

_FEW = 48
"""Keys up to which plain matrix products and their gradients are faster."""
_BLOCK, _PARTS, _LONG = 32, 8, 2**14
"""SDPA gives one thread to each block of queries. With fewer blocks than parts, long keys are cut into parts."""


def fits(form: DotForm, value: Tensor, allowed: Tensor | None, forced: bool = False) -> bool:
    """Can SDPA do it, and (unless ``forced``) does it pay?"""
    queries, width, keys = form.query.shape[-2], form.query.shape[-1], form.key.shape[-2]
    if 0 in form.query.shape or 0 in form.key.shape or 0 in value.shape:
        return False
    if torch._C._functorch.maybe_current_level() is not None and not torch.compiler.is_compiling():
        return False
    if forward_mode():
        return False
    if forced:
        return True
    learning = torch.is_grad_enabled() and any(t.requires_grad for t in (form.query, form.key, value))
    few = _FEW if learning and value.device.type == "cpu" else 1
    return queries > 1 and keys > few and width == value.shape[-1]


def softmax_sum(
    form: DotForm, value: Tensor, allowed: Tensor | None, causal: bool, temperature: float, group: int = 1
) -> Tensor:
    """softmax(scale · q·k + bias) @ value: (…, T, D), (…, S, D), (…, S, E) → (…, T, E). With a ``group`` of R, key and
    value have fewer heads, and the query is folded, as in :mod:`~regard.kernels.groups`."""
    if allowed is None and form.bias is None and not causal and _is_long(form, value):
        return groups.unfold(_in_parts(form.query, form.key, value, form.scale / temperature), group)
    query = groups.unfold(form.query, group)
    leading = query.shape[:-2]
    mask, dead = None, None
    if allowed is not None and not causal:
        # A dead row looks everywhere and is zeroed afterwards, so that nothing is ever NaN.
        mask, alive = allowed, allowed.any(dim=-1, keepdim=True)
        if not may_look(alive) or not bool(alive.all()):
            dead = ~alive
            mask = allowed | dead
    if form.bias is not None:
        bias = groups.repeat(form.bias, group) / temperature
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    tensors, scale = (four(query), four(form.key), four(value)), form.scale / temperature
    mask, causal = None if mask is None else four(mask, leading), causal and mask is None
    if halves.fits(*tensors, mask):
        context = halves.attend(*tensors, mask, causal, scale)
    else:
        context = scaled_dot_product_attention(
            *tensors, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=group > 1
        )
        explain_second_derivative(context)
    context = context.reshape(*leading, *context.shape[-2:])
    return context if dead is None else context.masked_fill(dead, 0.0)


def _is_long(form: DotForm, value: Tensor) -> bool:
    """Are the queries too few for SDPA's threads, and the keys many?"""
    blocks = math.prod(form.query.shape[:-2]) * -(-form.query.shape[-2] // _BLOCK)
    if blocks >= _PARTS or form.key.shape[-2] < _LONG or form.key.shape[-1] != value.shape[-1]:
        return False
    learning = torch.is_grad_enabled() and any(t.requires_grad for t in (form.query, form.key, value))
    return value.device.type == "cpu" and not learning and not torch.compiler.is_compiling()


def _in_parts(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Attention to each part of the keys, as if it were a head, joined by the shares of their exponentials."""
    leading, whole = query.shape[:-2], key.shape[-2] - key.shape[-2] % _PARTS
    query, key, value = (t.reshape(-1, 1, *t.shape[-2:]) for t in (query, key, value))

    def look(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        queries = query.expand(-1, key.shape[1], -1, -1)
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(queries, key, value, scale=scale)

    partial = [look(*(t[:, 0, :whole].unflatten(1, (_PARTS, -1)) for t in (key, value)))]
    if whole < key.shape[2]:
        partial.append(look(key[:, :, whole:], value[:, :, whole:]))
    contexts, logs = (
        torch.cat(parts, dim=1) for parts in zip(*partial, strict=True)
    )  # (N, parts, T, E), (N, parts, T)
    context = (contexts * torch.softmax(logs, dim=1).unsqueeze(-1)).sum(dim=1)
    return context.reshape(*leading, *context.shape[-2:])


def four(tensor: Tensor, leading: tuple[int, ...] | None = None) -> Tensor:
    """(…, T, D) as (B, H, T, D); a mask is expanded first where folding would mix its broadcast dimensions."""
    if tensor.ndim == 4:
        return tensor
    if tensor.ndim < 4:
        return tensor[(None,) * (3 - tensor.ndim)].unsqueeze(1)
    if leading is not None:
        tensor = tensor.expand(*leading[:-1], *tensor.shape[-3:])
    return tensor.flatten(0, -4)
