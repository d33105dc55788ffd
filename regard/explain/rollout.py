"""Attention rollout: where a layer looks, seen through the layers below."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.explain._layers import mixed
from regard.tape import Tape


def rollout(attentions: Tape | Sequence[Tensor], *, residual: float = 0.5, heads: str = "mean") -> Tensor:
    """Ã = A_L … A₂ A₁ with A = (1 − r) W + r I. Abnar & Zuidema 2020 (arXiv:2005.00928), section 3, where r = 0.5.

    Args:
        attentions: a tape, of which ``attentions`` are taken, or weights (B, H, T, T) from the first layer on.
        residual: r, the share of the residual connection.
        heads: how the heads of a layer become one W: ``mean`` (the paper), ``max`` or ``min``.

    Returns:
        (B, T, T): row t says which of the inputs the output at t is made of; rows sum to 1.
    """
    layers = mixed(attentions, residual, heads)
    through = layers[0]
    for layer in layers[1:]:
        through = layer @ through
    return through
