"""One call of an attention made of any parts, and what the oracle says of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

import oracle
import regard
from contracts import builders
from contracts.builders import Dims
from regard import parts
from strategies import Problem, problems, seeds

NONE_OR_ANY = "none or any"
KERNELS = ("plain", "chunked", "fused")
FAST = ("additive", "perceptron", "location_aware", "dot", "scaled_dot", "general", "cosine", "gaussian", "mlp_dot")
"""The scores with fast twins."""


@dataclass
class Case:
    """An attention, its inputs, and the extra tensors that its parts want at the call."""

    problem: Problem
    names: dict[str, str | None]  # window, score, normalizer, refiner
    attention: regard.Attention
    extras: dict[str, np.ndarray]
    dtype: torch.dtype = torch.float64

    def __repr__(self) -> str:
        chosen = ", ".join(f"{kind}={name}" for kind, name in self.names.items() if name)
        return f"Case({chosen}, {self.dtype}, {self.problem}, extras={list(self.extras)})"

    def part(self, kind: str) -> Any:
        return getattr(self.attention, kind)

    def to(self, dtype: torch.dtype) -> Case:
        """The same in another precision; the oracle is then asked about the rounded numbers."""
        p = self.problem

        def rounded(x: np.ndarray) -> np.ndarray:
            return torch.from_numpy(x).to(dtype).double().numpy()

        problem = replace(p, query=rounded(p.query), key=rounded(p.key), value=rounded(p.value))
        extras = {name: rounded(x) for name, x in self.extras.items()}
        return Case(problem, self.names, deepcopy(self.attention).to(dtype), extras, dtype)

    def tensors(self, *, grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        p = self.problem
        made = tuple(torch.from_numpy(x.copy()).to(self.dtype) for x in (p.query, p.key, p.value))
        return tuple(t.requires_grad_(grad) for t in made)  # type: ignore[return-value]

    def mask(self) -> Tensor | None:
        return None if self.problem.mask is None else torch.from_numpy(self.problem.mask)

    def keywords(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(x.copy()).to(self.dtype) for name, x in self.extras.items()}

    def run(self, kernel: str | None = None, *, inputs: Any = None, **changed: Any) -> regard.Attended:
        """Call the attention; ``kernel`` None leaves the choice to the dispatcher."""
        query, key, value = inputs or self.tensors()
        with nullcontext() if kernel is None else regard.kernels.use(kernel):
            return self.attention(query, key, value, **{"mask": self.mask(), **self.keywords(), **changed})

    def expect(self, observed: Tensor | None = None) -> oracle.Seen:
        """What the oracle says, stacked over the batch; ``observed`` weights tell what a sampling part drew."""
        p, batch = self.problem, self.problem.batch
        t, s, e = p.queries, p.keys, p.value.shape[-1]
        numbers = [np.zeros((*batch, t, n)) for n in (e, s, s)]
        out = oracle.Seen(*numbers, *(np.zeros((*batch, t, n), bool) for n in (s, s)), np.ones((*batch, t), bool))
        for index in np.ndindex(*batch):
            seen = self._one(index, None if observed is None else builders.array(observed[index]))
            for field in fields(out):
                getattr(out, field.name)[index] = getattr(seen, field.name)
        return out

    def _one(self, index: tuple[int, ...], observed: np.ndarray | None) -> oracle.Seen:
        p, names = self.problem, self.names
        reachable = p.rows[index].any(0)
        bound = {
            kind: builders.entry(kind + "s", name).numbers(self.part(kind)) for kind, name in names.items() if name
        }
        window = None
        if names["window"]:
            position = partial(getattr(oracle, names["window"]), **bound["window"])
            factor = getattr(oracle, names["window"] + "_factor")
            window = oracle.Window(position, factor, self.part("window").radius)
        return oracle.attend(
            p.query[index],
            p.key[index],
            p.value[index],
            p.rows[index],
            score=partial(getattr(oracle, names["score"]), **bound["score"]),
            normalizer=partial(getattr(oracle, names["normalizer"]), **bound["normalizer"]),
            window=window,
            observed=observed if self.part("normalizer").stochastic else None,
            refiner=getattr(oracle, names["refiner"]) if names["refiner"] else None,
            score_extras=self._rows("score", index),
            refiner_extras=self._rows("refiner", index),
            remembers="state" in self.part("score").needs,
            start_score=oracle.uniform_start(reachable),
            start_refiner=oracle.first_start(reachable),
        )

    def _rows(self, kind: str, index: tuple[int, ...]) -> list[dict[str, Any]] | None:
        part = self.part(kind)
        if part is None:
            return None
        mine = {name: x[index] for name, x in self.extras.items() if name in part.needs}
        return [{name: x[t] for name, x in mine.items()} for t in range(self.problem.queries)]

    def tolerance(self, seen: oracle.Seen) -> float:
        """What rounding may do: a few units of the precision, times how large the numbers on the way became."""
        p = self.problem
        size = float(np.abs(seen.scores).max(initial=0.0))
        size += float((p.query**2).sum(-1).max(initial=0.0) + (p.key**2).sum(-1).max(initial=0.0))
        size += float(np.abs(p.value).max(initial=0.0))
        eps = torch.finfo(self.dtype).eps
        least = builders.entry("normalizers", self.names["normalizer"]).rounding(eps)
        return max(eps * (100 + 8 * min(size, 1e3)), least)


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    score: str | Sequence[str] | None = None,
    normalizer: str | Sequence[str] | None = None,
    window: str | None = NONE_OR_ANY,
    refiner: str | None = NONE_OR_ANY,
    stochastic: bool = True,
    **shapes: Any,
) -> Case:
    """A case with the named parts, or one of several; whatever is not named may be anything."""
    seed = draw(seeds)
    rng = np.random.default_rng((seed, 2))

    def pick(kind: str, named: str | Sequence[str] | None) -> str:
        if isinstance(named, str):
            return named
        return str(rng.choice(parts.names(kind) if named is None else list(named)))

    def maybe(kind: str, named: str | None) -> str | None:
        if named != NONE_OR_ANY:
            return named
        return None if rng.random() < 0.6 else str(rng.choice(parts.names(kind)))

    score, window, refiner = pick("scores", score), maybe("windows", window), maybe("refiners", refiner)
    if normalizer is None and (refiner is not None or not stochastic):
        # What a sampling normalizer drew cannot be told from weights that were refined afterwards.
        normalizer = builders.deterministic()
    normalizer = pick("normalizers", normalizer)
    if parts.find("normalizers", normalizer).stochastic:
        refiner = None
    shapes.setdefault("same_width", parts.find("scores", score).same_width)
    problem = draw(problems(seed=seed, **shapes))
    return assemble(problem, {"window": window, "score": score, "normalizer": normalizer, "refiner": refiner})


def assemble(problem: Problem, names: dict[str, str | None]) -> Case:
    """The case of these parts and numbers; everything else follows from the problem's seed."""
    rng = problem.rng()
    # Hidden widths on both sides of what a vector register holds.
    dims = Dims(problem.query.shape[-1], problem.key.shape[-1], problem.keys, int(rng.choice([1, 3, 3, 8, 19])))
    built = {kind: builders.build(kind + "s", name, dims, rng) for kind, name in names.items() if name}
    attention = regard.Attention(**built).double()
    extras: dict[str, np.ndarray] = {}
    for kind, name in names.items():
        if name:
            extras |= builders.entry(kind + "s", name).extras(rng, (*problem.batch, problem.queries))
    return Case(problem, names, attention, extras)


