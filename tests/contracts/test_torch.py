"""Being a good guest of PyTorch: precisions, autocast, compile, export, copies, vmap, threads, fork, NaN."""

from __future__ import annotations

import io
import operator
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import oracle
import regard
from contracts import builders
from contracts.part_cases import KERNELS, Case, cases, each_part, gradients, named, simple, slopes, steady
from contracts.test_gradients import dtype_of
from regard import attention, parts

PADDING = oracle.mask_lengths([5, 3], 5)


def run_seeded(case: Case, kernel: str | None = None, **keywords: Any) -> regard.Attended:
    torch.manual_seed(0)
    return case.run(kernel, **keywords)


# ---------------------------------------------------------------------------------------------------------
# precision


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("names", each_part())
def test_precision(names: dict, dtype: torch.dtype) -> None:
    """Results have the dtype of the inputs and lie where float64 puts them, as far as that dtype can tell."""
    case = steady(simple(names, mask=PADDING, seed=21)).to(dtype)
    exact = case.to(torch.float64)
    out, expected = run_seeded(case), run_seeded(exact)
    assert out.context.dtype == out.weights.dtype == dtype
    if case.part("normalizer").stochastic:
        assert out.context.isfinite().all()
        return
    limit = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    torch.testing.assert_close(out.weights.double(), expected.weights, atol=limit, rtol=limit)
    torch.testing.assert_close(out.context.double(), expected.context, atol=2 * limit, rtol=2 * limit)
    assert all(g.isfinite().all() for g in gradients(case, None))


