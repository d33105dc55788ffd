"""One position of a stack of Transformer layers, for float32 on the CPU and without gradients.

A decoder that writes a token at a time passes one position through all its layers. Plain PyTorch takes some thirty
calls a layer for it, of which each costs more than what it computes. Here it is one call, which reads every weight
once: norms, products, attention to the keys so far and to a source, feed-forward networks. The plain twin is
:class:`regard.layers.transformer.Decoder`, and :mod:`regard.layers.stepwise` says where this may stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.kernels import _pool
from regard.kernels.few_rows import PRODUCT
from regard.kernels.single import where

if TYPE_CHECKING:
    from regard.memory import Memory

LONGEST = 4096
"""Keys that may be attended."""


class Block(NamedTuple):
    """The modules of a layer that have weights, linear ones and norms."""

    own: Sequence[nn.Module]
    """Norm, query, out, key, value."""
    cross: Sequence[nn.Module]
    """Norm, query, out; nothing without a source."""
    think: Sequence[nn.Module]
    """Norm, first, second."""


class Stack:
    """The weights of layers, read where they lie.

    Args:
        heads, group: heads of queries, and how many of them share a head of keys.
        scale: of q·k.
        norm: the one after the last layer, if norms come before sub-layers; None if they come after them.
        gelu: GELU, else ReLU.
        eps: of the norms.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        heads: int,
        group: int,
        scale: float,
        norm: nn.Module | None,
        gelu: bool,
        eps: float,
    ):
        self._blocks = [tuple([_tensors(module) for module in part] for part in block) for block in blocks]
        self._last = None if norm is None else _tensors(norm)
        self.heads, self.group = heads, group
        self.width, self.hidden = len(self._blocks[0][0][0][0]), len(self._blocks[0][2][1][0])
        self.cost = PRODUCT * sum(weight.numel() for block in self._blocks for part in block for weight, _ in part)
        self._how = (norm is not None, gelu, eps, scale)
        self._tables: tuple[np.ndarray, np.ndarray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": None}  # a copy has addresses of its own

    def step(
        self,
        x: Tensor,
        own: Sequence[Memory],
        cross: Sequence[Memory] = (),
        *,
        radius: int | None = None,
        allowed: Sequence[Tensor | None] = (),
        turns: Tensor | None = None,
        scores: Tensor | None = None,
        scored: int | None = None,
    ) -> Tensor:
        """Rows (N, width) of one position through all layers.

        Args:
            own: for each layer a memory that has :meth:`~regard.memory.Memory.room` for the position itself, whose
                key and value are written there.
            cross: for each layer what it looks at besides.
            radius: how far the position sees back.
            allowed: for each layer which keys of ``cross`` may be attended, broadcastable to (N, H, 1, S).
            turns: (D/2, 2), cos and sin of rotary positions.
            scores: (N, H, 1, S), where those of ``cross`` in the layer ``scored`` are written.
        """
        from regard.kernels import _stack_loops as loops

        rows, depth = len(x), self.width // self.heads
        if self._tables is None:
            self._tables = self._laid_out()
        weights, last = self._tables
        looks, longest = [], max(memory.length for memory in (*own, *cross))
        for layer, memory in enumerate(own):
            looks.append(self._own_entry(memory, radius))
            into = scores if layer == scored else None
            looks.append(self._source_entry(cross[layer], rows, allowed[layer], into) if cross else _NOTHING)
        x, out = x.clone(memory_format=torch.contiguous_format), x.new_empty(x.shape)
        work = x.new_empty(rows * (3 * self.width + self.hidden + self.heads * longest))
        look_table = np.array(looks, np.int64).reshape(len(own), 2, len(_NOTHING))
        sizes = (rows, self.width, self.heads, self.group, depth, self.hidden)
        tables = (0 if turns is None else turns.data_ptr(), weights, look_table, last)
        spaces = (x.data_ptr(), work.data_ptr(), out.data_ptr())
        _pool.run(loops.step, rows, rows * self.cost, sizes, *self._how, *tables, *spaces)
        return out

    def _laid_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of all weights and biases."""
        from regard.kernels import _stack_loops as loops

        weights, last = np.zeros((len(self._blocks), loops.ROWS, 2), np.int64), np.zeros((1, 2), np.int64)
        for layer, block in enumerate(self._blocks):
            for start, part in zip((loops.OWN, loops.CROSS, loops.THINK), block, strict=True):
                for row, pair in enumerate(part):
                    weights[layer, start + row] = _addresses(pair)
        if self._last is not None:
            last[0] = _addresses(self._last)
        return weights, last

    def _own_entry(self, memory: Memory, radius: int | None) -> list[int]:
        """Where the rows of a growing memory are."""
        assert memory.shelf is not None
        length, (key, value) = memory.length, memory.shelf.rows
        first = 0 if radius is None else max(0, length - 1 - radius)
        row, item, head, _ = key.stride()
        start, new = 4 * first * row, 4 * (length - 1) * row
        put = [key.data_ptr() + new, value.data_ptr() + new, item, item]
        if memory.pages is None:
            keys, values = ((rows.data_ptr() + start, item, head, row) for rows in (key, value))
            place: tuple[int, ...] = (0, 0, 0)
        else:
            keys, values = ((rows.data_ptr(), 0, head, item) for rows in (key, value))
            table = memory.pages.place
            place = (table.data_ptr() + 8 * first * table.stride(1), *table.stride())
        together = self.heads if self.group == 1 else self.group
        return [*keys, *values, 0, 0, 0, 0, *place, length - first, together, 0, *put]

    def _source_entry(self, memory: Memory, rows: int, allowed: Tensor | None, scores: Tensor | None) -> list[int]:
        """Where the rows of a memory are that does not change."""
        pages = memory.pages
        place: tuple[int, ...] = (0, 0, 0)
        if pages is None:
            keys, values = where(memory.key), where(memory.value)
        else:
            keys, values = (where(tensor.movedim(0, -2), shared=True) for tensor in (pages.key, pages.value))
            place = (pages.place.data_ptr(), *pages.place.stride())
        flags = (0, 0, 0, 0) if allowed is None else where(allowed.expand(rows, self.heads, 1, memory.length).mT)
        beside = keys[2] < keys[3] and values[2] < values[3] and allowed is None
        together = self.heads if beside and self.group == 1 else 1 if allowed is not None else self.group
        into = 0 if scores is None else scores.data_ptr()
        return [*keys, *values, *flags, *place, memory.length, together, into, 0, 0, 0, 0]


_NOTHING = [0] * 22


def _tensors(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight and bias; kept alive as they are, also if the module gets others."""
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))
    return weight.detach(), None if bias is None else bias.detach()


def _addresses(pair: tuple[Tensor, Tensor | None]) -> tuple[int, int]:
    weight, bias = pair
    return weight.data_ptr(), 0 if bias is None else bias.data_ptr()
