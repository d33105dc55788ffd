"""The result of one attention call, and the hook that sees every call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.parts import Parts

Want = Literal["lazy"] | bool
"""Are weights computed when they are read, now, or never?"""


def _on_demand(slot: str) -> Any:
    """A field that may hold a function instead of a tensor, and calls it when it is first read.

    It is a property because torch.compile of torch 2.6 follows no other descriptor."""

    def read(record: Attended) -> Tensor | None:
        value = getattr(record, slot)
        if callable(value):
            value = value()
            setattr(record, slot, value)
        return value

    return property(read, lambda record, value: setattr(record, slot, value))


@dataclass(init=False, eq=False, repr=False)
class Attended:
    """The result of one attention call.

    Attributes:
        context: (…, T, E), the weighted sum of the values.
        weights: (…, T, S), before dropout. Computed when first read, unless the context needed them anyway; None after
            ``weights=False``. For a loss on weights, read them before ``backward()``.
        scores: (…, T, S), what was normalized, before masking; −inf where a window left a key out.
        state: what the next call takes as ``state=``; None for most parts.
        log_prob: (…, T), log-probability of what a sampling normalizer drew.
        edges: of :func:`regard.attend_edges`: the edges that the rows of weights and scores, (E, H), belong to.
        place: (…, T), the middle of each query's window: Luong's pₜ, as real-valued as the window makes it.
    """

    context: Tensor
    weights: Tensor | None = None
    scores: Tensor | None = None
    state: Any = None
    log_prob: Tensor | None = None
    edges: Any = None
    place: Tensor | None = None

    def __init__(
        self,
        context: Tensor,
        weights: Tensor | Callable[[], Tensor] | None = None,
        scores: Tensor | Callable[[], Tensor] | None = None,
        state: Any = None,
        log_prob: Tensor | None = None,
        edges: Any = None,
        place: Tensor | None = None,
    ):
        self.context, self.state, self.log_prob, self.edges, self.place = context, state, log_prob, edges, place
        self._weights, self._scores = weights, scores  # not by the properties, which torch.compile of 2.6 cannot set

    def __repr__(self) -> str:
        weights = self._weights
        shown = tuple(weights.shape) if isinstance(weights, Tensor) else "when read" if weights else None
        return f"Attended(context={tuple(self.context.shape)}, weights={shown})"

    def __iter__(self) -> Any:
        raise TypeError("an Attended is a record and cannot be unpacked: read out.context and out.weights")

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("an Attended is a record and has no items: read out.context[…] or out.weights[…]")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Tensor, name):
            raise AttributeError(f"an Attended is not a tensor: write out.context.{name} or out.weights.{name}")
        raise AttributeError(f"Attended has no {name!r}; it has {_LISTED}")

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise TypeError(f"torch's {func.__name__} was given an Attended; give it out.context or out.weights")


Attended.weights, Attended.scores = _on_demand("_weights"), _on_demand("_scores")


def _flatten(out: Attended) -> tuple[list[Any], tuple[str, ...]]:
    fields = {name: out.__dict__.get("_" + name, out.__dict__.get(name)) for name in _FIELDS}
    present = {name: value for name, value in fields.items() if value is not None and not callable(value)}
    return list(present.values()), tuple(present)


def _unflatten(children: Iterable[Any], names: Iterable[str]) -> Attended:
    return Attended(**dict(zip(names, children, strict=True)))


_FIELDS = ("context", "weights", "scores", "state", "log_prob", "edges", "place")
_LISTED = ", ".join(_FIELDS[:-1]) + f" and {_FIELDS[-1]}"
# Lazy weights do not travel through vmap, export or a replica's return; `weights=True` makes them.
torch.utils._pytree.register_pytree_node(Attended, _flatten, _unflatten, serialized_type_name="regard.Attended")


class _Witness(threading.local):
    """The hook that sees every attention call of this thread: that of :mod:`regard.tape`, or None."""

    see: Callable[[Parts, Want, Callable[[Want, Parts], Attended]], Attended] | None = None
    """Given the parts, whether the caller wants weights, and a function that makes the call, with or without weights
    and with these or other parts; its result is the caller's."""


witness = _Witness()
