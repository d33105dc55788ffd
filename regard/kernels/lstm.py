"""A layer of LSTM, alone or with Graves's window on a text between its steps, fused (Graves 2013, arXiv:1308.0850).

In plain PyTorch a step is some thirty tiny operations, as many backward, and each adds its part to the gradient of
every weight. Here a step is one or two matrix products and one or two loops, and the gradients of the weights are one
matrix product for each block of some hundred rows (:mod:`regard.kernels.products`). float32 on the CPU; the plain twin
is in :mod:`regard.systems.handwriting`, by the parts of the core, and :func:`fits` says when this one may stand in for
it.

:class:`Pen` writes with a whole network, a point a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.attended import witness
from regard.kernels import _pool, products
from regard.kernels._once import no_second_derivative

# Nanoseconds of one thread for a unit of a cell, for a character of a window, and for a weight in the second cache.
UNIT, CHARACTER, WEIGHT = 2.0, 15.0, 0.04


def fits(*tensors: Tensor) -> bool:
    """May the fused layer be taken? Not while somebody records: a tape sees attention where the core computes it."""
    if witness.see is not None or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    return kernels._fits_numba(*tensors)


class Window(NamedTuple):
    """Graves's window on texts, eqs. 46-51.

    Attributes:
        weight, bias: (3K, H) and (3K,): h → α̂, β̂, κ̂.
        codes: (B, U) int64, the characters.
        lengths: (B,) int64.
        characters: C, the width of a one-hot character.
    """

    weight: Tensor
    bias: Tensor
    codes: Tensor
    lengths: Tensor
    characters: int


def layer(
    parts: Sequence[Tensor],
    weight: Tensor,
    bias: Tensor,
    recurrent: Tensor,
    window: Window | None = None,
    limit: float = float("inf"),
) -> tuple[Tensor, Tensor]:
    """All steps of a layer that begins with zeros.

    Args:
        parts: (T, B, …), what it sees, side by side.
        weight, bias: (4H, …) and (4H,), to i, f, g and o.
        recurrent: (4H, C + H), from the window's last characters and the last state; C = 0 without a window.
        limit: of the gradient of each sum, as Graves clips.

    Returns:
        What the window read, (T, B, C), and the states, (T, B, H).
    """
    window_parts = (None, None, None, None, 0) if window is None else window
    return _Layer.apply(limit, weight, bias, recurrent, *window_parts, *parts)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        limit: float,
        weight: Tensor,
        bias: Tensor,
        recurrent: Tensor,
        asks: Tensor | None,
        asks_bias: Tensor | None,
        codes: Tensor | None,
        lengths: Tensor | None,
        characters: int,
        *parts: Tensor,
    ) -> tuple[Tensor, Tensor]:
        from regard.kernels import _lstm_loops as loops

        (steps, batch, _), (four, new) = parts[0].shape, (len(weight), weight.new_empty)
        width = four // 4
        gates, states = new(steps, batch, four), new(steps + 1, batch, characters + width)
        cells = new(steps + 1, batch, width)
        states[0] = 0
        cells[0] = 0
        raw = kappa = None
        if asks is not None:
            assert asks_bias is not None and codes is not None and lengths is not None
            raw, kappa = new(steps, batch, len(asks)), new(steps + 1, batch, len(asks) // 3)
            kappa[0] = 0
            turned, phi = asks.t().contiguous(), np.empty((batch, codes.shape[1] + 1), np.float32)
            spelled = _pool.arrays(codes, lengths)
            raws, kappas = raw.numpy(), kappa.numpy()
            looks = CHARACTER * codes.numel()
        blocks = products.Blocks(steps, batch)
        project, feed = products.Product(weight, blocks.rows), products.Product(recurrent, batch)
        a, c, s, cost = gates.numpy(), cells.numpy(), states.numpy(), UNIT * batch * width
        room = blocks.new(weight, weight.shape[1])
        for first, last in blocks.spans:
            projected = project(blocks.join(room, parts, first, last))
            projected += bias
            input_sums = projected[: (last - first) * batch].view(last - first, batch, four).numpy()
            for t in range(first, last):
                fed = feed(states[t]).numpy()
                _pool.run(
                    loops.cell, batch, cost, input_sums[t - first], fed, a[t], c[t], c[t + 1], s[t + 1], characters
                )
                if raw is not None:
                    assert asks_bias is not None
                    torch.addmm(asks_bias, states[t + 1, :, characters:], turned, out=raw[t])
                    moved = raws[t], kappas[t], kappas[t + 1], *spelled, phi, s[t + 1], 0, characters
                    _pool.run(loops.window, batch, looks, *moved)
        ctx.save_for_backward(gates, cells, states, weight, recurrent, asks, raw, kappa, codes, lengths, *parts)
        ctx.limit, ctx.characters = limit, characters
        return states[1:, :, :characters], states[1:, :, characters:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        from regard.kernels import _lstm_loops as loops

        if torch.is_grad_enabled():  # create_graph=True
            no_second_derivative()
        gates, cells, states, weight, recurrent, asks, raw, kappa, codes, lengths, *parts = ctx.saved_tensors
        steps, batch, four = gates.shape
        characters, width, limit = ctx.characters, four // 4, np.float32(ctx.limit)
        carried = torch.zeros_like(states[0])
        from_window, dcell = cells.new_zeros(batch, width), np.zeros((batch, width), np.float32)
        a, c, extra = gates.numpy(), cells.numpy(), from_window.numpy()
        grad_read, grad_states = _pool.arrays(*grads)
        if asks is not None:
            dkappa, draw = np.zeros((batch, kappa.shape[2]), np.float32), torch.empty_like(raw)
            spelled, raws, kappas, draws = _pool.arrays(codes, lengths), raw.numpy(), kappa.numpy(), draw.numpy()
            looks, dphi = CHARACTER * codes.numel(), np.empty(codes.shape, np.float32)
        blocks = products.Blocks(steps, batch)
        unfeed, cost = products.Product(recurrent.t(), batch), UNIT * batch * width
        needs, widths = ctx.needs_input_grad[9:], [part.shape[-1] for part in parts]
        outs = [torch.empty(part.shape) if want else None for part, want in zip(parts, needs)]
        unproject = products.Product(weight.t(), blocks.rows) if any(needs) else None
        whole = weight.new_zeros(four, weight.shape[1] + states.shape[2])
        grad_bias = weight.new_zeros(four)
        room, sums = blocks.new(weight, whole.shape[1]), blocks.new(weight, four)
        for first, last in reversed(blocks.spans):
            block = sums[: (last - first) * batch].view(last - first, batch, four)
            o = block.numpy()
            for t in range(last - 1, first - 1, -1):
                fed = carried.numpy()
                if asks is not None:
                    window_inputs = raws[t], kappas[t + 1], *spelled, grad_read[t], fed
                    _pool.run(loops.window_back, batch, looks, *window_inputs, dphi, dkappa, draws[t])
                    torch.mm(draw[t], asks, out=from_window)
                came = grad_states[t], fed, characters, extra, dcell
                _pool.run(loops.cell_back, batch, cost, a[t], c[t], c[t + 1], *came, o[t - first], limit)
                carried = unfeed(block[t - first])
            rows = blocks.fill(sums, last - first)
            whole += products.gram(rows, blocks.join(room, [*parts, states], first, last))
            grad_bias += rows.sum(0)
            if unproject is not None:
                blocks.split(unproject(rows), outs, widths, first, last)
        grad_weight, grad_recurrent = whole.split([weight.shape[1], states.shape[2]], 1)
        of_weights: list[Tensor | None] = [grad_weight, grad_bias, grad_recurrent, None, None]
        if asks is not None:
            flat = draw.flatten(0, 1)
            of_weights[3:] = flat.t() @ states[1:, :, characters:].flatten(0, 1), flat.sum(0)
        return None, *of_weights, None, None, None, *outs


class Pen:
    """A network of one to three layers that writes a point a step, without gradients.

    Args:
        layers: for each (weight (4H, 3 + C + H'), recurrent (4H, H), bias (4H,)), the columns of weight in the order
            x, w, hⁿ⁻¹.
        output: (1 + 6M, N·H) and (1 + 6M,).
        window: None without a text.
        batch: rows.
        least, correlation: the smallest log σ and the largest ρ.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Tensor, Tensor, Tensor]],
        output: tuple[Tensor, Tensor],
        window: Window | None,
        batch: int,
        least: float,
        correlation: float,
    ):
        if not 1 <= len(layers) <= 3:
            raise ValueError(f"a pen has one to three layers, not {len(layers)}")
        width, read = layers[0][1].shape[1], 0 if window is None else window.characters
        new = output[0].new_zeros
        self.seen, self.states = new(batch, 3 + read), new(batch, len(layers) * width)  # [x, w] and [h¹, h², h³]
        self.raw, self.phi = new(batch, len(output[0])), new(batch, 1)
        gates, states = new(batch, 4 * width).numpy(), self.states.numpy()
        self._layers = []
        for n, (weight, recurrent, bias) in enumerate(layers):
            own_state, below = (self.states[:, max(m, 0) * width : (m + 1) * width] for m in (n, n - 1))
            add_up = (_One if batch == 1 else _Many)(self.seen, below, own_state, weight.detach(), recurrent.detach())
            biases, cell = bias.detach().expand(batch, -1).contiguous().numpy(), new(batch, width).numpy()
            self._layers.append((add_up, biases, (gates, cell, cell, states, n * width)))
        self._output = _linear(self.states, *output, self.raw)
        self._cost, self._draw = UNIT * batch * width, (np.float32(least), np.float32(correlation))
        self._asks: Any = None
        if window is not None:
            moving, kappa = new(batch, len(window.bias)), new(batch, len(window.bias) // 3).numpy()
            self.phi = new(batch, window.codes.shape[1] + 1)
            self._asks = _linear(self.states[:, :width], window.weight, window.bias, moving)
            spelled = _pool.arrays(window.codes, window.lengths)
            self._moved = moving.numpy(), kappa, kappa, *spelled, self.phi.numpy(), self.seen.numpy(), 3, read
            self._characters = CHARACTER * self.phi.numel()

    def step(self, point: Tensor) -> None:
        """The network sees a point (B, 3): then ``phi`` (B, U + 1) is where its window is, and ``raw`` (B, 1 + 6M) what
        it expects next."""
        from regard.kernels import _lstm_loops as loops

        batch = len(self.states)
        self.seen[:, :3] = point
        for number, (add_up, biases, cell) in enumerate(self._layers):
            _pool.run(loops.cell, batch, self._cost, biases, add_up(), *cell)
            if number == 0 and self._asks is not None:
                self._asks()
                _pool.run(loops.window, batch, self._characters, *self._moved)
        self._output()

    def draw(self, noise: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
        """A point (B, 3) of what is expected, with noise (B, 4) and a bias (B,)."""
        from regard.kernels import _lstm_loops as loops

        _pool.run(loops.draw, len(out), self._cost, self.raw.numpy(), noise, bias, *self._draw, out)


class _One:
    """What a layer adds up for one line: its weights are read where they lie."""

    def __init__(self, inputs: Tensor, below: Tensor, state: Tensor, weight: Tensor, recurrent: Tensor):
        self.units, self.cost = state.shape[1], WEIGHT * (weight.numel() + recurrent.numel())
        self.sums = np.empty((1, len(weight)), np.float32)
        rows = (row[0].numpy() for row in (inputs, below, state))
        self.args = *rows, *_pool.arrays(weight, recurrent), self.sums[0]

    def __call__(self) -> np.ndarray:
        from regard.kernels import _lstm_loops as loops

        _pool.run(loops.sums, self.units, self.cost, *self.args)
        return self.sums


class _Many:
    """The same for many lines, by one product."""

    def __init__(self, inputs: Tensor, below: Tensor, state: Tensor, weight: Tensor, recurrent: Tensor):
        self.rows = inputs, below, state
        self.product = products.Product(torch.cat([weight, recurrent], 1), len(inputs))

    def __call__(self) -> np.ndarray:
        return self.product(torch.cat(self.rows, 1)).numpy()


def _linear(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Callable[[], object]:
    """What sets out to x Wᵀ + b."""
    from regard.kernels import _lstm_loops as loops

    weight, bias = weight.detach(), bias.detach()
    if len(x) == 1:
        arrays = x[0].numpy(), *_pool.arrays(weight, bias), out[0].numpy()
        return partial(_pool.run, loops.linear, len(weight), WEIGHT * weight.numel(), *arrays)
    product = products.Product(weight, len(x))
    return lambda: torch.add(product(x), bias, out=out)
