"""The shapes that the scores with fast twins boil down to. A score says which it is; a kernel asks only for that.

Dense kernels know :class:`DotForm` and :class:`AdditiveForm`, that of a single query :class:`SquareForm` too, those for
edges :class:`DotForm`, :class:`SplitForm` and :class:`LeakyForm`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import conv1d, leaky_relu

from regard.kernels.deferred import Deferred

_Form = TypeVar("_Form")
HALVES = (torch.bfloat16, torch.float16)


def lift(tensor: Tensor) -> Tensor:
    """In float32 what is half as precise: distances are differences of squares, or reciprocals of small numbers."""
    return tensor.float() if tensor.dtype in HALVES else tensor


@dataclass(frozen=True, eq=False)
class DotForm:
    """scale · q·k + bias + norm · ‖q‖²: query (…, T, D), key (…, S, D), bias (…, 1, S). The last is constant along a
    row, and so computed only for normalizers that are not shift-invariant, and for those who read scores.

    With a bias the terms nearly cancel, so that autocast must not round them."""

    query: Tensor
    key: Tensor
    scale: float = 1.0
    bias: Tensor | None = None
    norm: float | Tensor | None = None

    @property
    def shift(self) -> Tensor | None:
        """(…, T, 1), what is constant along a row."""
        return None if self.norm is None else self.query.square().sum(-1, keepdim=True) * self.norm

    @property
    def cast(self) -> bool:
        """Would autocast round what cancels?"""
        return self.bias is not None and torch.is_autocast_enabled(self.query.device.type)

    def scores(self, keys: Deferred | None = None) -> Tensor:
        """``keys`` are the keys, where their gradient is made later."""
        with torch.autocast(self.query.device.type, enabled=False) if self.cast else nullcontext():
            query = self.query if self.scale == 1.0 else self.query * self.scale
            scores = query @ self.key.mT if keys is None else keys.dots(query)
        for constant in (self.bias, self.shift):
            if constant is not None:
                scores.add_(constant)  # in place: a tensor more of this size costs more than the sum
        return scores


@dataclass(frozen=True, eq=False)
class SquareForm:
    """scale · ‖q − k‖²: query (…, T, D), key (…, S, D). The scale may be learned."""

    query: Tensor
    key: Tensor
    scale: float | Tensor

    def scores(self) -> Tensor:
        apart = self.query.unsqueeze(-2) - self.key.unsqueeze(-3)  # (…, T, S, D)
        squared = apart.square() if apart.requires_grad else apart.square_()
        return squared.sum(-1) * self.scale


@dataclass(frozen=True, eq=False)
class AdditiveForm:
    """v · tanh(q + k): query (…, T, D), key (…, S, D), weight (D,), or (H, D) with one v per head."""

    query: Tensor
    key: Tensor
    weight: Tensor

    def bend(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    def scores(self) -> Tensor:
        hidden = self.bend(self.query.unsqueeze(-2) + self.key.unsqueeze(-3))  # (…, T, S, D)
        weight = self.weight if self.weight.ndim == 1 else self.weight[:, None, :, None]
        return hidden @ weight if self.weight.ndim == 1 else (hidden @ weight).squeeze(-1)


@dataclass(frozen=True, eq=False)
class LocatedForm:
    """v · tanh(q + k + U f), f = F ∗ α: an :class:`AdditiveForm` with one v, which sees besides where the query before
    looked: last (…, S), convolved with filters (F, K), K odd, times mix (D, F)."""

    query: Tensor
    key: Tensor
    weight: Tensor
    last: Tensor
    filters: Tensor
    mix: Tensor

    def seen(self) -> Tensor:
        """U f, (…, S, D)."""
        leading, length = self.last.shape[:-1], self.last.shape[-1]
        if length == 0:
            return torch.zeros_like(self.key)
        rows, kernel = self.last.reshape(-1, 1, length), self.filters.shape[-1]
        features = conv1d(rows, self.filters.unsqueeze(1), padding=kernel // 2).mT  # (N, S, F)
        return (features @ self.mix.mT).reshape(*leading, length, len(self.mix))

    def joined(self) -> AdditiveForm:
        """The same with what is seen added to the keys."""
        return AdditiveForm(self.query, self.key + self.seen(), self.weight)

    def scores(self) -> Tensor:
        return self.joined().scores()


@dataclass(frozen=True, eq=False)
class LeakyForm(AdditiveForm):
    """v · LeakyReLU(q + k), shaped as its parent."""

    slope: float = 0.2

    def bend(self, x: Tensor) -> Tensor:
        return leaky_relu(x, self.slope)


@dataclass(frozen=True, eq=False)
class SplitForm:
    """LeakyReLU(q + k) of one number for each query, (…, T, 1), and one for each key, (…, S, 1)."""

    query: Tensor
    key: Tensor
    slope: float = 0.2

    def scores(self) -> Tensor:
        return leaky_relu(self.query + self.key.mT, self.slope)


@dataclass(frozen=True, eq=False)
class TiedForm:
    """A :class:`SplitForm` of nodes that look at each other: query and key of a node are its row times one vector each,
    and the row is also the value. rows (N, H, D), weight (2, H, D), the vectors for queries and for keys."""

    rows: Tensor
    weight: Tensor
    slope: float = 0.2


@dataclass(frozen=True, eq=False)
class Featured:
    """Beside a form for edges: features (E, K) of the edges. Times ``key``, (H, D, K), they are added to a projected
    key, as they are if it is None; times ``value``, (H, F, K), to a value, unless it is None."""

    features: Tensor
    key: Tensor | None = None
    value: Tensor | None = None

    def keys(self, keys: Tensor) -> Tensor:
        """Projected keys of the edges, (E, H, D), with their features."""
        return keys + (self.features.unsqueeze(1) if self.key is None else self._times(self.key)).to(keys.dtype)

    def values(self, values: Tensor) -> Tensor:
        """Values of the edges, (E, H, F), with their features if those take part."""
        return values if self.value is None else values + self._times(self.value).to(values.dtype)

    def _times(self, weight: Tensor) -> Tensor:
        return (self.features @ weight.flatten(0, 1).mT).unflatten(-1, weight.shape[:2])


# torch.compile of torch 2.6 understands neither vars() of a record nor dataclasses.replace().


def tensors_of(form: Any) -> dict[str, Tensor]:
    """The fields of a form that hold a tensor."""
    return {name: value for name, value in _fields(form).items() if isinstance(value, Tensor)}


def replaced(form: _Form, **changes: Any) -> _Form:
    """The form with other values in some fields."""
    return type(form)(**{**_fields(form), **changes})


def _fields(form: Any) -> dict[str, Any]:
    return {name: getattr(form, name) for name in form.__match_args__}
