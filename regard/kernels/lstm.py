"""A layer of LSTM, alone or with Graves's window on a text between its steps, fused (Graves 2013, arXiv:1308.0850).

In plain PyTorch a step is some thirty tiny operations, as many backward, and each adds its part to the gradient of
every weight. Here a step is one or two matrix products and one or two loops, and the gradients of the weights are one
matrix product at the end. float32 on the CPU; the plain twin is in :mod:`regard.systems.handwriting`, by the parts of
the core, and :func:`fits` says when this one may stand in for it.

:class:`Pen` writes with a whole network, a point a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.attended import witness
from regard.kernels import _pool
from regard.kernels._once import no_second_derivative

# Nanoseconds of one thread for a unit of a cell and for a character of a window.
UNIT, CHARACTER = 10.0, 20.0


def fits(*tensors: Tensor) -> bool:
    """May the fused layer be taken? Not while somebody records: a tape sees attention where the core computes it."""
    return witness.see is None and not torch.compiler.is_compiling() and kernels._fits_numba(*tensors)


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


def layer(gates: Tensor, recurrent: Tensor, window: Window | None = None, limit: float = float("inf")) -> Tensor:
    """All steps of a layer that begins with zeros.

    Args:
        gates: (T, B, 4H), what the input adds to i, f, g and o.
        recurrent: (4H, C + H), from the window's last characters and the last state; C = 0 without a window.
        limit: of the gradient of each sum, as Graves clips.

    Returns:
        (T, B, C + H): what the window read, and the state.
    """
    if window is None:
        return _Layer.apply(gates, recurrent, limit, None, None, None, None, 0)
    return _Layer.apply(gates, recurrent, limit, *window)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent: Tensor,
        limit: float,
        weight: Tensor | None,
        bias: Tensor | None,
        codes: Tensor | None,
        lengths: Tensor | None,
        characters: int,
    ) -> Tensor:
        from regard.kernels import _lstm_loops as loops

        steps, batch, four = gates.shape
        width, new = four // 4, gates.new_empty
        sums, states = new(steps, batch, four), new(steps + 1, batch, characters + width)
        cells = new(steps + 1, batch, width)
        states[0] = 0
        cells[0] = 0
        turned = recurrent.t().contiguous()
        raw = kappa = None
        if weight is not None:
            assert bias is not None and codes is not None and lengths is not None
            raw, kappa = new(steps, batch, len(bias)), new(steps + 1, batch, len(bias) // 3)
            kappa[0] = 0
            asks, phi = weight.t().contiguous(), np.empty((batch, codes.shape[1] + 1), np.float32)
            spelled = _pool.arrays(codes, lengths)
            raws, kappas = raw.numpy(), kappa.numpy()
            looks = CHARACTER * batch * codes.shape[1]
        a, c, s = sums.numpy(), cells.numpy(), states.numpy()
        cost = UNIT * batch * width
        for t in range(steps):
            torch.addmm(gates[t], states[t], turned, out=sums[t])
            _pool.run(loops.cell, batch, cost, a[t], c[t], c[t + 1], s[t + 1, :, characters:])
            if weight is not None:
                assert raw is not None and bias is not None
                torch.addmm(bias, states[t + 1, :, characters:], asks, out=raw[t])
                read = s[t + 1, :, :characters]
                _pool.run(loops.window, batch, looks, raws[t], kappas[t], kappas[t + 1], *spelled, phi, read)
        ctx.save_for_backward(sums, cells, states, recurrent, weight, raw, kappa, codes, lengths)
        ctx.limit, ctx.characters = limit, characters
        return states[1:].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        from regard.kernels import _lstm_loops as loops

        if torch.is_grad_enabled():  # create_graph=True
            no_second_derivative()
        sums, cells, states, recurrent, weight, raw, kappa, codes, lengths = ctx.saved_tensors
        (grad,) = grads
        steps, batch, four = sums.shape
        characters, width, limit = ctx.characters, four // 4, np.float32(ctx.limit)
        out, carried = torch.empty_like(sums), torch.zeros_like(states[0])
        dcell = cells.new_zeros(batch, width)
        a, c, o, d = sums.numpy(), cells.numpy(), out.numpy(), dcell.numpy()
        grad_h = cells.new_empty(batch, width)
        dh = grad_h.numpy()
        if weight is not None:
            dkappa, draw = np.zeros((batch, raw.shape[2] // 3), np.float32), torch.empty_like(raw)
            spelled, raws, kappas, draws = _pool.arrays(codes, lengths), raw.numpy(), kappa.numpy(), draw.numpy()
            looks = CHARACTER * batch * codes.shape[1]
        cost = UNIT * batch * width
        for t in range(steps - 1, -1, -1):
            carried += grad[t]
            if weight is not None:
                read = carried.numpy()[:, :characters]
                _pool.run(loops.window_back, batch, looks, raws[t], kappas[t + 1], *spelled, read, dkappa, draws[t])
                torch.addmm(carried[:, characters:], draw[t], weight, out=grad_h)
            else:
                grad_h.copy_(carried)
            _pool.run(loops.cell_back, batch, cost, a[t], c[t], c[t + 1], dh, d, o[t], limit)
            torch.mm(out[t], recurrent, out=carried)
        flat = out.flatten(0, 1)
        grad_recurrent = flat.t() @ states[:-1].flatten(0, 1)
        if weight is None:
            return out, grad_recurrent, None, None, None, None, None, None
        asked = draw.flatten(0, 1)
        grad_weight = asked.t() @ states[1:, :, characters:].flatten(0, 1)
        return out, grad_recurrent, None, grad_weight, asked.sum(0), None, None, None


class Pen:
    """A network of one to three layers that writes a point a step, without gradients.

    A row of its state is [h¹, x, w, h², h³], so that what a layer reads, [x, w, hⁿ⁻¹, hⁿ], is a piece of it.

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
        seen = 3 + read
        new = output[0].new_zeros
        self.state = new(batch, len(layers) * width + seen)
        self._h = [slice(0, width), *(slice(seen + n * width, seen + (n + 1) * width) for n in range(1, len(layers)))]
        self._x, self._w = slice(width, width + 3), slice(width + 3, width + seen)
        self._layers = []
        for n, (weight, recurrent, bias) in enumerate(layers):
            given, below = weight.split([seen, weight.shape[1] - seen], 1)
            if n == 0:
                rows, columns = torch.cat([recurrent, given], 1), slice(0, width + seen)
            elif n == 1:
                rows, columns = torch.cat([below, given, recurrent], 1), slice(0, 2 * width + seen)
            else:
                rows, columns = torch.cat([given, below, recurrent], 1), slice(width, 3 * width + seen)
            sums, cell = new(batch, 4 * width), new(batch, width)
            product = (bias.contiguous(), self.state[:, columns], rows.t().contiguous(), sums)
            hidden = self.state.numpy()[:, self._h[n]]
            self._layers.append((product, (sums.numpy(), cell.numpy(), cell.numpy(), hidden)))
        whole = new(len(output[0]), self.state.shape[1])
        for place, part in zip(self._h, output[0].split(width, 1)):
            whole[:, place] = part
        self.raw = new(batch, len(output[0]))
        self._output = (output[1].contiguous(), self.state, whole.t().contiguous(), self.raw)
        self._cost, self._draw = UNIT * batch * width, (np.float32(least), np.float32(correlation))
        self._looks: Any = None
        self.phi = new(batch, 1)
        if window is not None:
            sums, kappa = new(batch, len(window.bias)), new(batch, len(window.bias) // 3)
            self.phi = new(batch, window.codes.shape[1] + 1)
            asks = (window.bias.contiguous(), self.state[:, self._h[0]], window.weight.t().contiguous(), sums)
            moved = (sums.numpy(), kappa.numpy(), kappa.numpy(), *_pool.arrays(window.codes, window.lengths))
            self._looks = asks, (*moved, self.phi.numpy(), self.state.numpy()[:, self._w])
            self._characters = CHARACTER * self.phi.numel()

    def step(self, point: Tensor) -> None:
        """The network sees a point (B, 3): then ``phi`` (B, U + 1) is where its window is, and ``raw`` (B, 1 + 6M) what
        it expects next."""
        from regard.kernels import _lstm_loops as loops

        batch = len(self.state)
        self.state[:, self._x] = point
        for number, (product, cell) in enumerate(self._layers):
            _add(*product)
            _pool.run(loops.cell, batch, self._cost, *cell)
            if number == 0 and self._looks is not None:
                asks, moved = self._looks
                _add(*asks)
                _pool.run(loops.window, batch, self._characters, *moved)
        _add(*self._output)

    def draw(self, noise: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
        """A point (B, 3) of what is expected, with noise (B, 4) and a bias (B,)."""
        from regard.kernels import _lstm_loops as loops

        _pool.run(loops.draw, len(out), self._cost, self.raw.numpy(), noise, bias, *self._draw, out)


def _add(bias: Tensor, rows: Tensor, weight: Tensor, out: Tensor) -> None:
    if len(rows) == 1:
        torch.addmv(bias, weight.t(), rows[0], out=out[0])
    else:
        torch.addmm(bias, rows, weight, out=out)
