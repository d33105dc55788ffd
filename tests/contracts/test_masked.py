"""What is masked does not matter: NaN, infinity and 1e38 in masked keys or values reach no context and no gradient."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
import regard
from contracts.part_cases import KERNELS, Case, cases, leaves, named, simple, slopes
from contracts.test_gradients import dtype_of
from regard import parts

BAD = (float("nan"), float("inf"), 1e38)
PADDING = oracle.mask_lengths([5, 3], 5)
CAUSAL = np.repeat(oracle.mask_causal(3, 5)[None], 2, 0)


def derivatives(case: Case, kernel: str | None, key: Tensor, value: Tensor, rows: Tensor) -> list[Tensor]:
    """Context and weights of ``rows``, (B, T), and the gradients of a function of these."""
    query = case.tensors()[0].requires_grad_()
    key, value = key.clone().requires_grad_(), value.clone().requires_grad_()
    torch.manual_seed(0)
    out = case.run(kernel, inputs=(query, key, value))
    context, weights = out.context[rows], out.weights[rows]
    loss = (context * slopes(context)).sum() + (weights * slopes(weights)).sum()
    found = torch.autograd.grad(loss, leaves(case, (query, key, value)), allow_unused=True)
    return [context.detach(), weights.detach(), *(g for g in found if g is not None)]


def unspoiled(case: Case, kernel: str | None, bad: float, in_key: bool, in_value: bool) -> None:
    """Compare the rows that may not attend a spoiled key with what they are when nothing is spoiled."""
    allowed = torch.from_numpy(case.problem.rows)  # (B, T, S)
    spoiled = torch.zeros(allowed.shape[0], allowed.shape[2], dtype=torch.bool)
    spoiled[:, -2:] = True  # padding of the second item, and the future of all but the last queries
    spoiled &= ~allowed.all(1)
    _, key, value = case.tensors()
    clear = [x.masked_fill(spoiled[..., None], 0.0) for x in (key, value)]
    dirty = [x.masked_fill(spoiled[..., None], bad) if it else x for x, it in zip(clear, (in_key, in_value))]
    rows = ~(allowed & spoiled[:, None]).any(-1)
    expected, found = (derivatives(case, kernel, *inputs, rows) for inputs in (clear, dirty))
    limit = 1e-9 if case.dtype == torch.float64 else 2e-5
    for name, ours, theirs in zip(("context", "weights", *["gradient"] * 20), found, expected):
        assert ours.isfinite().all(), name
        torch.testing.assert_close(ours, theirs, atol=limit, rtol=limit, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kernel", [*KERNELS, None])
@pytest.mark.parametrize("score", parts.names("scores"))
def test_masked_numbers_do_not_matter(score: str, kernel: str | None) -> None:
    """Every normalizer and window; which number stands where, and under which mask, takes turns."""
    turns = list(product((PADDING, CAUSAL), BAD, ((True, False), (False, True), (True, True))))
    first = 5 * parts.names("scores").index(score) + [*KERNELS, None].index(kernel)
    for turn, (normalizer, window) in enumerate(product(parts.names("normalizers"), (None, *parts.names("windows")))):
        mask, bad, places = turns[(first + 7 * turn) % len(turns)]
        if score == "location_aware":  # it hands NaN on to the next query
            mask = PADDING
        names = named(score=score, normalizer=normalizer, window=window)
        case = simple(names, mask=mask, seed=31).to(dtype_of(kernel))
        try:
            unspoiled(case, kernel, bad, *places)
        except AssertionError as error:
            raise AssertionError(f"{names}, {bad} in (key, value) = {places}, causal: {mask is CAUSAL}") from error


@pytest.mark.parametrize("kernel", [*KERNELS, None])
def test_masked_numbers_do_not_matter_to_refiners(kernel: str | None) -> None:
    case = simple(named(refiner="shift_sharpen"), mask=PADDING, seed=32).to(dtype_of(kernel))
    for bad in BAD:
        unspoiled(case, kernel, bad, True, True)


def test_any_masks_and_shapes() -> None:
    """Rows that no query may attend, wherever they are: the same results and gradients as with zeros there."""

    @settings(max_examples=100)
    @given(cases(stochastic=False), st.sampled_from(BAD), st.sampled_from([None, "plain", "chunked"]))
    def check(case: Case, bad: float, kernel: str | None) -> None:
        dead = torch.from_numpy(~case.problem.rows.any(-2))[..., None]
        found = []
        for filler in (0.0, bad):
            query, key, value = (x.requires_grad_() for x in case.tensors())
            spoiled = (torch.where(dead, filler, x) for x in (key, value))
            out = case.run(kernel, inputs=(query, *spoiled))
            loss = (out.context * slopes(out.context)).sum()
            slope = torch.autograd.grad(loss, leaves(case, (query, key, value)), allow_unused=True)
            found.append([out.context, *(g for g in slope if g is not None)])
        for theirs, ours in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)

    check()


@pytest.mark.parametrize("kernel", [*KERNELS, None])
@pytest.mark.parametrize("keys", [5, 60])
def test_what_is_allowed_still_shows(keys: int, kernel: str | None) -> None:
    """NaN in a key or value that the last query may attend: in its context and its gradients, and in no other row."""
    for which in (1, 2):
        case = simple(named(), keys=keys, mask=np.repeat(oracle.mask_causal(3, keys)[None], 2, 0), seed=33)
        case = case.to(dtype_of(kernel))
        inputs = case.tensors()
        inputs[which][0, -1] = torch.nan
        query, key, value = (x.requires_grad_() for x in inputs)
        context = case.run(kernel, inputs=(query, key, value)).context
        assert context[0, 2].isnan().all() and context[0, :2].isfinite().all() and context[1].isfinite().all()
        (slope,) = torch.autograd.grad(context[0].square().sum(), query, retain_graph=True)
        assert slope[0, 2].isnan().all()
        (slope,) = torch.autograd.grad(context[:, :2].square().sum() + context[1].sum(), query)
        assert slope.isfinite().all()


def test_infinity_that_means_something() -> None:
    """A station at an infinite distance weighs nothing, for those who may attend it and for those who may not."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, n, 3) for n in (4, 6, 6))
    mask = torch.rand(2, 4, 6) < 0.7
    mask[..., 0] = True
    key[:, 2] = torch.inf
    for kernel in (None, "plain"):
        with nullcontext() if kernel is None else regard.kernels.use(kernel):
            x = query.clone().requires_grad_()
            out = regard.attend(x, key, value, score="inverse_distance", mask=mask)
            near = regard.attend(x, key.nan_to_num(posinf=1e9), value, score="inverse_distance", mask=mask)
        torch.testing.assert_close(out.context, near.context)


