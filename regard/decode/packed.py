"""Weights in the order in which oneDNN reads them, for models that only answer.

A matrix product on a CPU first copies the weights into the order of its innermost loop. Where the same weights meet a
few rows at a time, thousands of times, as in a beam's steps, it pays to keep that copy.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels import few_rows, products
from regard.layers.stepwise import Stepwise
from regard.layers.transformer import Decoder

_Model = TypeVar("_Model", bound=nn.Module)
_ROWS = 64  # for which oneDNN chooses the order
_FEW = 4  # rows, for which weights as they are stored are faster
_LITTLE = 2**21  # products of a call below which oneDNN takes longer to begin


def packed(model: _Model) -> _Model:
    """A twin of the model that shares its weights, with linear layers in oneDNN's order; the model itself where that
    cannot be. It gives what the model gives, up to rounding, but has no gradients, and does not follow later changes of
    the weights."""
    linear = [module for module in model.modules() if type(module) is nn.Linear]
    if not linear or not all(_fits(weight) for weight in model.parameters()):
        return model
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for module in list(twin.modules()):
        for (name, child), (after, following) in pairwise([*module.named_children(), ("", None)]):
            if type(child) is nn.Linear:
                rectified = isinstance(module, nn.Sequential) and type(following) is nn.ReLU
                setattr(module, name, _Packed(child, "relu" if rectified else "none"))
                if rectified:
                    setattr(module, after, nn.Identity())
            elif type(child) in _CELLS and _CELLS[type(child)].fits(child):
                setattr(module, name, _CELLS[type(child)](child))
    return twin


def twin(model: _Model) -> _Model:
    """:func:`packed`, made once, and anew after a change of the weights or of the model's ``config``."""
    versions = tuple(0 if weight.is_inference() else weight._version for weight in model.parameters())
    state = (getattr(model, "config", None), versions)
    cached = _twins.get(model)
    if cached is None or cached[0] != state:
        packed_model = packed(model)
        cached = _twins[model] = (state, None if packed_model is model else packed_model)
    return model if cached[1] is None else cached[1]


_twins: WeakKeyDictionary[nn.Module, tuple[Any, Any]] = WeakKeyDictionary()


def _fits(weight: Tensor) -> bool:
    return products.ordering() and weight.device.type == "cpu" and weight.dtype == torch.float32


class _Packed(nn.Linear):
    """A linear layer without gradients, and ``then`` none or relu.

    oneDNN keeps a program for every number of rows that it has seen, and beams have many. Rows are filled up, so that
    there are few such numbers, and memory does not grow with the text.
    """

    def __init__(self, linear: nn.Linear, then: str):
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.then = linear.in_features, linear.out_features, then
        self.weight, self.bias = linear.weight, linear.bias
        with torch.no_grad():
            self.ordered = torch.ops.mkldnn._reorder_linear_weight(linear.weight, _ROWS)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.numel() // max(x.shape[-1], 1)
        if 0 < rows <= _FEW and few_rows.fits(x, self.weight):
            out = few_rows.linear(x, self.weight, self.bias)
            return out.relu_() if self.then == "relu" else out
        if rows * self.weight.numel() < _LITTLE:
            return super().forward(x).relu() if self.then == "relu" else super().forward(x)
        padding = -rows % (8 if rows < 64 else 32 if rows < 512 else 128)
        padded = functional.pad(x.reshape(rows, -1), (0, 0, 0, padding)) if padding else x
        out = torch.ops.mkldnn._linear_pointwise(padded, self.ordered, self.bias, self.then, [], "")
        return out[:rows].view(*x.shape[:-1], -1) if padding else out


class _LSTM(nn.Module):
    """An LSTM, of which a single step is one packed product a layer. oneDNN's own orders its weights each time."""

    def __init__(self, plain: nn.LSTM):
        super().__init__()
        self.plain = plain
        self.layers = nn.ModuleList()
        for layer in range(plain.num_layers):
            input_weight, hidden_weight, input_bias, hidden_bias = (
                getattr(plain, f"{name}_l{layer}") for name in _WEIGHTS
            )
            self.layers.append(_joined(torch.cat([input_weight, hidden_weight], 1), input_bias + hidden_bias))

    @staticmethod
    def fits(plain: nn.LSTM) -> bool:
        return plain.batch_first and plain.bias and not plain.bidirectional and not plain.proj_size

    def forward(self, x: Any, state: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        if state is None or not isinstance(x, Tensor) or x.ndim != 3 or x.shape[1] != 1:
            return self.plain(x, state)
        row, hidden, cells = x[:, 0], [], []
        for layer, before, cell in zip(self.layers, *state, strict=True):
            enter, forget, new, out = layer(torch.cat([row, before], -1)).chunk(4, -1)
            cells.append(forget.sigmoid() * cell + enter.sigmoid() * new.tanh())
            row = out.sigmoid() * cells[-1].tanh()
            hidden.append(row)
        return row[:, None], (torch.stack(hidden), torch.stack(cells))


class _GRUCell(nn.Module):
    """A step of a GRU by two packed products."""

    def __init__(self, plain: nn.GRUCell):
        super().__init__()
        self.input_size, self.hidden_size = plain.input_size, plain.hidden_size
        self.from_input = _joined(plain.weight_ih, plain.bias_ih)
        self.from_hidden = _joined(plain.weight_hh, plain.bias_hh)

    @staticmethod
    def fits(plain: nn.GRUCell) -> bool:
        return plain.bias

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        before = x.new_zeros(*x.shape[:-1], self.hidden_size) if before is None else before
        reset, update, new = self.from_input(x).chunk(3, -1)
        reset_hidden, update_hidden, new_hidden = self.from_hidden(before).chunk(3, -1)
        new = (new + (reset + reset_hidden).sigmoid() * new_hidden).tanh()
        return new + (update + update_hidden).sigmoid() * (before - new)


_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_CELLS: dict[type, Any] = {nn.LSTM: _LSTM, nn.GRUCell: _GRUCell, Decoder: Stepwise}


def _joined(weight: Tensor, bias: Tensor) -> _Packed:
    """A packed layer of these weights."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = (nn.Parameter(tensor.detach(), requires_grad=False) for tensor in (weight, bias))
    return _Packed(layer, "none")
