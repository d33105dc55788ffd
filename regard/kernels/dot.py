"""Dot products through torch's scaled_dot_product_attention, where it is right and where it is fast.

Measured on CPU: SDPA is fast only for 4-D inputs with E = D and without dropout; at T = 1 two matrix products beat it,
and with gradients they do up to some fifty keys.
It gives NaN for a row without an allowed key, hence the detour.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.kernels.forms import DotForm
from regard.masks import may_look

_FEW = 48
"""Keys up to which plain matrix products and their gradients are faster."""


def fits(form: DotForm, value: Tensor, allowed: Tensor | None, forced: bool = False) -> bool:
    """Can SDPA do it, and (unless ``forced``) does it pay?"""
    queries, width, keys = form.query.shape[-2], form.query.shape[-1], form.key.shape[-2]
    if 0 in form.query.shape or 0 in form.key.shape or 0 in value.shape:
        return False
    if torch._C._functorch.maybe_current_level() is not None and not torch.compiler.is_compiling():
        return False
    if forced:
        return True
    learning = torch.is_grad_enabled() and any(t.requires_grad for t in (form.query, form.key, value))
    few = _FEW if learning and value.device.type == "cpu" else 1
    return queries > 1 and keys > few and width == value.shape[-1]


def softmax_sum(form: DotForm, value: Tensor, allowed: Tensor | None, causal: bool, temperature: float) -> Tensor:
    """softmax(scale · q·k + bias) @ value: (…, T, D), (…, S, D), (…, S, E) → (…, T, E)."""
    leading = form.query.shape[:-2]
    mask, dead = None, None
    if allowed is not None and not causal:
        # A dead row looks everywhere and is zeroed afterwards, so that nothing is ever NaN.
        mask, dead = allowed, ~allowed.any(dim=-1, keepdim=True)
        if not may_look(dead) or bool(dead.any()):
            mask = allowed | dead
        else:
            dead = None
    if form.bias is not None:
        bias = form.bias / temperature
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    context = scaled_dot_product_attention(
        _four(form.query),
        _four(form.key),
        _four(value),
        attn_mask=None if mask is None else _four(mask, leading),
        is_causal=causal and mask is None,
        scale=form.scale / temperature,
    )
    context = context.reshape(*leading, *context.shape[-2:])
    return context if dead is None else context.masked_fill(dead, 0.0)


def _four(tensor: Tensor, leading: tuple[int, ...] | None = None) -> Tensor:
    """(…, T, D) as (B, H, T, D); a mask is expanded first where folding would mix its broadcast dimensions."""
    if tensor.ndim == 4:
        return tensor
    if tensor.ndim < 4:
        return tensor[(None,) * (3 - tensor.ndim)].unsqueeze(1)
    if leading is not None:
        tensor = tensor.expand(*leading, *tensor.shape[-2:])
    return tensor.flatten(0, -4)
