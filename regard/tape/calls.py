"""Torch's own functions: the weights that a call of one computes, and what it gives with other weights."""

from __future__ import annotations

import inspect
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.tape.later import Later, spread, unmasked


class Sdpa:
    """A call of ``F.scaled_dot_product_attention`` by ``module``.

    Hugging Face's grouped queries fold a group of heads into T when there is a single query; here they are heads again.
    """

    kind = "scaled_dot, softmax"
    single = False
    """Are the weights (H, T, S), without a batch?"""

    def __init__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ):
        self.value, self.dropout, mask = value, dropout_p, attn_mask
        self.folded = _folded(module, query)
        if self.folded:
            query = query.flatten(-3, -2).unsqueeze(-2)  # (B, K, G, D) → (B, K·G, 1, D)
            if mask is not None and mask.ndim > 2 and mask.shape[-2] > 1:
                mask = mask.expand(*mask.shape[:-3], key.shape[-3], -1, -1).flatten(-3, -2).unsqueeze(-2)
        bias, allowed = None, mask
        if mask is not None and mask.dtype != torch.bool:
            allowed = ~torch.isneginf(mask)
            bias = mask.masked_fill(~allowed, 0.0)
        scale = 1 / sqrt(max(query.shape[-1], 1)) if scale is None else scale
        causal = 0 if is_causal else None  # aligned to the beginning, unlike ours
        self.later = Later(query, key, scale, bias, allowed, causal, query.dtype)

    @property
    def allowed(self) -> Tensor | None:
        """Which keys may be attended, boolean and broadcastable to the weights. A bias may forbid as well."""
        bias, allowed = self.later.bias, self.later.permitted()
        if bias is None or allowed is None:
            return allowed
        return unmasked(bias) & allowed

    def weights(self) -> Tensor:
        """(…, T, S), before dropout. A row without a key is 0."""
        return self.later.weights()

    def output(self, weights: Tensor) -> Tensor:
        """What the function would return with these weights."""
        weights = functional.dropout(weights, self.dropout) if self.dropout else weights
        context = weights.to(self.value.dtype) @ spread(self.value, self.later.query)
        return context.squeeze(-2).unflatten(-2, (self.value.shape[-3], -1)) if self.folded else context


def _folded(module: nn.Module, query: Tensor) -> bool:
    """Are the heads of a group where the queries should be?"""
    groups = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", None)
    if not isinstance(groups, int) or groups < 2 or query.ndim != 4:
        return False
    return query.shape[-2] == groups and query.shape[-3] * groups == heads


class MultiHeadForward:
    """A call of ``F.multi_head_attention_forward``, which ``nn.MultiheadAttention`` is."""

    kind = "scaled_dot, softmax"

    def __init__(self, module: nn.Module, *args: Any, **kwargs: Any):
        call = _HEADS.bind(*args, **kwargs)
        call.apply_defaults()
        self.call, self.single = call, call.arguments["query"].ndim == 2

    @property
    def allowed(self) -> Tensor | None:
        """Boolean, broadcastable to (B, H, T, S) or, without a batch, to (H, T, S). Of extra keys (a bias, zeros) only
        those that everyone may attend are known."""
        arguments = self.call.arguments
        heads, single = arguments["num_heads"], self.single
        padding, mask = arguments["key_padding_mask"], arguments["attn_mask"]
        allowed = None
        if padding is not None:
            padding = padding if padding.dtype == torch.bool else torch.isneginf(padding)
            allowed = ~(padding if single else padding[:, None, None])
        if mask is not None:
            mask = ~(mask if mask.dtype == torch.bool else torch.isneginf(mask))
            mask = mask.unflatten(0, (-1, heads)) if mask.ndim == 3 and not single else mask
            allowed = mask if allowed is None else allowed & mask
        extra = (arguments["bias_k"] is not None) + bool(arguments["add_zero_attn"])
        return functional.pad(allowed, (0, extra), value=True) if allowed is not None and extra else allowed

    def weights(self) -> Tensor:
        """(B, H, T, S), before dropout. A row without a key is 0."""
        arguments = {**self.call.arguments, "training": False, "need_weights": True, "average_attn_weights": False}
        weights = functional.multi_head_attention_forward(**arguments)[1]
        assert weights is not None
        allowed = self.allowed
        return weights if allowed is None else weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)

    def output(self, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the function would return with these weights."""
        arguments = self.call.arguments
        if arguments["static_v"] is not None:
            raise ValueError("its values are given as static_v=")
        width, heads, single = arguments["embed_dim_to_check"], arguments["num_heads"], self.single
        separate, bias = arguments["use_separate_proj_weight"], arguments["in_proj_bias"]
        weight = arguments["v_proj_weight"] if separate else arguments["in_proj_weight"].chunk(3)[2]
        value = functional.linear(arguments["value"], weight, None if bias is None else bias.chunk(3)[2])
        value = value.unsqueeze(1) if single else value  # (S, B, E)
        extra = [] if arguments["bias_v"] is None else [arguments["bias_v"].expand(1, value.shape[1], -1)]
        extra += [value.new_zeros(1, *value.shape[1:])] if arguments["add_zero_attn"] else []
        value = torch.cat([value, *extra]) if extra else value
        value = value.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)  # (B, H, S, E / H)
        used = functional.dropout(weights, arguments["dropout_p"], arguments["training"])
        context = (used if weights.ndim == 4 else used[None]) @ value
        context = context.permute(2, 0, 1, 3).reshape(-1, value.shape[0], width)  # (T, B, E)
        out = functional.linear(context, arguments["out_proj_weight"], arguments["out_proj_bias"])
        shown = (
            (weights.mean(-3) if arguments["average_attn_weights"] else weights) if arguments["need_weights"] else None
        )
        return (out.squeeze(1) if single else out), shown


_HEADS = inspect.signature(functional.multi_head_attention_forward)

Call = Sdpa | MultiHeadForward
CALLS: dict[Any, type[Call]] = {
    functional.scaled_dot_product_attention: Sdpa,
    functional.multi_head_attention_forward: MultiHeadForward,
}
HIDDEN = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd", "flex_attention")
"""Functions of torch that show no weights, by name."""
