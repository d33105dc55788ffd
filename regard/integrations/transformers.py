"""Hugging Face's models with attention by regard: ``attn_implementation="regard"``.

    from regard.integrations.transformers import register

    register()
    model = AutoModel.from_pretrained(name, attn_implementation="regard")
    model(**batch)                                    # as fast as "sdpa"
    model(**batch, output_attentions=True).attentions # the exact weights, which "sdpa" does not give

    register("cosine", score="cosine")                # another score or normalizer in the same model
    model.set_attn_implementation("cosine")

The context is that of ``F.scaled_dot_product_attention`` if no weights are wanted; otherwise, and with any other score
or normalizer, it is that of :func:`regard.attend`. Padding, causal masks, sliding windows, grouped queries,
caches, the position bias of T5, the capped scores of Gemma 2 and the sinks of GPT-OSS are the model's own and stay.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

import regard
from regard.parts import Normalizer, Score, build


def register(name: str = "regard", score: str | Score | None = None, normalizer: str | Normalizer = "softmax") -> str:
    """Let models of Hugging Face be built or set to ``attn_implementation=name``, and give back that name.

    Args:
        name: under which they find it. What was registered under it before is replaced.
        score: of :mod:`regard.scores`, a name or an instance, in place of the scaled dot product; an instance with
            parameters is one for all layers and heads, at the width of a head. The model's own scaling goes unused.
        normalizer: of :mod:`regard.normalizers`, a name or an instance.
    """
    try:
        hugging = importlib.import_module("transformers")
        fast = importlib.import_module("transformers.integrations.sdpa_attention").sdpa_attention_forward
        masking = importlib.import_module("transformers.masking_utils")
        capturing = importlib.import_module("transformers.utils.output_capturing")
    except ImportError as error:
        message = "attn_implementation= needs transformers, version 5 or newer: pip install transformers"
        raise ImportError(message) from error
    if name in ("eager", "sdpa", "flex_attention") or name.startswith(("flash_attention", "paged|")):
        raise ValueError(f"name={name!r} is one of Hugging Face's own")
    part = None if score is None else build("scores", score)
    if part is not None and ("state" in part.needs or part.required):
        needed = ", ".join(part.required or ("a state",))
        raise ValueError(f"{type(part).__name__} needs {needed} at each call, which Hugging Face's models do not give")
    collector = getattr(capturing, "_active_collector", None)
    attention = _Attention(fast, collector, part, build("normalizers", normalizer))
    hugging.AttentionInterface.register(name, attention)
    hugging.AttentionMaskInterface.register(name, masking.sdpa_mask)
    return name


class _Attention:
    """The function that an attention module of Hugging Face calls."""

    def __init__(self, fast: Any, collector: Any, score: Score | None, normalizer: Normalizer):
        self.fast, self.collector, self.score, self.normalizer = fast, collector, score, normalizer
        self.plain = score is None and type(normalizer) is regard.normalizers.Softmax and normalizer.temperature == 1.0

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        position_bias: Tensor | None = None,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries (B, H, T, D), keys and values (B, K, S, ·), K a divisor of H → context (B, T, H, ·), and weights
        (B, H, T, S) if the caller wants them."""
        needs_weights = bool(more.pop("output_attentions", False)) or self._collected()
        if self.plain and not needs_weights and softcap is None and s_aux is None:
            beside = {"is_causal": is_causal, "position_bias": position_bias, **more}
            return self.fast(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **beside)
        if more.get("cache") is not None:
            raise ValueError("paged caches work with plain softmax attention of which nobody asks the weights")

        length, keys = query.shape[2], key.shape[2]
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = causal and length > 1 and attention_mask is None
        mask: Any = attention_mask
        if causal:  # aligned to the first key; later places of a static cache are still empty
            key, value = key[:, :, :length], value[:, :, :length]
            position_bias = None if position_bias is None else position_bias[..., :length]
            mask = regard.masks.causal()
        elif mask is not None and mask.dtype != torch.bool:
            position_bias = mask if position_bias is None else position_bias + mask
            mask = mask > torch.finfo(mask.dtype).min / 2
        score = _Score(self.score, query.shape[-1] ** -0.5 if scaling is None else scaling, softcap, position_bias)
        normalizer = self.normalizer if s_aux is None else _Sinks(self.normalizer, s_aux)
        query, key, value = _heads(query, key, value)
        out = regard.attend(
            query, key, value, score=score, normalizer=normalizer, mask=mask, dropout=dropout, weights=needs_weights
        )
        weights = out.weights
        if weights is not None and weights.shape[-1] < keys:
            weights = pad(weights, (0, keys - weights.shape[-1]))
        return out.context.transpose(1, 2).contiguous(), weights

    def _collected(self) -> bool:
        """Does the model collect the weights that its modules return? Since version 5 it may do so without passing
        ``output_attentions`` to them."""
        return self.collector is not None and any("attentions" in key for key in self.collector.get() or ())


class _Score(Score):
    """Another score or scale · q·k, then capped by cap · tanh(e / cap), plus a bias for pairs of places."""

    def __init__(self, score: Score | None, scale: float, cap: float | None, bias: Tensor | None):
        super().__init__()
        self.score, self.scale, self.cap, self.bias = score, scale, cap, bias

    def project(self, key: Tensor) -> Tensor:
        return key if self.score is None else self.score.project(key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        scores = (query * self.scale) @ key.mT if self.score is None else self.score(query, key)
        scores = scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)
        return scores if self.bias is None else scores + self.bias

    def form(self, query: Tensor, key: Tensor) -> Any:
        if self.score is None or self.cap is not None or self.bias is not None:
            return None
        return self.score.form(query, key)


class _Sinks(Normalizer):
    """Each head has one more score, (H,), which takes weight and has no value."""

    def __init__(self, normalizer: Normalizer, sinks: Tensor):
        super().__init__()
        self.normalizer, self.sinks = normalizer, sinks

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        sinks = self.sinks.to(scores.dtype).reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
        mask = None if mask is None else pad(mask, (0, 1), value=True)
        return self.normalizer(torch.cat([scores, sinks], dim=-1), mask)[..., :-1]


def _heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With one batch size and as many heads of keys and values as of queries."""
    groups, batch = query.shape[1] // key.shape[1], max(query.shape[0], key.shape[0])
    if groups > 1:
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    query, key, value = (t.expand(batch, -1, -1, -1) for t in (query, key, value))
    return query, key, value