@pytest.mark.parametrize("cast", [False, True], ids=["inputs", "autocast"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("score", ["cosine", "gaussian", "inverse_distance"])
def test_distances_and_angles_of_halves(score: str, dtype: torch.dtype, cast: bool) -> None:
    """Squares of small halves are 0, and differences of large ones nothing but rounding: distances and norms are
    computed in float32. So the weights are as near as their own rounding; for angles, as that of the scores."""

    @settings(max_examples=80)
    @given(cases(score=score, normalizer="softmax", refiner=None), st.sampled_from([8.0, 3e-4, 1e-4, 1.0]))
    def check(case: Case, magnitude: float) -> None:
        p = case.problem
        problem = replace(p, query=p.query * magnitude, key=p.key * magnitude)
        case = replace(case, problem=problem).to(torch.float32 if cast else dtype)
        expected = case.to(torch.float64).run("plain", weights=True)
        kernel = (None, "plain", "chunked")[p.seed % 3]
        with torch.autocast("cpu", dtype=dtype) if cast else nullcontext():
            found = case.run(kernel, weights=True)
        if case.names["window"] == "local_predictive":
            return  # where it looks is a matter of its own rounding
        eps = torch.finfo(dtype).eps
        limit = 2 * eps * (1 + expected.scores.abs().max().item()) if score == "cosine" else eps
        torch.testing.assert_close(found.weights.double(), expected.weights, atol=limit, rtol=0)
        assert cast or found.weights.dtype == found.context.dtype == dtype

    check()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("names", each_part())
def test_autocast(names: dict, dtype: torch.dtype) -> None:
    """Forward and backward run, stay finite, respect the mask, and are near the full precision."""
    case = steady(simple(names, mask=PADDING, seed=22)).to(torch.float32)
    expected = run_seeded(case)
    inputs = case.tensors(grad=True)
    with torch.autocast("cpu", dtype=dtype):
        out = run_seeded(case, inputs=inputs)
        weights = out.weights
    assert not weights[torch.from_numpy(~case.problem.rows)].any()
    if not case.part("normalizer").stochastic:
        limit = 3e-2 if dtype == torch.float16 else 2e-1
        torch.testing.assert_close(out.context.float(), expected.context, atol=limit, rtol=limit)
    if out.context.requires_grad:
        out.context.float().sum().backward()
        assert all(x.grad is None or x.grad.isfinite().all() for x in inputs)


# ---------------------------------------------------------------------------------------------------------
# compile and export


def compiled_equals_eager(case: Case, **options: Any) -> None:
    torch._dynamo.reset()

    def step(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor, extras: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        out = case.attention(query, key, value, mask=mask, weights=True, **extras)
        return out.context, out.weights

    compiled = torch.compile(step, fullgraph=True, **options)
    results = []
    for function in (step, compiled):
        inputs = case.tensors(grad=True)
        torch.manual_seed(0)
        context, weights = function(*inputs, case.mask(), case.keywords())
        loss = (context * slopes(context)).sum() + (weights * slopes(weights)).sum()
        wanted = [*inputs, *case.attention.parameters()]
        slope = torch.autograd.grad(loss, wanted, allow_unused=True) if loss.requires_grad else []
        results.append([context, weights, *slope])
    for ours, expected in zip(*results, strict=True):
        assert (ours is None) == (expected is None)
        if ours is not None:
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("names", each_part())
def test_compile(names: dict) -> None:
    """Without a graph break, forward and backward, padding masked; the kernels that the dispatcher chooses."""
    compiled_equals_eager(steady(simple(names, mask=PADDING, seed=23)).to(torch.float32), backend="aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("names", each_part(repeatable=True))
def test_compile_with_inductor(names: dict) -> None:
    compiled_equals_eager(steady(simple(names, mask=PADDING, seed=23)).to(torch.float32), backend="inductor")


def whole_graph_equals_eager(step: Callable[..., Tensor]) -> None:
    """``step(x, lengths)`` compiles without a graph break, for x (2, 5, 8)."""
    torch._dynamo.reset()
    x, lengths = torch.randn(2, 5, 8), torch.tensor([5, 3])
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(x, lengths)
    torch.testing.assert_close(found, step(x, lengths), atol=1e-5, rtol=1e-5)


NO_OPERATORS = pytest.mark.skipif(
    torch.__version__ < (2, 10), reason="its compiler knows no `&` of objects: use regard.masks.both"
)


@pytest.mark.parametrize("join", [regard.masks.both, pytest.param(operator.and_, marks=NO_OPERATORS)])
def test_compile_of_heads_and_masks(join: Callable[..., regard.masks.Mask]) -> None:
    module = regard.MultiHead(8, 2, score="additive")
    whole_graph_equals_eager(
        lambda x, lengths: module(x, mask=join(regard.masks.lengths(lengths), regard.masks.causal())).context
    )


def test_compile_of_a_function() -> None:
    """Its parts are built from their names while it is traced."""
    attention._PARTS_BY_NAME.clear()
    whole_graph_equals_eager(
        lambda x, lengths: regard.attend(x, x, score="cosine", normalizer="sparsemax", mask=masked(lengths)).context
    )


def masked(lengths: Tensor) -> regard.masks.Mask | None:
    padding = torch.arange(5) >= lengths[:, None]
    return regard.masks.from_torch(key_padding_mask=padding, attn_mask=torch.ones(5, 5).triu(1).bool())


@pytest.mark.parametrize(
    "module",
    [
        regard.Attention(),
        regard.Attention("dot", window=regard.windows.LocalMonotonic(2)),
        regard.MultiHead(8, 2, score="additive"),
    ],
    ids=["all keys", "window", "heads"],
)
def test_compile_of_weights_read_later(module: nn.Module) -> None:
    def step(x: Tensor, lengths: Tensor) -> Tensor:
        out = module(x, x, mask=regard.masks.lengths(lengths))
        assert out.weights is not None
        return out.context + out.weights.square().mean()

    whole_graph_equals_eager(step)


@pytest.mark.parametrize("name", ["within", "select", "append"])
def test_compile_of_a_memory(name: str) -> None:
    looker = regard.Attention(regard.scores.Additive(8, 8, 8)).requires_grad_(False)
    change = {
        "within": lambda memory, x: memory.within(regard.masks.causal()),
        "select": lambda memory, x: memory.select(torch.tensor([1, 0])),
        "append": lambda memory, x: memory.append(x),
    }[name]

    def step(x: Tensor, lengths: Tensor) -> Tensor:
        return looker(x, change(looker.remember(x, mask=regard.masks.lengths(lengths)), x)).context

    whole_graph_equals_eager(step)


@pytest.mark.parametrize("kernel", [None, "plain"])
@pytest.mark.parametrize("names", each_part())
def test_determinism(names: dict, kernel: str | None) -> None:
    """With torch.use_deterministic_algorithms, which refuses operations that are not, twice the same bits."""
    case = steady(simple(names, mask=PADDING, seed=31)).to(torch.float32)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for first, second in zip(*(outcome(case, kernel) for _ in range(2)), strict=True):
            assert torch.equal(first, second)
    finally:
        torch.use_deterministic_algorithms(before)


def outcome(case: Case, kernel: str | None) -> list[Tensor]:
    """Context, weights and gradients."""
    inputs = case.tensors(grad=True)
    out = run_seeded(case, kernel, inputs=inputs)
    found = [out.context, out.weights]
    if out.context.requires_grad:
        wanted = [*inputs, *case.attention.parameters()]
        slopes_found = torch.autograd.grad(out.context.square().sum(), wanted, allow_unused=True)
        found += [slope for slope in slopes_found if slope is not None]
    return found


class Exported(nn.Module):
    """What a user would export: tensors in, tensors out."""

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, extras: dict[str, Tensor]) -> Any:
        out = self.attention(query, key, value, mask=mask, weights=True, **extras)
        return out.context, out.weights


@pytest.mark.parametrize("names", each_part())
def test_export_of_the_plain_path(names: dict) -> None:
    """It computes the same, and has no operator of ours, which no other program would know."""
    case = steady(simple(names, mask=PADDING, seed=24)).to(torch.float32)
    arguments = (*case.tensors(), case.mask(), case.keywords())
    with regard.kernels.use("plain"):
        program = torch.export.export(Exported(case.attention), arguments)
        torch.manual_seed(0)
        expected = Exported(case.attention)(*arguments)
    assert not [node for node in program.graph.nodes if str(node.target).startswith("regard")]
    torch.manual_seed(0)
    found = program.module()(*arguments)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------------
# copies


@pytest.mark.parametrize("names", each_part())
def test_copies(names: dict) -> None:
    """deepcopy is independent, and a state_dict through a file rebuilds the same function."""
    case = steady(simple(names, seed=25))
    expected = run_seeded(case).context
    twin = deepcopy(case.attention)
    file = io.BytesIO()
    torch.save(case.attention.state_dict(), file)
    with torch.no_grad():
        for parameter in case.attention.parameters():
            parameter.zero_()
    case.attention, spoiled = twin, case.attention
    torch.testing.assert_close(run_seeded(case).context, expected)
    file.seek(0)
    spoiled.load_state_dict(torch.load(file, weights_only=True))
    case.attention = spoiled
    torch.testing.assert_close(run_seeded(case).context, expected)


# ---------------------------------------------------------------------------------------------------------
# functional transforms


@pytest.mark.parametrize("names", each_part(stochastic=False))
def test_vmap_on_the_plain_path(names: dict) -> None:
    """vmap over a third dimension equals a loop over it."""
    case = simple(names, seed=26)
    query, key, value = (torch.stack([x, x * 0.5, -x]) for x in case.tensors())

    def one(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return case.run("plain", inputs=(query, key, value)).context

    found = torch.vmap(one)(query, key, value)
    expected = torch.stack([one(*x) for x in zip(query, key, value, strict=True)])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("names", [named(score="additive"), named(window="local_monotonic", score="additive")])
def test_vmap_of_a_fused_kernel_says_what_to_do(names: dict) -> None:
    case = simple(names, seed=27).to(torch.float32)
    query, key, value = (torch.stack([x, x]) for x in case.tensors())
    with pytest.raises(RuntimeError, match=r'use\("plain"\)'):
        torch.vmap(lambda q, k, v: case.run("fused", inputs=(q, k, v)).context)(query, key, value)


@pytest.mark.parametrize("names", each_part(stochastic=False))
def test_per_sample_gradients(names: dict) -> None:
    """torch.func: grad under vmap, with the kernel left to the dispatcher, which must see that it is transformed."""
    case = simple(names, seed=28).to(torch.float32)
    query, key, value = (torch.stack([x, x * 0.5]) for x in case.tensors())

    def loss(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context = case.run(None, inputs=(query, key, value)).context
        return (context * slopes(context)).sum()

    found = torch.vmap(torch.func.grad(loss))(query, key, value)
    for i in range(2):
        x = query[i].clone().requires_grad_()
        with regard.kernels.use("plain"):
            (expected,) = torch.autograd.grad(loss(x, key[i], value[i]), x, allow_unused=True)
        if expected is not None:
            torch.testing.assert_close(found[i], expected, atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------------------------------------------------
# threads and processes


@pytest.mark.parametrize("names", [named(score="additive"), named(score="general", window="local_predictive"), named()])
def test_eight_threads_at_once(names: dict) -> None:
    """Each with its own numbers and, every other one, its own choice of kernel; twice as many pool threads as usual."""
    torch.set_num_threads(2)
    work = [
        simple(
            names, batch=(4,), queries=24, keys=40, width=32, seed=s, mask=oracle.mask_lengths([40, 7, 1, 30], 40)
        ).to(torch.float32)
        for s in range(8)
    ]
    kernels = [None, "plain", "fused", "chunked"] * 2
    expected = [gradients(case, "plain") for case in work]

    def again(i: int) -> list[list[Tensor]]:
        return [gradients(work[i], kernels[(i + n) % 8]) for n in range(4)]

    with ThreadPoolExecutor(8) as pool:
        for i, found in enumerate(pool.map(again, range(8))):
            for slopes_found in found:
                for a, b in zip(slopes_found, expected[i], strict=True):
                    torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)
    torch.set_num_threads(1)


def test_the_choice_of_kernel_belongs_to_a_thread() -> None:
    with regard.kernels.use("plain"), ThreadPoolExecutor(1) as pool:
        case = simple(named(score="additive"), seed=29)  # float64, which "fused" would refuse
        assert pool.submit(case.run).result().context.shape == (2, 3, 4)
        with pytest.raises(ValueError, match="no kind of kernel"):
            pool.submit(case.run, "fsued").result()


def test_after_fork() -> None:
    """A child that was forked after the kernels had run computes the same, in a process of its own with a limit.

    With several threads only our kernels are called: torch's own operations hang in such a child, with or without us,
    as its thread pool does not survive a fork.
    """
    script = """
        import os, torch, regard
        from regard.kernels.additive import additive_scores
        torch.manual_seed(0)
        attention = regard.Attention(regard.scores.Additive(64, 64, 64))
        local = regard.Attention("dot", window=regard.windows.LocalMonotonic(3))
        query, key, v = torch.randn(8, 64, 64), torch.randn(8, 64, 64), torch.randn(1, 64)
        def run():
            torch.set_num_threads(2)
            found = [additive_scores(query, key, v)]
            torch.set_num_threads(1)
            with torch.no_grad(), regard.kernels.use("fused"):
                return [*found, attention(query, key).context, local(query, key).context]
        before = run()
        for _ in range(2):
            child = os.fork()
            if child == 0:
                same = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(before, run()))
                os._exit(0 if same else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run()
    """
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120, cwd=root)


# ---------------------------------------------------------------------------------------------------------
# NaN


@pytest.mark.parametrize("kernel", [*KERNELS, None])
@pytest.mark.parametrize("names", each_part())
def test_nan_in_gives_nan_out(names: dict, kernel: str | None) -> None:
    """A NaN query spoils its own row, a NaN key every row that may attend it, and neither anything else."""
    mask = np.ones((2, 3, 5), bool)
    mask[0, 0, 1] = False
    case = steady(simple(names, mask=mask, seed=30)).to(dtype_of(kernel))
    clean = run_seeded(case, kernel)
    for row in (0, 2):
        query, key, value = case.tensors()
        query[1, row] = torch.nan
        out = run_seeded(case, kernel, inputs=(query, key, value))
        if names["score"] != "location_aware" and names["refiner"] is None:  # those carry it to the rows that follow
            torch.testing.assert_close(out.context[0], clean.context[0])
        assert out.context[1, row].isnan().all(), "a NaN query gave a clean context"
    if names["score"] == "location":
        return  # it does not read the keys
    query, key, value = case.tensors()
    key[0, 1] = torch.nan
    out = run_seeded(case, kernel, inputs=(query, key, value))
    sees = [1, 2] if names["window"] is None else [t for t in (1, 2) if clean.weights[0, t, 1] != 0]
    for t in sees:
        assert out.context[0, t].isnan().all(), "a NaN key gave a clean context"
    torch.testing.assert_close(out.context[1], clean.context[1])


@pytest.mark.parametrize("name", parts.names("glimpses"))
def test_glimpses_are_good_guests(name: str) -> None:
    """gradcheck, NaN, deepcopy, half precision and compile, for what does not go through the recipe."""
    glance = builders.entry("glimpses", name)((2,), np.random.default_rng(4))
    inputs = [torch.from_numpy(x).requires_grad_() for x in glance.inputs.values()]
    assert torch.autograd.gradcheck(lambda *x: tuple(glance.run(*x).values()), inputs, atol=1e-6)
    spoiled = [x.detach().clone() for x in inputs]
    spoiled[0][0] = torch.nan
    found = glance.run(*spoiled)["context"]
    assert found[0].isnan().all() and not found[1].isnan().any()
    torch._dynamo.reset()
    step = torch.compile(lambda *x: glance.run(*x)["context"], fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(step(*inputs), glance.run(*inputs)["context"])
    glance.part.to(torch.bfloat16)
    halves = glance.run(*(x.detach().bfloat16() for x in inputs))
    assert all(x.isfinite().all() for x in halves.values())
    assert list(deepcopy(glance.part).state_dict()) == list(glance.part.state_dict())


@pytest.mark.parametrize("kernel", [*KERNELS, None])
def test_heads_in_every_kernel(kernel: str | None) -> None:
    """Per-head parameters folded into a kernel, against a loop over heads on the plain path."""
    torch.manual_seed(0)
    module = regard.MultiHead(12, 3, score="additive").to(dtype_of(kernel))
    query, key = (torch.randn(2, n, 12, dtype=dtype_of(kernel)) for n in (4, 5))
    mask = torch.from_numpy(PADDING)
    with regard.kernels.use("plain"):
        expected = module(query, key, mask=mask)
    with nullcontext() if kernel is None else regard.kernels.use(kernel):
        found = module(query, key, mask=mask)
        torch.testing.assert_close(found.context, expected.context, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.weights, expected.weights, atol=1e-5, rtol=1e-5)
