"""Give an attention other weights than it computes: :func:`change`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._lazy import nearest
from regard.edges import Edges, sum_edges
from regard.tape.intercept import Change, here
from regard.tape.watch import Site, Watcher

Weights = str | Tensor | Callable[[Tensor], Tensor]
WAYS = ("zero", "keep", "uniform", "permute")


@contextmanager
def change(
    model: nn.Module,
    name: str | Sequence[str],
    *,
    weights: Weights,
    head: int | Sequence[int] | None = None,
    seed: int = 0,
) -> Iterator[dict[str, int]]:
    """Until the block ends and in this thread, compute attentions of ``model`` with other weights.

    Args:
        model: any module of which :func:`regard.record` can see the attentions.
        name: that of an attention as :func:`regard.record` names it, a pattern (``"decoder.layers.*.cross"``), or
            several. Each must fit an attention that runs inside the block.
        weights: a function weights → weights; a tensor to put there; or ``"zero"``; ``"keep"``, which zeroes all heads
            but these; ``"uniform"``, which spreads what a row of weights sums to evenly over the keys that the query
            may attend; ``"permute"``, which shuffles each row among these keys. Zeroed heads leave a context of 0;
            nothing is normalized again.
        head: which head or heads, numbered from 0; all if None. A function gets their weights: (B, T, S) of one head,
            (B, n, T, S) of several, (B, H, T, S) of all; along edges (E,), (E, n) and (E, H).
        seed: of the shuffling.

    Yields how many calls of each attention have been changed so far. Changes of nested blocks follow one another, and
    :func:`regard.record` sees their result. Weights are changed before dropout, and gradients flow through a function.

    Raises ValueError where it cannot be done: the attention runs in a fused kernel that takes no weights, is compiled,
    or shows its weights only afterwards.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"change takes an nn.Module, not {type(model).__name__}")
    if isinstance(weights, str) and weights not in WAYS:
        raise ValueError(f"weights={weights!r} is not a way to change weights: {nearest(weights, WAYS)}")
    if weights == "keep" and head is None:
        raise ValueError('weights="keep" zeroes the other heads of an attention: say which to keep, head=')
    heads = [head] if isinstance(head, int) else None if head is None else list(head)
    changer = _Changer(model, [name] if isinstance(name, str) else list(name), weights, heads, seed)
    changer.squeeze = isinstance(head, int)
    changer.start()
    try:
        yield changer.changed
    finally:
        changer.stop()
    changer.check()


