"""Weights in the order in which oneDNN reads them, for models that only answer.

A matrix product on a CPU first copies the weights into the order of its innermost loop. Where the same weights meet a
few rows at a time, thousands of times, it pays to keep that copy: a beam's products are 1.2 to 3 times as fast.
"""

from __future__ import annotations

import copy
import platform
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

_Model = TypeVar("_Model", bound=nn.Module)
_ROWS = 64  # for which oneDNN chooses the order
_LITTLE = 2**21  # products of a call below which oneDNN takes longer to begin


def packed(model: _Model) -> _Model:
    """A twin of the model that shares its weights, with linear layers in oneDNN's order; the model itself where that
    cannot be. It gives what the model gives, up to rounding, but has no gradients, and does not follow later changes of
    the weights."""
    linear = [module for module in model.modules() if type(module) is nn.Linear]
    if not linear or not all(_fits(module.weight) for module in linear):
        return model
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for module in list(twin.modules()):
        for (name, child), (after, following) in pairwise([*module.named_children(), ("", None)]):
            if type(child) is nn.Linear:
                bent = isinstance(module, nn.Sequential) and type(following) is nn.ReLU
                setattr(module, name, _Packed(child, "relu" if bent else "none"))
                if bent:
                    setattr(module, after, nn.Identity())
    return twin


def twin(model: _Model) -> _Model:
    """:func:`packed`, made once, and anew after a change of the weights or of the model's ``config``."""
    versions = tuple(0 if weight.is_inference() else weight._version for weight in model.parameters())
    state = (getattr(model, "config", None), versions)
    known = _twins.get(model)
    if known is None or known[0] != state:
        made = packed(model)
        known = _twins[model] = (state, None if made is model else made)
    return model if known[1] is None else known[1]


_twins: WeakKeyDictionary[nn.Module, tuple[Any, Any]] = WeakKeyDictionary()


def _fits(weight: Tensor) -> bool:
    here = platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()
    return here and weight.device.type == "cpu" and weight.dtype == torch.float32


class _Packed(nn.Linear):
    """A linear layer without gradients, and ``then`` none or relu."""

    def __init__(self, linear: nn.Linear, then: str):
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.then = linear.in_features, linear.out_features, then
        self.weight, self.bias = linear.weight, linear.bias
        with torch.no_grad():
            self.ordered = torch.ops.mkldnn._reorder_linear_weight(linear.weight, _ROWS)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.numel() // max(x.shape[-1], 1)
        if rows * self.weight.numel() < _LITTLE:
            return super().forward(x).relu() if self.then == "relu" else super().forward(x)
        return torch.ops.mkldnn._linear_pointwise(x, self.ordered, self.bias, self.then, [], "")
