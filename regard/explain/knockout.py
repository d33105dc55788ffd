"""Head knock-out: a metric without each head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from regard.tape import change, record

ROWS = 256
"""Items in one call; with more, copies side by side are no faster than one after the other."""
_ALONE = "leave batch= away, and measure without each head one by one"


@dataclass(eq=False)
class Knockout:
    """What :func:`knockout` measured.

    Attributes:
        whole: the metric with all heads.
        without: for each attention, by name, the metric without each of its heads, (H,).
    """

    whole: float
    without: dict[str, Tensor] = field(default_factory=dict)

    @property
    def change(self) -> dict[str, Tensor]:
        """The metric without each head minus the metric with all."""
        return {name: values - self.whole for name, values in self.without.items()}

    def __str__(self) -> str:
        """A row for each attention, a column for each head: how the metric changes."""
        width = max([4, *map(len, self.without)])
        most = max([1, *(len(values) for values in self.without.values())])
        lines = [f"{'':{width}}  " + "".join(f"{head:>9}" for head in range(most))]
        lines.append(f"{'all':{width}}  {self.whole:9.4f}")
        for name, values in self.change.items():
            lines.append(f"{name:{width}}  " + "".join(f"{value:+9.4f}" for value in values.tolist()))
        return "\n".join(lines)


def knockout(
    model: nn.Module,
    measure: Callable[..., Any],
    *,
    batch: Any = None,
    only: str | Sequence[str] = "*",
    at_once: int | None = None,
) -> Knockout:
    """Measure a model without each of its heads, one at a time (Michel, Levy & Neubig 2019, arXiv:1905.10650, table 1):
    the weights of the head are zeroed, and nothing else is changed.

    Args:
        model: any module of which :func:`regard.record` sees the attentions.
        measure: without ``batch``, runs the model and gives a number; it is called once for each head. With it, takes
            the batch and gives (B,) numbers, one for each item, whose mean is taken.
        batch: tensors with the batch first, in dicts, lists or tuples. Copies of a small one are put side by side, each
            with a different head zeroed, so that several heads cost one call.
        only: which attentions, by name or pattern.
        at_once: copies of the batch in one call; by default as many as have 256 items together.

    An attention without heads counts as one head.
    """
    with torch.no_grad():
        with record(model, only=only, last=1) as tape:
            metric = measure() if batch is None else measure(batch)
        intact = float(torch.as_tensor(metric, dtype=torch.float64).mean())
        heads = {name: _heads(tape[name].calls[0]) for name in tape}
        if not heads:
            raise ValueError(f"no attention called {only!r} was seen while measuring")
        places = [(name, head) for name, count in heads.items() for head in range(count or 1)]
        values: list[float] = []

        def one(name: str, head: int) -> AbstractContextManager[Any]:
            return change(model, name, head=head if heads[name] else None, weights="zero")

        if batch is None:
            for place in places:
                with one(*place):
                    values.append(float(measure()))
        else:
            size = _size(batch)
            at_once = at_once or max(1, ROWS // max(1, size))
            for first in range(0, len(places), at_once):
                part = places[first : first + at_once]
                several = len(part) > 1
                with _without(model, part, heads, size) if several else one(*part[0]):
                    measured = torch.as_tensor(measure(_copies(batch, len(part)) if several else batch))
                if measured.shape != (size * len(part),):
                    raise ValueError(
                        f"measure was given {size * len(part)} items and returned {tuple(measured.shape)}, "
                        f"not a number for each: {_ALONE}"
                    )
                values += measured.double().unflatten(0, (len(part), size)).mean(1).tolist()
    out = Knockout(intact)
    for (name, _), value in zip(places, values, strict=True):
        out.without[name] = torch.cat([out.without.get(name, torch.empty(0)), torch.tensor([value])])
    return out


@contextmanager
def _without(
    model: nn.Module, part: Sequence[tuple[str, int]], heads: Mapping[str, int | None], size: int
) -> Iterator[None]:
    """Copy k of the batch without the head that ``part`` has at k."""

    def zeroed(name: str, copies: list[tuple[int, int]]) -> Callable[[Tensor], Tensor]:
        def change_weights(weights: Tensor) -> Tensor:
            if weights.shape[0] != size * len(part):
                raise ValueError(
                    f"{name!r} has weights {tuple(weights.shape)} for a batch of {size * len(part)}: {_ALONE}"
                )
            keep = torch.ones(weights.shape[:2], dtype=weights.dtype, device=weights.device)
            for copy, head in copies:
                keep[copy * size : (copy + 1) * size, head if heads[name] else slice(None)] = 0
            return weights * keep.reshape(*keep.shape, *[1] * (weights.ndim - 2))

        return change_weights

    with ExitStack() as stack:
        for name in dict.fromkeys(name for name, _ in part):
            copies = [(copy, head) for copy, (module_name, head) in enumerate(part) if module_name == name]
            stack.enter_context(change(model, name, weights=zeroed(name, copies)))
        yield


def _heads(look: Any) -> int | None:
    """The number of heads of a recorded call; None if its weights have no dimension for heads."""
    if look.edges is not None:
        return look.shape[1]
    return look.shape[-3] if len(look.shape) >= 4 else None


def _copies(batch: Any, count: int) -> Any:
    return tree_map(lambda leaf: torch.cat([leaf] * count) if _rows(leaf) else leaf, batch)


def _rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.ndim > 0


def _size(batch: Any) -> int:
    sizes = {leaf.shape[0] for leaf in tree_leaves(batch) if _rows(leaf)}
    if len(sizes) != 1:
        raise ValueError(f"the tensors of a batch have the batch first, all of one size, not {sorted(sizes)}")
    return sizes.pop()
