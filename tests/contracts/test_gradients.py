"""Gradients: against finite differences, between kernels, and on rows with nothing to attend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

import regard
from contracts import builders
from contracts.part_cases import FAST, KERNELS, Case, cases, each_part, gradients, leaves, named, simple, slopes, steady
from regard import parts

HALF = np.array([[True, True, False, True, True], [False] * 5])  # the second item of the batch is dead


def dtype_of(kernel: str | None) -> torch.dtype:
    return torch.float64 if kernel in ("plain", "chunked") else torch.float32


@pytest.mark.parametrize("names", each_part())
def test_gradcheck(names: dict) -> None:
    """Inputs, parameters and the tensors passed at the call, in float64 on the plain path, with a dead row."""
    case = steady(simple(names, mask=HALF, queries=2, width=3, seed=1))
    extras = {name: x.requires_grad_() for name, x in case.keywords().items()}
    tensors = [*leaves(case, case.tensors(grad=True)), *extras.values()]

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        given = dict(zip(extras, inputs[len(inputs) - len(extras) :], strict=True))
        torch.manual_seed(0)
        out = case.run("plain", inputs=inputs[:3], weights=True, **given)
        return (out.context * slopes(out.context)).sum() + (out.weights * slopes(out.weights)).sum()

    assert torch.autograd.gradcheck(run, tensors, atol=1e-6)


@pytest.mark.parametrize("names", each_part())
def test_double_backward_on_the_plain_path(names: dict) -> None:
    case = steady(simple(names, queries=2, keys=3, width=2, seed=2))
    inputs = case.tensors(grad=True)

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        context = case.run("plain", inputs=inputs).context
        return (context * slopes(context)).sum()

    assert torch.autograd.gradgradcheck(run, inputs, atol=1e-5)


@pytest.mark.parametrize("score", ["additive", "scaled_dot"])
def test_double_backward_through_a_fused_kernel_says_what_to_do(score: str) -> None:
    """Scaled dot products go through torch's SDPA, whose own message names an operator that nobody has called."""
    case = simple(named(score=score), seed=3).to(torch.float32)
    query, key, value = case.tensors(grad=True)
    context = case.run("fused", inputs=(query, key, value)).context
    (slope,) = torch.autograd.grad(context.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match=r'use\("plain"\)'):
        slope.square().sum().backward()


def tangents(case: Case, kernel: str | None, way: str, directions: list[torch.Tensor]) -> torch.Tensor:
    """The derivative of the context along ``directions`` of query, key and value, in forward mode."""

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        return case.run(kernel, inputs=inputs).context

    case.attention.requires_grad_(False)  # else a score takes other paths
    if way == "func":
        return torch.func.jvp(run, case.tensors(), tuple(directions))[1]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, d) for x, d in zip(case.tensors(), directions, strict=True)]
        found = forward_ad.unpack_dual(run(*duals)).tangent
    assert found is not None, "the tangent was lost on the way"
    return found


@pytest.mark.parametrize("queries", [1, None])
@pytest.mark.parametrize("name", parts.names("scores"))
def test_forward_mode(name: str, queries: int | None) -> None:
    """torch.func.jvp and dual numbers against finite differences, by the kernels that the dispatcher chooses."""

    @settings(max_examples=12)
    @given(cases(score=name, normalizer="softmax", window=None, refiner=None, queries=queries))
    def check(case: Case) -> None:
        p, rng = case.problem, np.random.default_rng((case.problem.seed, 4))
        drawn = [rng.normal(size=x.shape) for x in (p.query, p.key, p.value)]  # no ties, where a score may have a kink
        case = replace(case, problem=replace(p, query=drawn[0], key=drawn[1], value=drawn[2]))
        directions = [torch.from_numpy(rng.normal(size=x.shape)) for x in drawn]
        ends: list[Any] = []
        for step in (1e-6, -1e-6):
            moved = tuple(x + step * d for x, d in zip(case.tensors(), directions, strict=True))
            ends.append(case.run("plain", inputs=moved).context.detach())
        expected = (ends[0] - ends[1]) / 2e-6
        way, kernel = ("func", "dual")[rng.integers(2)], (None, "plain")[rng.integers(2)]
        found = tangents(case, kernel, way, directions)
        size = 1.0 + expected.abs().max().item()
        torch.testing.assert_close(found, expected, atol=1e-6 * size, rtol=1e-5)
        lower = tangents(case.to(torch.float32), kernel, way, [d.float() for d in directions])
        torch.testing.assert_close(lower.double(), expected, atol=1e-3 * size, rtol=1e-3)

    check()


@pytest.mark.parametrize("names", [named(score="additive"), named(window="local_monotonic", score="additive")])
@pytest.mark.parametrize("kernel", ["chunked", "fused"])
def test_forward_mode_of_a_kernel_that_has_none_is_an_error(names: dict, kernel: str) -> None:
    case = simple(names, seed=3).to(torch.float32)
    if kernel == "chunked" and names["window"]:
        pytest.skip("windows have no chunked kernel")
    for way in ("func", "dual"):
        with pytest.raises((RuntimeError, NotImplementedError), match="forward"):
            tangents(case, kernel, way, [torch.ones_like(x) for x in case.tensors()])


