"""Can the contracts fail? Faults that people really make are planted in a kernel, and the contract must turn red."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import Phase, settings
from torch import Tensor

from contracts.test_equations import test_kernel as equations
from contracts.test_gradients import test_kernels_have_the_gradients_of_the_plain_path as slopes
from regard.kernels import additive, chunked, dot, local, single


@pytest.fixture(autouse=True)
def without_shrinking() -> Iterator[None]:
    """The first failing example is enough."""
    before = settings.get_current_profile_name()
    settings.register_profile("red", settings.get_profile(before), phases=[Phase.generate], database=None)
    settings.load_profile("red")
    yield
    settings.load_profile(before)


class Damped(torch.autograd.Function):
    """Right going forward; going backward, a factor is missing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 0.5 * grad


def wrong_sign(right: Callable) -> Callable:
    return lambda query, key, weight: -right(query, key, weight)


def last_row_left_out(right: Callable) -> Callable:
    """A loop that ends one key too early."""

    def faulty(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        scores = right(query, key, weight).clone()
        scores[..., -1:] = 0.0
        return scores

    return faulty


def one_column_off(right: Callable) -> Callable:
    return lambda query, key, weight: right(query, key, weight.roll(1, 1))


def mask_ignored(right: Callable) -> Callable:
    return lambda form, value, allowed, causal, temperature, group: right(form, value, None, False, temperature, group)


def temperature_ignored(right: Callable) -> Callable:
    return lambda form, value, allowed, causal, temperature, group: right(form, value, allowed, causal, 1.0, group)


def mask_ignored_at_a_step(right: Callable) -> Callable:
    return lambda form, value, allowed, temperature, *more: right(form, value, None, temperature, *more)


def temperature_ignored_at_a_step(right: Callable) -> Callable:
    return lambda form, value, allowed, temperature, *more: right(form, value, allowed, 1.0, *more)


def one_row_late(right: Callable) -> Callable:
    return lambda query, key, first, width: right(query, key, first + 1, width)


def sum_one_row_early(right: Callable) -> Callable:
    return lambda weights, value, first: right(weights, value, first - 1)


def damped(right: Callable) -> Callable:
    return lambda *inputs: Damped.apply(right(*inputs))


FAULTS = [
    (equations, "fused", additive, "additive_scores", wrong_sign),
    (equations, "fused", additive, "additive_scores", last_row_left_out),
    (equations, "fused", additive, "additive_scores", one_column_off),
    (equations, "fused", dot, "softmax_sum", mask_ignored),
    (equations, "fused", dot, "softmax_sum", temperature_ignored),
    (equations, "fused", single, "look", mask_ignored_at_a_step),
    (equations, "fused", single, "look", temperature_ignored_at_a_step),
    (equations, "fused", local, "local_dot", one_row_late),
    (equations, "fused", local, "local_sum", sum_one_row_early),
    (equations, "chunked", chunked, "additive_scores_chunked", wrong_sign),
    (slopes, "fused", additive, "additive_scores", damped),
    (slopes, "fused", local, "local_sum", damped),
    (slopes, "chunked", chunked, "additive_scores_chunked", damped),
]


@pytest.mark.parametrize(
    ("contract", "kernel", "module", "name", "fault"),
    [pytest.param(*fault, id=f"{fault[3]}-{fault[4].__name__}") for fault in FAULTS],
)
def test_a_planted_fault_is_found(
    contract: Callable, kernel: str, module: Any, name: str, fault: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        contract(kernel)
    found = caught.value.exceptions if isinstance(caught.value, ExceptionGroup) else [caught.value]
    assert all(isinstance(error, AssertionError) for error in found), "found by a crash, not by comparing numbers"
