"""Every registered part, in the company of others drawn at random, computes its paper's equation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import regard
from contracts import builders
from contracts.part_cases import FAST, KERNELS, Case, cases
from regard import parts
from strategies import BATCHES


def agree(case: Case, kernel: str | None) -> None:
    """One call against the oracle: weights, context, what may be attended, and scores where they can be told."""
    out = case.run(kernel)
    seen = case.expect(out.weights)
    limit = case.tolerance(seen)
    weights, context = builders.array(out.weights), builders.array(out.context)
    assert context.shape == seen.context.shape and weights.shape == seen.weights.shape
    ok = seen.sound
    np.testing.assert_allclose(weights[ok], seen.weights[ok], atol=limit, rtol=limit, err_msg="weights")
    reach = 1.0 + np.abs(case.problem.value).max(initial=0.0) * max(1.0, np.abs(seen.weights).sum(-1).max(initial=0.0))
    np.testing.assert_allclose(context[ok], seen.context[ok], atol=limit * reach, rtol=limit, err_msg="context")
    assert not weights[~seen.allowed].any(), "weight on a key that may not be attended"
    dead = ~seen.allowed.any(-1)
    assert not context[dead].any(), "context where nothing may be attended"
    where = np.ones_like(seen.candidates) if case.part("window") is None else seen.candidates
    where = where & ok[..., None]
    size = limit * (1.0 + np.abs(seen.scores).max(initial=0.0))
    np.testing.assert_allclose(
        builders.array(out.scores)[where], seen.scores[where], atol=size, rtol=limit, err_msg="scores"
    )
    if out.log_prob is not None:
        agree_on_log_prob(case, builders.array(out.log_prob), weights, seen, limit)


def agree_on_log_prob(case: Case, found: np.ndarray, weights: np.ndarray, seen: oracle.Seen, limit: float) -> None:
    if case.names["normalizer"] != "hard":
        return
    for index in np.ndindex(*found.shape):
        expected = oracle.hard_log_prob(seen.scores[index], seen.allowed[index], observed=weights[index])
        size = 1.0 + np.abs(seen.scores).max(initial=0.0)
        assert abs(found[index] - expected) <= 4 * limit * size, f"log_prob at {index}"


def check(drawn: st.SearchStrategy[Case], kernels: Sequence[str | None] = (None, *KERNELS)) -> None:
    """200 drawn cases, each by one of the kernels and in one of the precisions that it has."""

    @given(drawn)
    def agrees(case: Case) -> None:
        rng = np.random.default_rng((case.problem.seed, 3))
        kernel = kernels[rng.integers(len(kernels))]
        # float64 shows faults that float32 would pass as rounding; the fused kernels have only float32.
        dtype = torch.float32 if kernel == "fused" or rng.random() < 0.5 else torch.float64
        learning = bool(rng.random() < 0.5)  # a decoder's step has a kernel only where nothing needs a gradient
        note(f"kernel {kernel}, {dtype}, {'with' if learning else 'without'} gradients")
        with torch.set_grad_enabled(learning):
            agree(case.to(dtype), kernel)

    agrees()


SCORES_BY_NAME = [
    name
    for name in parts.names("scores")
    if set(parts.arguments(parts.find("scores", name), required=True)) <= {"query_dim", "key_dim", "hidden_dim"}
]


@pytest.mark.parametrize("name", parts.names("scores"))
def test_score(name: str) -> None:
    builders.entry("scores", name)
    check(cases(score=name))


@pytest.mark.parametrize("name", parts.names("normalizers"))
def test_normalizer(name: str) -> None:
    builders.entry("normalizers", name)
    check(cases(normalizer=name))


@pytest.mark.parametrize("name", parts.names("windows"))
def test_window(name: str) -> None:
    builders.entry("windows", name)
    check(cases(window=name))


@pytest.mark.parametrize("name", parts.names("refiners"))
def test_refiner(name: str) -> None:
    builders.entry("refiners", name)
    check(cases(refiner=name))


def test_sharpening_does_not_depend_on_the_scale() -> None:
    """w^g / sum w^g of weights that are all tiny, as a sigmoid may leave them; `agree` passes over such rows."""
    refiner = regard.refiners.ShiftSharpen()
    small = np.array([1e-20, 3e-20, 2e-20])
    given = {"gate": 1.0, "shift": [0.2, 0.5, 0.3], "sharpen": 1.5}
    expected = oracle.shift_sharpen(small, [True] * 3, [0.0] * 3, **given)
    tensors = {name: torch.tensor([x], dtype=torch.float64) for name, x in given.items()}
    found = refiner(torch.from_numpy(small)[None], None, state=torch.zeros(3, dtype=torch.float64), **tensors)
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-9)


LARGE = {"batches": ((), (3,)), "least": 9, "most": 21, "width": 6}


@pytest.mark.parametrize("kernel", [*KERNELS, None])
def test_kernel(kernel: str | None) -> None:
    """What kernels were written for: their scores, softmax, and now and then a shape that is worth their tiles."""
    often = {"score": FAST, "normalizer": ("softmax", "softmax", *builders.deterministic())}
    straight = cases(score=FAST, normalizer="softmax", window=None, refiner=None)
    step = cases(score=FAST, normalizer="softmax", window=None, refiner=None, queries=1)
    check(st.one_of(straight, straight, step, cases(**often), cases(**often, **LARGE), cases()), [kernel])


def test_hard_argmax_takes_the_best() -> None:
    """The oracle is told which key was drawn; that the best one is taken has to be seen apart."""

    @given(cases(score="dot", normalizer="hard", window=None, refiner=None))
    def check(case: Case) -> None:
        if case.part("normalizer").mode == "sample":
            return
        seen = case.expect(case.run("plain").weights)
        chosen = (seen.scores * seen.weights).sum(-1)
        best = np.where(seen.allowed, seen.scores, -np.inf).max(-1)
        alive = seen.allowed.any(-1)
        assert np.allclose(chosen[alive], best[alive], atol=1e-12)

    check()


@pytest.mark.parametrize("mode", ["hard", "gumbel"])
def test_sampling_has_the_right_distribution(mode: str) -> None:
    """20 000 draws over four keys, one of them forbidden: the drawn key, for Gumbel the heaviest, follows softmax."""
    scores = torch.tensor([0.3, -1.0, 1.2, 5.0], dtype=torch.float64)
    mask = torch.tensor([True, True, True, False])
    normalizer = regard.normalizers.Hard() if mode == "hard" else regard.normalizers.Gumbel(0.7)
    generator = torch.Generator().manual_seed(3)
    weights = normalizer(scores.expand(20_000, 4), mask, generator=generator)
    found = np.bincount(weights.argmax(-1).numpy(), minlength=4) / 20_000
    expected = np.array(oracle.softmax(scores.tolist(), mask.tolist()))
    assert np.allclose(found, expected, atol=4 * np.sqrt(0.25 / 20_000))
    if mode == "gumbel":  # a difference of two Gumbel variables is logistic: its quartiles lie at -log 3, 0 and log 3
        noise = 0.7 * weights[:, :3].log() - scores[:3]
        quartiles = np.quantile((noise[:, 0] - noise[:, 1]).numpy(), [0.25, 0.5, 0.75])
        assert np.allclose(quartiles, [-np.log(3), 0, np.log(3)], atol=0.08)


@pytest.mark.parametrize("name", parts.names("normalizers"))
def test_what_a_normalizer_declares(name: str) -> None:
    """sums_to_one and shift_invariant are promises that kernels rely on."""
    cls = parts.find("normalizers", name)

    @given(cases(score="dot", normalizer=name, window=None, refiner=None))
    def check(case: Case) -> None:
        normalizer = case.part("normalizer")
        scores = torch.from_numpy(case.expect(case.run("plain").weights).scores)
        mask = torch.from_numpy(case.problem.rows)

        def weigh(scores: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(case.problem.seed % 1000)
            return normalizer(scores, mask)

        weights = weigh(scores)
        assert not weights[~mask].any()
        if cls.sums_to_one:
            assert torch.allclose(weights.sum(-1), mask.any(-1).double(), atol=1e-7)
        if cls.shift_invariant:
            assert torch.allclose(weigh(scores + 2.0), weights, atol=1e-6)

    check()


@pytest.mark.parametrize("name", parts.names("glimpses"))
def test_glimpse(name: str) -> None:
    """Glimpses read by position: 200 drawn sizes, precisions and parameters, each with its own oracle."""
    look = builders.entry("glimpses", name)

    @given(st.sampled_from(BATCHES), st.integers(0, 2**32 - 1), st.sampled_from([torch.float64, torch.float32]))
    def check(batch: tuple[int, ...], seed: int, dtype: torch.dtype) -> None:
        glance = look(batch, np.random.default_rng(seed))
        glance.part.to(dtype)
        found = glance.run(*(torch.from_numpy(x).to(dtype) for x in glance.inputs.values()))
        limit = 1e-10 if dtype == torch.float64 else 1e-4
        assert found.keys() == glance.expected.keys()
        for key, tensor in found.items():
            expected = glance.expected[key]
            assert tuple(tensor.shape) == expected.shape and tensor.dtype == dtype
            size = 1.0 + np.abs(expected).max(initial=0.0)
            np.testing.assert_allclose(builders.array(tensor), expected, atol=limit * size, err_msg=key)

    check()


def test_multi_head() -> None:
    """200 drawn shapes, scores by name (parameters of each head apart), widths and masks."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        score = data.draw(st.sampled_from(SCORES_BY_NAME))
        normalizer = data.draw(st.sampled_from(builders.deterministic()))
        key_heads, head_dim, key_dim, value_dim = (data.draw(st.integers(1, n)) for n in (3, 3, 4, 4))
        heads = key_heads * data.draw(st.sampled_from([1, 1, 2, 3]))
        batch, queries, keys = (data.draw(st.integers(1, n)) for n in (3, 4, 5))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        shape = data.draw(
            st.sampled_from([None, (keys,), (batch, keys), (batch, queries, keys), (batch, heads, queries, keys)])
        )
        mask = None if shape is None else rng.random(shape) < 0.6
        dim = heads * head_dim
        module = regard.MultiHead(
            dim,
            heads,
            key_heads=key_heads,
            score=score,
            key_dim=key_dim,
            value_dim=value_dim,
            normalizer=normalizer,
            bias=builders.coin(rng),
        ).double()
        builders.fill(module, rng, 0.6)
        q, k, v = (rng.normal(size=(batch, n, d)) for n, d in ((queries, dim), (keys, key_dim), (keys, value_dim)))
        kernel = data.draw(st.sampled_from([None, "plain", "chunked"]))
        with nullcontext() if kernel is None else regard.kernels.use(kernel):
            out = module(*map(torch.from_numpy, (q, k, v)), mask=None if mask is None else torch.from_numpy(mask))
        rows = oracle.mask_rows(mask, (batch, heads), queries, keys)
        each = builders.heads_of(module, score)
        project = {
            name: (builders.array(layer.weight), None if layer.bias is None else builders.array(layer.bias))
            for name, layer in (
                ("query", module.query),
                ("key", module.key),
                ("value", module.value),
                ("out", module.out),
            )
        }
        for b in range(batch):
            context, weights = oracle.multi_head(
                q[b],
                k[b],
                v[b],
                rows[b],
                heads=heads,
                scores=each,
                normalizer=getattr(oracle, normalizer),
                project=project,
                key_heads=key_heads,
            )
            limit = 1e-6 if normalizer == "entmax15" else 1e-10
            np.testing.assert_allclose(builders.array(out.weights[b]), weights, atol=limit)
            np.testing.assert_allclose(builders.array(out.context[b]), context, atol=10 * limit, rtol=limit)

    check()