def test_slopes_of_weights_that_nearly_underflow() -> None:
    """A sigmoid of scores near -88 leaves weights whose reciprocal, the slope of a logarithm, no float32 can hold."""
    refiner = regard.refiners.ShiftSharpen()
    given = {"gate": [1.0], "shift": [[0.2, 0.5, 0.3]], "sharpen": [2.0]}
    found = {}
    for dtype in (torch.float32, torch.float64):
        for size in (3e-39, 5e-39, 1e-34, 1e-20, 1.0):
            scores = torch.tensor([[0.0, -30.0, -1.0]], dtype=dtype).add(np.log(size)).requires_grad_()
            tensors = {name: torch.tensor(x, dtype=dtype) for name, x in given.items()}
            weights = refiner(torch.sigmoid(scores), None, state=torch.zeros(3, dtype=dtype), **tensors)
            (found[dtype, size],) = torch.autograd.grad((weights * slopes(weights)).sum(), scores)
    for size in (3e-39, 5e-39):
        assert found[torch.float32, size].isfinite().all()
    for size in (1e-34, 1e-20, 1.0):
        torch.testing.assert_close(found[torch.float32, size].double(), found[torch.float64, size], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", ["chunked", "fused", None])
def test_kernels_have_the_gradients_of_the_plain_path(kernel: str | None) -> None:
    """200 calls of any parts; the plain path in float64 is what gradcheck has vouched for."""

    @given(st.one_of(cases(score=FAST, stochastic=False), cases(stochastic=False)))
    def check(case: Case) -> None:
        weights = case.problem.seed % 2 == 0
        case = case.to(dtype_of(kernel))
        seen = case.expect()
        if not seen.sound.all():
            return  # a refiner was left to divide rounding errors by each other
        plain = gradients(case.to(torch.float64), "plain", weights=weights)
        found = gradients(case, kernel, weights=weights)
        limit = 20 * case.tolerance(seen)
        for ours, expected in zip(found, plain, strict=True):
            size = 1.0 + expected.abs().max().item() if expected.numel() else 1.0
            torch.testing.assert_close(ours.double(), expected, atol=limit * size, rtol=limit)

    check()


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("kernel", [*KERNELS, None])
@pytest.mark.parametrize("names", each_part())
def test_dead_rows(names: dict, kernel: str | None) -> None:
    """No allowed key: weights 0, context 0, gradients 0; and the living beside them have finite gradients."""
    per_query = np.array([[[True, False, True, True, True], [False] * 5, [True] * 5], [[False] * 5] * 3])
    for mask in (HALF, per_query, np.zeros(5, bool)):
        case = simple(names, mask=mask, seed=4).to(dtype_of(kernel))
        dead = torch.from_numpy(~case.problem.rows.any(-1))  # (B, T)
        inputs = case.tensors(grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            out = case.run(kernel, inputs=inputs)
            assert not out.weights[dead].any() and not out.context[dead].any()
            loss = (out.context**2).sum() + out.context.sum() + (out.weights**2).sum() + out.weights.sum()
            if out.log_prob is not None:
                assert not out.log_prob[dead].any()
                loss = loss + out.log_prob.sum()
            loss.backward()
        for tensor in leaves(case, inputs):
            assert tensor.grad is None or tensor.grad.isfinite().all()
        query, key, value = inputs
        item = dead.all(-1)
        for tensor in (key, value):
            assert tensor.grad is None or not tensor.grad[item].any()
        if case.part("refiner") is None:
            assert query.grad is None or not query.grad[dead].any()


def test_hard_sampling_has_the_gradient_of_its_log_probability() -> None:
    """REINFORCE: nothing flows through the draw, everything through log_prob."""
    case = simple(named(normalizer="hard", score="dot"), seed=5)
    case.attention.normalizer = regard.normalizers.Hard("sample")
    query, key, value = case.tensors(grad=True)
    out = case.run("plain", inputs=(query, key, value))
    through_context = torch.autograd.grad(out.context.sum(), query, retain_graph=True, allow_unused=True)[0]
    assert through_context is None or not through_context.any()
    found = torch.autograd.grad(out.log_prob.sum(), query)[0]
    drawn = out.weights.detach()
    expected = (drawn - torch.softmax(query @ key.mT, -1)) @ key
    torch.testing.assert_close(found, expected.detach())


def test_straight_through_has_the_gradient_of_softmax() -> None:
    """One-hot going forward, softmax going backward; finite differences cannot see it, so the formula is the judge."""
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).requires_grad_()
    mask = torch.tensor([[True] * 5, [True, False, True, False, True], [False] * 5])
    weights = regard.normalizers.Hard("straight_through")(scores, mask)
    assert weights.sum(-1).tolist() == [1.0, 1.0, 0.0] and set(weights.flatten().tolist()) == {0.0, 1.0}
    (found,) = torch.autograd.grad((weights * slopes(weights)).sum(), scores)
    soft = torch.softmax(scores.detach().masked_fill(~mask, -torch.inf), -1).nan_to_num()
    expected = soft * (slopes(soft) - (soft * slopes(soft)).sum(-1, keepdim=True))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", parts.names("normalizers"))
def test_masked_scores_get_no_gradient(name: str) -> None:
    normalizer = builders.build("normalizers", name, builders.Dims(1, 1, 4), np.random.default_rng(0)).double()
    scores = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])
    weights = normalizer(scores, mask)
    if weights.requires_grad:
        (weights * torch.arange(1.0, 5.0)).sum().backward()
        assert not scores.grad[~mask].any()