def named(**chosen: str) -> dict[str, str | None]:
    """All four parts, plain ones where none is named."""
    return {"window": None, "score": "scaled_dot", "normalizer": "softmax", "refiner": None, **chosen}


def each_part(*, repeatable: bool = False, stochastic: bool = True, positional: bool = False) -> list[Any]:
    """Every registered part of the recipe once, among plain ones, as pytest parameters.

    ``repeatable`` leaves out those that sample (Hard stays, :func:`steady` makes it choose the best),
    ``stochastic=False`` Hard too; ``positional`` keeps only those that declare that the order of keys matters.
    """
    found = []
    for kind in ("score", "normalizer", "window", "refiner"):
        for name in parts.names(kind + "s"):
            cls = parts.find(kind + "s", name)
            draws = getattr(cls, "stochastic", False)
            left_out = draws and (not stochastic or (repeatable and name != "hard"))
            if not left_out and (cls.positional or not positional):
                found.append(pytest.param(named(**{kind: name}), id=f"{kind}-{name}"))
    return found


def steady(case: Case) -> Case:
    """Hard attention choosing the best key instead of drawing one, so that two calls can be compared."""
    if isinstance(case.part("normalizer"), regard.normalizers.Hard):
        case.attention.normalizer = regard.normalizers.Hard("argmax")
    return case


def simple(
    names: dict[str, str | None],
    *,
    batch: tuple[int, ...] = (2,),
    queries: int = 3,
    keys: int = 5,
    width: int = 4,
    mask: np.ndarray | None = None,
    seed: int = 0,
) -> Case:
    """A fixed case; values are as wide as keys, so that every kernel is willing."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(*batch, n, width)) for n in (queries, keys, keys)]
    rows = oracle.mask_rows(mask, batch, queries, keys)
    return assemble(Problem(batch, *made, mask, rows, seed), names)


def leaves(case: Case, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Whatever has a gradient: the inputs and the parameters."""
    return [*inputs, *case.attention.parameters()]


def gradients(case: Case, kernel: str | None, *, weights: bool = False) -> list[Tensor]:
    """Gradients of one fixed linear function of the context (and the weights), for inputs and parameters."""
    inputs = case.tensors(grad=True)
    out = case.run(kernel, inputs=inputs)
    loss = (out.context * slopes(out.context)).sum()
    if weights:
        loss = loss + (out.weights * slopes(out.weights)).sum()
    found = torch.autograd.grad(loss, leaves(case, inputs), allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves(case, inputs), strict=True)]


def slopes(x: Tensor) -> Tensor:
    """A fixed direction, in which to take derivatives of something of the shape of ``x``."""
    return torch.linspace(-1, 2, x.numel(), dtype=x.dtype).reshape(x.shape)
