"""Weights of a stack of layers, as rollout and flow take them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._lazy import nearest
from regard.tape import Tape

HEADS = {"mean": lambda w: w.mean(1), "max": lambda w: w.amax(1), "min": lambda w: w.amin(1)}


def mixed(attentions: Tape | Sequence[Tensor], residual: float, heads: str) -> Tensor:
    """(L, B, T, T): for each layer the heads as one, mixed with the residual connection, rows summing to 1."""
    if heads not in HEADS:
        raise ValueError(f"heads={heads!r} is no way to join them: {nearest(heads, HEADS)}")
    if not 0.0 <= residual <= 1.0:
        raise ValueError(f"residual is a share between 0 and 1, not {residual}")
    layers = attentions.attentions if isinstance(attentions, Tape) else tuple(attentions)
    if not layers:
        raise ValueError("no layers of attention were given")
    shapes = {tuple(layer.shape) for layer in layers}
    first = next(iter(shapes))
    if len({(shape[0], *shape[-2:]) for shape in shapes}) > 1 or len(first) != 4 or first[-1] != first[-2]:
        listed = ", ".join(str(shape) for shape in sorted(shapes))
        raise ValueError(f"layers of self-attention are (B, H, T, T), all of one length, not {listed}")
    joined = torch.stack([HEADS[heads](layer) for layer in layers])
    joined = joined / joined.sum(-1, keepdim=True).clamp_min(torch.finfo(joined.dtype).tiny)
    own = torch.eye(first[-1], dtype=joined.dtype, device=joined.device)
    # A row that attends nothing keeps itself.
    return torch.where(joined.any(-1, keepdim=True), (1 - residual) * joined + residual * own, own)
