"""Positions: each against its equation, as a guest of PyTorch, and in heads that look at once or step by step."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
import regard
from contracts import builders
from contracts.part_cases import slopes
from contracts.test_invariance import layouts
from regard import masks, parts

EVERY = parts.names("positions")
DIM, HEADS = 8, 4


def made(name: str, seed: int) -> parts.Position:
    rng = np.random.default_rng(seed)
    return builders.build("positions", name, builders.Dims(4, 4, 5), rng)


def equation(name: str, part: parts.Position, rows: np.ndarray, first: int) -> np.ndarray:
    numbers = builders.entry("positions", name).numbers(part)
    out = np.zeros(rows.shape)
    for index in np.ndindex(*rows.shape[:-1]):
        out[index] = getattr(oracle, name)(rows[index], first + index[-1], **numbers)
    return out


@pytest.mark.parametrize("name", EVERY)
def test_equation(name: str) -> None:
    @settings(max_examples=60)
    @given(st.sampled_from([(), (2,), (2, 3)]), *(st.integers(*ends) for ends in ((0, 5), (1, 4), (-3, 600), (0, 9))))
    def check(batch: tuple[int, ...], count: int, pairs: int, first: int, seed: int) -> None:
        part, rows = made(name, seed), np.random.default_rng(seed).normal(size=(*batch, count, 2 * pairs))
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            rounded = torch.from_numpy(rows).to(dtype)
            found = part(rounded, first)
            assert found.dtype == dtype and found.shape == rows.shape
            limit = max(1e-10, 8 * torch.finfo(dtype).eps, 1e-5 if dtype == torch.float32 else 0.0)
            np.testing.assert_allclose(
                builders.array(found), equation(name, part, builders.array(rounded), first), atol=limit
            )

    check()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", range(4))
def test_a_good_guest(name: str, seed: int) -> None:
    """Gradients, transforms, tracing, layouts, NaN, copies."""
    part, rows = made(name, seed), torch.randn(2, 3, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(partial(part, first=2), rows)
    assert torch.autograd.gradgradcheck(partial(part, first=2), rows)
    expected = part(rows, 2)
    torch.testing.assert_close(part(rows[:, 1:], 3), expected[:, 1:])
    for layout, same in layouts(rows).items():
        torch.testing.assert_close(part(same, 2), expected, msg=layout)
    torch.testing.assert_close(torch.vmap(lambda x: part(x, 2))(rows), expected)
    torch.testing.assert_close(torch.func.jvp(lambda x: part(x, 2), (rows,), (rows,))[1], expected)
    torch._dynamo.reset()
    compiled = torch.compile(part, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(rows, 2), expected)
    spoiled = rows.detach().clone()
    spoiled[0, 1] = torch.nan
    found = part(spoiled, 2)
    assert found[0, 1].isnan().all() and torch.equal(found[1], expected[1]) and torch.equal(found[0, 2], expected[0, 2])
    torch.testing.assert_close(deepcopy(part)(rows, 2), expected)
    with torch.inference_mode():
        long = part(rows, 5000)
    part(rows, 5000).sum().backward()  # what was made in inference mode could not be kept for this
    torch.testing.assert_close(part(rows, 5000), long.clone())


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kernel", ["plain", "fused", None])
def test_heads(name: str, kernel: str | None) -> None:
    """MultiHead turns queries and keys after their projections, each head by itself."""
    rng = np.random.default_rng(1)
    part = made(name, 3)
    dtype = torch.float32 if kernel == "fused" else torch.float64
    module = regard.MultiHead(DIM, HEADS, key_heads=2, positions=part, window=3).to(dtype)
    builders.fill(module, rng, 0.6)
    x = rng.normal(size=(6, DIM))
    with nullcontext() if kernel is None else regard.kernels.use(kernel):
        out = module(torch.from_numpy(x)[None].to(dtype), mask=masks.causal())
    rows = {n: x @ builders.array(getattr(module, n).weight).T for n in ("query", "key", "value")}
    rows = {n: v + builders.array(getattr(module, n).bias) for n, v in rows.items()}
    allowed = oracle.mask_causal(6, 6) & oracle.mask_window(6, 6, 3)
    for h in range(HEADS):
        q = equation(name, part, rows["query"].reshape(6, HEADS, 2)[:, h], 0)
        k = equation(name, part, rows["key"].reshape(6, 2, 2)[:, h // 2], 0)
        v = rows["value"].reshape(6, 2, 2)[:, h // 2]
        seen = oracle.attend(q, k, v, allowed, score=oracle.scaled_dot, normalizer=oracle.softmax)
        np.testing.assert_allclose(builders.array(out.weights[0, h]), seen.weights, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("learning", [True, False])
def test_step_by_step(name: str, learning: bool) -> None:
    """A cache that begins with a prompt and grows, is reordered, and is asked by one query or several."""
    torch.manual_seed(0)
    module = regard.MultiHead(DIM, HEADS, key_heads=2, positions=made(name, 0))
    x, order = torch.randn(3, 9, DIM), torch.tensor([2, 0, 0])
    with torch.set_grad_enabled(learning):
        whole = module(x, mask=masks.causal()).context
        memory = module.remember(x[:, :3], mask=masks.causal())
        torch.testing.assert_close(module(x[:, 1:3], memory).context, whole[:, 1:3], atol=1e-5, rtol=1e-5)
        for t in range(3, 6):
            memory = memory.append(x[:, t : t + 1])
            found = module(x[:, t : t + 1], memory).context
            torch.testing.assert_close(found, whole[:, t : t + 1], atol=1e-5, rtol=1e-5)
        memory, x, whole = memory.select(order), x[order], whole[order]
        memory = memory.append(x[:, 6:9])
        torch.testing.assert_close(module(x[:, 6:9], memory).context, whole[:, 6:9], atol=1e-5, rtol=1e-5)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    """Su et al. 2021, eq. 11."""
    for seed in range(6):
        part = made("rotary", seed)
        query, key = torch.randn(5, 6, dtype=torch.float64), torch.randn(7, 6, dtype=torch.float64)
        here, there = (part(query, first) @ part(key, first + 3).mT for first in (0, 900))
        torch.testing.assert_close(here, there, atol=1e-9, rtol=1e-9)
        other = part(query, 0) @ part(key, 4).mT
        assert (here - other).abs().max() > 1e-2


def test_what_is_masked_does_not_matter_to_heads_with_positions() -> None:
    torch.manual_seed(0)
    module = regard.MultiHead(DIM, HEADS, positions="rotary")
    key, query = torch.randn(2, 7, DIM), torch.randn(2, 4, DIM)
    found = []
    for filler in (0.0, torch.nan):
        spoiled = key.clone()
        spoiled[1, 5:] = filler
        context = module(query, spoiled, mask=masks.lengths(torch.tensor([7, 5]))).context
        loss = (context * slopes(context)).sum()
        found.append([context, *torch.autograd.grad(loss, list(module.parameters()))])
    for clean, dirty in zip(*found, strict=True):
        torch.testing.assert_close(dirty, clean, atol=1e-5, rtol=1e-5)


def test_export_of_heads_with_positions() -> None:
    class Exported(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = regard.MultiHead(DIM, HEADS, positions="rotary")

        def forward(self, x: Tensor) -> Tensor:
            return self.heads(x, mask=masks.causal()).context

    module, x = Exported(), torch.randn(2, 5, DIM)
    torch.testing.assert_close(torch.export.export(module, (x,)).module()(x), module(x), atol=1e-5, rtol=1e-5)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="even, not 3"):
        regard.MultiHead(9, 3, positions="rotary")(torch.randn(1, 2, 9))
    with pytest.raises(ValueError, match="did you mean 'rotary'"):
        regard.MultiHead(8, 2, positions="rotray")
    with pytest.raises(ValueError, match="positive: 0"):
        regard.positions.Rotary(base=0)