def test_masks() -> None:
    """lengths, causal, window, segments and their combinations, written out."""

    @given(st.integers(1, 3), st.integers(0, 5), st.integers(0, 6), st.integers(0, 3), st.integers(0, 2**16))
    def check(batch: int, queries: int, keys: int, radius: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(0, keys + 1, batch)
        shape = (batch, queries, keys)
        made = {
            "lengths": (
                regard.masks.lengths(torch.from_numpy(lengths)),
                oracle.mask_lengths(lengths.tolist(), keys)[:, None],
            ),
            "causal": (regard.masks.causal(), oracle.mask_causal(queries, keys)),
            "window": (regard.masks.window(radius), oracle.mask_window(queries, keys, radius)),
        }
        if queries <= keys:
            ids = rng.integers(-1, 2, (batch, keys))
            expected = np.stack([oracle.mask_segments(row.tolist(), queries) for row in ids])
            made["segments"] = (regard.masks.segments(torch.from_numpy(ids)), expected)
        for rule, expected in made.values():
            found = rule.tensor(shape).expand(shape).numpy()
            assert (found == np.broadcast_to(expected, shape)).all()
            assert ((~rule).tensor(shape).expand(shape).numpy() == ~np.broadcast_to(expected, shape)).all()
        (a, x), (b, y) = made["lengths"], made["causal"]
        assert ((a & b).tensor(shape).expand(shape).numpy() == (x & y)).all()
        assert ((a | b).tensor(shape).expand(shape).numpy() == (x | y)).all()

    check()
