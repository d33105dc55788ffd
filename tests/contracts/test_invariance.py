"""What must not matter: batch mates, padding, the order of keys, memory layout, how queries are cut into calls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import oracle
import regard
from contracts.part_cases import KERNELS, Case, cases, each_part, gradients, simple, slopes, steady
from contracts.test_gradients import dtype_of

ALL_KERNELS = [*KERNELS, None]


def item(case: Case, b: int) -> Case:
    """One item of the batch, alone."""
    p = case.problem
    mask = p.mask if p.mask is None or p.mask.ndim == 1 else p.mask[b : b + 1]
    cut = {name: getattr(p, name)[b : b + 1] for name in ("query", "key", "value", "rows")}
    problem = replace(p, batch=(1, *p.batch[1:]), mask=mask, **cut)
    return replace(case, problem=problem, extras={name: x[b : b + 1] for name, x in case.extras.items()})


def close(a: Tensor, b: Tensor, what: str = "") -> None:
    limit = 1e-10 if a.dtype == torch.float64 else 2e-5
    torch.testing.assert_close(a, b, atol=limit, rtol=limit, msg=lambda m: f"{what}: {m}")


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_batch_mates_do_not_matter(names: dict, kernel: str | None) -> None:
    """An item alone gives what it gives in company, even when its mates are NaN and infinite."""
    case = steady(simple(names, batch=(3,), mask=oracle.mask_lengths([5, 3, 4], 5), seed=11)).to(dtype_of(kernel))
    together = case.run(kernel)
    for b in range(3):
        alone = item(case, b).run(kernel)
        close(alone.context[0], together.context[b], "context")
        close(alone.weights[0], together.weights[b], "weights")
    query, key, value = case.tensors()
    for x in (query, key, value):
        x[1], x[2] = torch.nan, torch.inf
    spoiled = case.run(kernel, inputs=(query, key, value))
    close(spoiled.context[0], together.context[0], "context beside NaN")
    close(spoiled.weights[0], together.weights[0], "weights beside NaN")


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_padded_equals_unpadded(names: dict, kernel: str | None) -> None:
    """Three rows of rubbish behind the keys, masked out, change neither results nor gradients."""
    case = steady(simple(names, keys=4, seed=12)).to(dtype_of(kernel))
    query, key, value = case.tensors(grad=True)
    rubbish = torch.full((2, 3, 4), 1e3, dtype=case.dtype)
    attention = case.attention
    if names["score"] == "location":  # it must have room for the padding
        attention.score.query.weight.data = torch.cat([attention.score.query.weight.data] * 3)
        attention.score.max_length *= 3
    bare = case.run(kernel, inputs=(query, key, value))
    padded = case.run(
        kernel,
        inputs=(query, torch.cat([key, rubbish], 1), torch.cat([value, -rubbish], 1)),
        mask=regard.masks.lengths(torch.tensor([4, 4])),
    )
    close(padded.context, bare.context, "context")
    close(padded.weights[..., :4], bare.weights, "weights")
    assert not padded.weights[..., 4:].any()
    if bare.context.requires_grad:
        expected = torch.autograd.grad(
            (bare.context * slopes(bare.context)).sum(), (query, key, value), allow_unused=True
        )
        found = torch.autograd.grad(
            (padded.context * slopes(padded.context)).sum(), (query, key, value), allow_unused=True
        )
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                close(a, b, "gradient")


def test_the_order_of_keys_matters_only_where_declared() -> None:
    """Permuting keys and values together permutes the weights and leaves the context, unless a part is positional."""

    @given(cases(window=None, refiner=None, stochastic=False), st.sampled_from([None, "plain", "chunked"]))
    def check(case: Case, kernel: str | None) -> None:
        if any(part is not None and part.positional for part in (case.part("score"), case.part("normalizer"))):
            return
        p = case.problem
        order = case.problem.rng().permutation(p.keys)
        mask = None if p.mask is None else p.mask[..., order]
        moved = replace(p, key=p.key[..., order, :], value=p.value[..., order, :], mask=mask, rows=p.rows[..., order])
        before, after = case.run(kernel), replace(case, problem=moved).run(kernel)
        limit = case.tolerance(case.expect())
        torch.testing.assert_close(after.weights, before.weights[..., order], atol=limit, rtol=limit)
        torch.testing.assert_close(after.context, before.context, atol=100 * limit, rtol=limit)

    check()


@pytest.mark.parametrize("names", each_part(repeatable=True, positional=True))
def test_positional_is_declared_truthfully(names: dict) -> None:
    """A part that says that order matters should show it: otherwise kernels are denied to it for nothing."""
    order = torch.tensor([3, 1, 4, 0, 2])
    largest = 0.0
    for seed in range(4):  # the options of a part are drawn, and may leave it no way to show it
        case = simple(names, seed=seed)
        query, key, value = case.tensors()
        before, after = case.run("plain"), case.run("plain", inputs=(query, key[:, order], value[:, order]))
        largest = max(largest, (before.context - after.context).abs().max().item())
    assert largest > 1e-3


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part())
@pytest.mark.parametrize(
    ("batch", "queries", "keys"), [((0,), 2, 3), ((2,), 0, 3), ((2,), 2, 0), ((0,), 0, 0), ((), 2, 0)]
)
def test_empty(names: dict, kernel: str | None, batch: tuple[int, ...], queries: int, keys: int) -> None:
    """No items, no queries or no keys: empty results, or zeros; and a backward pass that does nothing."""
    for mask in (None, np.ones(keys, bool)):
        case = simple(names, batch=batch, queries=queries, keys=keys, mask=mask, seed=14).to(dtype_of(kernel))
        inputs = case.tensors(grad=True)
        out = case.run(kernel, inputs=inputs)
        assert out.context.shape == (*batch, queries, 4) and out.weights.shape == (*batch, queries, keys)
        assert out.scores.shape == (*batch, queries, keys)
        assert not out.context.any()
        if out.context.requires_grad:
            out.context.sum().backward()
        assert all(x.grad is None or not x.grad.any() for x in inputs)


def layouts(x: Tensor) -> dict[str, Tensor]:
    """The same numbers (B, n, D), lying differently in memory."""
    b, n, d = x.shape
    wide = x.new_zeros(b, 2 * n, d + 1)
    wide[:, ::2, 1:] = x
    return {
        "time first": x.transpose(0, 1).contiguous().transpose(0, 1),
        "transposed": x.mT.contiguous().mT,
        "every other row of a wider one": wide[:, ::2, 1:],
    }


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_memory_layout_does_not_matter(names: dict, kernel: str | None) -> None:
    case = steady(simple(names, mask=oracle.mask_lengths([5, 3], 5), seed=15)).to(dtype_of(kernel))
    expected, slopes_of = case.run(kernel), gradients(case, kernel)
    for layout in layouts(case.tensors()[0]):
        inputs = tuple(layouts(x)[layout].requires_grad_() for x in case.tensors())
        out = case.run(kernel, inputs=inputs)
        close(out.context, expected.context, layout)
        close(out.weights, expected.weights, layout)
        if out.context.requires_grad:
            found = torch.autograd.grad((out.context * slopes(out.context)).sum(), inputs, allow_unused=True)
            for a, b in zip(found, slopes_of, strict=False):
                close(torch.zeros_like(b) if a is None else a, b, f"gradient, {layout}")


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_expanded_inputs(names: dict, kernel: str | None) -> None:
    """One set of keys for the whole batch, expanded and not copied, and a gradient that is the sum."""
    case = steady(simple(names, batch=(3,), seed=16)).to(dtype_of(kernel))
    query, key, value = case.tensors()
    key, value = key[:1].clone().requires_grad_(), value[:1].clone().requires_grad_()
    thin = case.run(kernel, inputs=(query, key.expand(3, -1, -1), value.expand(3, -1, -1)))
    thick = case.run(kernel, inputs=(query, key.repeat(3, 1, 1), value.repeat(3, 1, 1)))
    close(thin.context, thick.context)
    for a, b in zip(
        *(
            torch.autograd.grad((o.context * slopes(o.context)).sum(), (key, value), allow_unused=True)
            for o in (thin, thick)
        ),
        strict=True,
    ):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b, "gradient")


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_many_queries_equal_many_calls(names: dict, kernel: str | None) -> None:
    """T queries in one call, or one at a time at a memory, the state handed on; also cut in the middle."""
    rows = np.random.default_rng(0).random((2, 4, 5)) < 0.7
    for mask, memory_mask in (
        (None, None),
        (None, oracle.mask_lengths([5, 3], 5)),
        (rows, oracle.mask_lengths([5, 4], 5)),
    ):
        case = steady(simple(names, queries=4, seed=17)).to(dtype_of(kernel))
        query, key, value = case.tensors()
        memory = case.attention.remember(
            key, value, mask=None if memory_mask is None else torch.from_numpy(memory_mask)
        )

        def call(
            begin: int,
            end: int,
            state: object,
            case: Case = case,
            mask: object = mask,
            memory: object = memory,
            query: Tensor = query,
        ) -> regard.Attended:
            extras = {name: x[:, begin:end] for name, x in case.keywords().items()}
            part = None if mask is None else torch.from_numpy(mask[:, begin:end])
            return case.run(kernel, inputs=(query[:, begin:end], memory, None), mask=part, state=state, **extras)

        once = call(0, 4, case.attention.start(memory))
        for cuts in ([0, 1, 2, 3, 4], [0, 3, 4]):
            state, contexts, weights = case.attention.start(memory), [], []
            for begin, end in pairwise(cuts):
                out = call(begin, end, state)
                state = out.state
                contexts.append(out.context)
                weights.append(out.weights)
            close(torch.cat(contexts, 1), once.context, f"context, cut at {cuts}")
            close(torch.cat(weights, 1), once.weights, f"weights, cut at {cuts}")
            if state is not None:
                close(torch.as_tensor(state).double(), torch.as_tensor(once.state).double(), "state")


def test_states_of_several_parts() -> None:
    """A window, a score and a refiner that all remember: a tuple in the order of the flow, and it can be cut too."""
    names = {
        "window": "local_monotonic",
        "score": "location_aware",
        "normalizer": "softmax",
        "refiner": "shift_sharpen",
    }
    case = simple(names, queries=4, seed=18)
    query, key, value = case.tensors()
    memory = case.attention.remember(key, value)
    once = case.run("plain", inputs=(query, memory, None), mask=None)
    assert isinstance(once.state, tuple) and len(once.state) == 3
    state, contexts = None, []
    for t in range(4):
        extras = {name: x[:, t : t + 1] for name, x in case.keywords().items()}
        out = case.run("plain", inputs=(query[:, t : t + 1], memory, None), mask=None, state=state, **extras)
        state = out.state
        contexts.append(out.context)
    close(torch.cat(contexts, 1), once.context)


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_reading_weights_changes_nothing(names: dict, kernel: str | None) -> None:
    """lazy, True and False give the same context; lazy weights outlive an optimizer step."""
    case = steady(simple(names, mask=oracle.mask_lengths([5, 3], 5), seed=19)).to(dtype_of(kernel))
    lazy, eager, never = (case.run(kernel, weights=want) for want in ("lazy", True, False))
    assert never.weights is None
    with torch.no_grad():
        for parameter in case.attention.parameters():
            parameter.add_(1.0)
    close(lazy.weights, eager.weights, "weights")
    close(lazy.context, eager.context, "context")
    close(never.context, eager.context, "context")