class _Changer(Watcher):
    changes: ClassVar[bool] = True

    def __init__(self, model: nn.Module, patterns: list[str], way: Weights, heads: list[int] | None, seed: int):
        super().__init__(model)
        self.patterns, self.way, self.heads = patterns, way, heads
        self.squeeze = False  # does the function get the weights of one head, without a dimension for heads?
        self.generator = torch.Generator().manual_seed(seed)
        self.changed: dict[str, int] = {}

    def fits(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def change(self, site: Site) -> Change | None:
        if not self.fits(site.name):
            return None
        self.changed[site.name] = self.changed.get(site.name, 0) + 1
        return lambda weights, allowed: self._apply(site.name, weights, allowed)

    def refuse(self, site: Site, reason: str) -> None:
        if self.fits(site.name):
            raise ValueError(f"the weights of {site.name!r} cannot be changed: {reason}")

    def late(self, site: Site, kind: str) -> None:
        self.refuse(site, f"{kind} shows them only when it has used them")

    def output(self, output: Any) -> Any:
        """Weights that are written out were changed where they multiply the values; a module that returns them, too,
        returns the changed ones."""
        if type(output) is not tuple:
            return None
        traces = [here.traces.find((item,)) for item in output]
        if not any(trace is not None and trace.origin.changed is not None for trace in traces):
            return None
        with torch._C.DisableTorchFunction():
            return tuple(
                item if trace is None or trace.origin.changed is None else trace.instead()
                for item, trace in zip(output, traces)
            )

    def check(self) -> None:
        """Raise an error if a pattern has changed nothing."""
        for pattern in self.patterns:
            if any(fnmatchcase(name, pattern) for name in self.changed):
                continue
            for name, reason in self.unseen().items():
                if fnmatchcase(name, pattern):
                    raise ValueError(f"the weights of {name!r} could not be changed: {reason}")
            if not self.places:
                why = "saw none" if self.entered else "was not run inside the block, in the thread that opened it"
                raise ValueError(f"no attention called {pattern!r} was changed: the model {why}")
            raise ValueError(f"no attention called {pattern!r} ran inside the block: {nearest(pattern, self.places)}")

    def _apply(self, name: str, weights: Tensor, allowed: Any) -> Tensor:
        axis = 1 if isinstance(allowed, Edges) else weights.ndim - 3
        if self.heads is None:
            return self._new(name, weights, allowed)
        shape = tuple(weights.shape)
        if not isinstance(allowed, Edges) and weights.ndim < 4:
            raise ValueError(f"{name!r} has no heads, its weights are {shape}: leave head= away")
        count = shape[axis]
        if any(not -count <= head < count for head in self.heads):
            raise ValueError(f"head={self.heads}, but {name!r} has {count} heads, numbered from 0; weights {shape}")
        index = torch.tensor([head % count for head in self.heads], device=weights.device)
        if isinstance(allowed, Tensor):
            allowed = allowed.expand(shape).index_select(axis, index)
        chosen = weights.index_select(axis, index)
        if self.way == "keep":
            return torch.zeros_like(weights).index_copy(axis, index, chosen)
        if self.squeeze and not isinstance(self.way, str):
            new = self._new(name, chosen.squeeze(axis), allowed).unsqueeze(axis)
        else:
            new = self._new(name, chosen, allowed)
        return weights.index_copy(axis, index, new)

    def _new(self, name: str, weights: Tensor, allowed: Any) -> Tensor:
        """The weights that take the place of these."""
        if self.way == "zero":
            return torch.zeros_like(weights)
        if self.way == "uniform":
            return _even(weights, allowed)
        if self.way == "permute":
            return _shuffled(weights, allowed, self.generator)
        shape = tuple(weights.shape)
        if isinstance(self.way, Tensor):
            try:
                return self.way.to(weights).expand(shape)
            except RuntimeError:
                raise ValueError(f"weights= {tuple(self.way.shape)} do not fit {name!r}, which has {shape}") from None
        assert not isinstance(self.way, str)
        new = self.way(weights)
        if not isinstance(new, Tensor) or tuple(new.shape) != shape:
            returned = tuple(new.shape) if isinstance(new, Tensor) else type(new).__name__
            raise ValueError(f"the function that changes {name!r} was given weights {shape} and returned {returned}")
        return new.to(weights.dtype)


def _even(weights: Tensor, allowed: Tensor | Edges | None) -> Tensor:
    """What each row sums to, spread evenly over its allowed keys."""
    if isinstance(allowed, Edges):
        target = allowed.index[1]
        counts = torch.bincount(target, minlength=allowed.nodes[1])[target]
        return sum_edges(weights, allowed)[target] / counts.unsqueeze(1).to(weights.dtype)
    total = weights.sum(dim=-1, keepdim=True)
    if allowed is None:
        return (total / weights.shape[-1]).expand_as(weights)
    return torch.where(allowed, total / allowed.sum(dim=-1, keepdim=True).clamp_min(1), 0.0).to(weights.dtype)


def _shuffled(weights: Tensor, allowed: Tensor | Edges | None, generator: torch.Generator) -> Tensor:
    """Each row in another order, among its allowed keys; along edges among those of each target."""
    random = torch.rand(weights.shape, generator=generator, dtype=torch.float64).to(weights.device)
    if isinstance(allowed, Edges):
        target = allowed.index[1].unsqueeze(1)
        source, place = torch.argsort(target + random, dim=0), torch.argsort(target, dim=0, stable=True)
        return weights.scatter(0, place.expand_as(source), weights.gather(0, source))
    if allowed is None:
        return weights.gather(-1, torch.argsort(random, dim=-1))
    allowed = allowed.expand(weights.shape)
    source = torch.argsort(torch.where(allowed, random, 2.0), dim=-1)
    place = torch.argsort((~allowed).to(torch.uint8), dim=-1, stable=True)
    return weights.scatter(-1, place, weights.gather(-1, source))
