"""A Transformer's decoder for inference: one position a row passes all its layers in one call of a compiled loop.

It is a :class:`~regard.layers.transformer.Decoder` with the same parts, which it uses for everything else: many
positions, many rows, gradients, and recording, since a tape sees attention only where the core computes it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from regard import kernels
from regard.attended import witness
from regard.attention import Attention
from regard.heads import MultiHead
from regard.kernels.stack import LONGEST, Block, Stack
from regard.layers.transformer import Decoder, Layer
from regard.normalizers.softmax import Softmax
from regard.positions.rotary import Rotary
from regard.scores.scaled_dot import ScaledDot

MOST = 20_000
"""Greatest size (rows × hidden width) of a feed-forward layer; above it, oneDNN's products are faster."""


class Stepwise(Decoder):
    """A twin of the decoder ``plain``, with the same weights."""

    def __init__(self, plain: Decoder):
        nn.Module.__init__(self)
        self.layers, self.norm, self.training = plain.layers, plain.norm, plain.training
        first = plain.layers[0]
        attention, norm = first.own, first.around_own.norm
        last, gelu = plain.norm if first.around_own.first else None, type(first.think[1]) is nn.GELU
        blocks = [_block(layer) for layer in plain.layers]
        self.stack = Stack(blocks, attention.heads, attention.group, attention.head_dim**-0.5, last, gelu, norm.eps)
        self.positions, self.head_dim = attention.positions, attention.head_dim
        self.radius = None if attention.window is None else attention.window.radius
        self.looks_at_source = hasattr(first, "cross")

    @staticmethod
    def fits(plain: Decoder) -> bool:
        """Are the layers of ``plain`` all alike, and of the kind that the compiled loop knows?"""
        kinds = {_kind(layer) for layer in plain.layers}
        if len(kinds) != 1 or None in kinds or any(_watched(module) for module in plain.modules()):
            return False
        around = plain.layers[0].around_own
        return _normed(plain.norm) == _normed(around.norm) if around.first else type(plain.norm) is nn.Identity

    def step(
        self, x: Tensor, caches: dict[str, Any], *, weights_of: int | None = None
    ) -> tuple[Tensor, dict[str, Any], Tensor | None]:
        source = caches.get("cross") or []
        if not self._passes(x, caches["own"], source):
            return super().step(x, caches, weights_of=weights_of)
        memories = [memory.room() for memory in caches["own"]]
        heads, place = self.stack.heads, caches["own"][0].length
        options: dict[str, Any] = {}
        if self.positions is not None:
            options["turns"] = self.positions.turns(place, 1, self.head_dim, x.dtype, x.device)
        weights = None
        if source:
            query = x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)
            options["allowed"] = [memory.permits(query) for memory in source]
        if source and weights_of is not None:
            scored = range(len(self.layers))[weights_of]
            options |= {"scored": scored, "scores": x.new_empty(len(x), heads, 1, source[scored].length)}
        hidden = self.stack.step(x[:, 0], memories, source, radius=self.radius, **options)
        if "scores" in options:
            normalizer = self.layers[scored].cross.attention.normalizer
            weights = normalizer(options["scores"], options["allowed"][scored])
        return hidden, {**caches, "own": memories}, weights

    def _passes(self, x: Tensor, own_memories: list[Any], source: list[Any]) -> bool:
        """Can the compiled loop make this call?"""
        if witness.see is not None or self.training or torch.is_grad_enabled() or not kernels.bare(x):
            return False
        rows, layers = len(x), len(self.layers)
        if x.shape[1:] != (1, self.stack.width) or not 0 < rows * self.stack.hidden <= MOST:
            return False
        if (
            len(own_memories) != layers
            or len(source) != layers * self.looks_at_source
            or 0 in {memory.length for memory in source}
        ):
            return False
        return all(memory.mask is None for memory in own_memories) and all(
            memory.dtype == x.dtype and memory.shape[0] == rows and memory.length < LONGEST
            for memory in (*own_memories, *source)
        )


def _block(layer: Layer) -> Block:
    attention, think = layer.own, layer.think
    cross: list[nn.Module] = []
    if hasattr(layer, "cross"):
        cross = [layer.around_cross.norm, layer.cross.query, layer.cross.out]
    return Block(
        [layer.around_own.norm, attention.query, attention.out, attention.key, attention.value],
        cross,
        [layer.around_think.norm, think[0], think[2]],
    )


def _kind(layer: Layer) -> Any:
    """What must be equal in all layers of a stack; None for a layer that the compiled loop does not know."""
    if type(layer) is not Layer or type(layer.think) is not nn.Sequential or len(layer.think) != 3:
        return None
    heads = [layer.own, *([layer.cross] if hasattr(layer, "cross") else [])]
    if not all(type(head) is MultiHead and _plain(head.attention) for head in heads):
        return None
    block, around = _block(layer), [part for name, part in layer.named_children() if name.startswith("around")]
    norms = [part[0] for part in block if part]
    linear = [module for part in block for module in part[1:]]
    activation, positions = layer.think[1], layer.own.positions
    supported = (
        all(_normed(norm) for norm in norms)
        and all(type(projection) is nn.Linear and projection.weight.is_contiguous() for projection in linear)
        and (type(activation) is nn.ReLU or (type(activation) is nn.GELU and activation.approximate == "none"))
        and (positions is None or (type(positions) is Rotary and not positions.halves))
        and all(head.positions is None and head.window is None for head in heads[1:])
    )
    alike = {(*_normed(norm), part.first, head.heads, head.group) for norm, part, head in product(norms, around, heads)}
    if not supported or len(alike) > 1:
        return None
    shapes, window = tuple(projection.weight.shape for projection in linear), layer.own.window
    turned = None if positions is None else positions.base
    return (*alike, shapes, None if window is None else window.radius, turned, type(activation))


def _normed(norm: nn.Module) -> tuple[Any, ...]:
    """Epsilon and shape of a LayerNorm; empty for a norm that the compiled loop does not know."""
    usual = type(norm) is nn.LayerNorm and norm.bias is not None
    return (norm.eps, norm.normalized_shape) if usual else ()


def _plain(attention: Attention) -> bool:
    score, normalizer = attention.score, attention.normalizer
    usual = type(score) is ScaledDot and type(normalizer) is Softmax and normalizer.temperature == 1.0
    return usual and attention.window is None and attention.refiner is None


def _watched(module: nn.Module) -> bool:
    """Has it hooks, which must see its calls?"""
    return bool(module._forward_hooks or module._forward_pre_hooks)