def test_a_decoder_with_spoiled_memory() -> None:
    """Keys projected once, a mask at the call; single queries, a beam that is reordered, a cache that grows."""
    torch.manual_seed(0)
    attention = regard.Attention(regard.scores.General(8, 8))
    key, query = torch.randn(3, 6, 8), torch.randn(3, 1, 8)
    mask = regard.masks.lengths(torch.tensor([6, 4, 2]))
    padding = ~mask.tensor((3, 1, 6))[:, 0]
    index = torch.tensor([2, 0, 0])
    for bad in BAD:
        spoiled = key.masked_fill(padding[..., None], bad)
        found = []
        for rows in (key, spoiled):
            memory = attention.remember(rows)
            learnt = attention(query, memory, mask=mask).context
            slope = torch.autograd.grad(learnt.square().sum(), attention.score.key.weight)[0]
            with torch.no_grad():
                memory = attention.remember(rows, mask=mask)
                steps = [attention(query, memory).context, attention(query, memory.select(index)).context]
                grown = memory.append(query)
                steps += [attention(query, grown).context, attention(query, grown.select(index)).context]
                with regard.kernels.use("plain"):
                    steps += [attention(query, grown.select(index)).context]
            found.append([learnt, slope, *steps])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "mlp_dot"])
def test_projections_of_heads_get_no_gradient_from_masked_rows(score: str) -> None:
    torch.manual_seed(0)
    attention = regard.Attention(regard.scores.MLPDot(8, 8, 4)) if score == "mlp_dot" else None
    module = regard.MultiHead(8, 2, score=score) if attention is None else attention
    query, rows = torch.randn(2, 4, 8), torch.randn(2, 60, 8)
    mask = regard.masks.lengths(torch.tensor([60, 50]))
    for bad, shared in product(BAD, (True, False)):
        found = []
        for filler in (0.0, bad):
            key = rows.clone()
            key[1, 50:] = filler
            context = module(query, key, None if shared else key.clone(), mask=mask).context
            found.append(torch.autograd.grad(context.square().sum(), list(module.parameters()), allow_unused=True))
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("score", "mask"), [("scaled_dot", CAUSAL), ("additive", PADDING)], ids=["causal", "padding"])
def test_compiled(score: str, mask: np.ndarray) -> None:
    """Where no value may decide what is done. An infinite key that others may attend is beyond it."""
    torch._dynamo.reset()
    attention = simple(named(score=score), seed=34).to(torch.float32).attention

    def step(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        context = attention(query, key, value, mask=mask).context
        return context, (context[:, :1] * slopes(context[:, :1])).sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    query, *rows = simple(named(score=score), seed=34).to(torch.float32).tensors()
    allowed = torch.from_numpy(mask)
    hidden = ~(allowed[:, 0] if allowed.ndim == 3 else allowed)
    for bad in BAD if mask is PADDING else BAD[:1]:
        found = []
        for filler in (0.0, bad):
            leaf = [query.clone().requires_grad_(), *(x.masked_fill(hidden[..., None], filler) for x in rows)]
            context, loss = compiled(*leaf, allowed)
            found.append([context[:, :1], torch.autograd.grad(loss, leaf[0])[0][:, :1]])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=1e-6)
        if mask is CAUSAL:
            assert context[:, -1].isnan().all()
