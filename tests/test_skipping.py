"""Masks that kernels skip: windows and packed sequences are what a dense mask says, by every path, and cost less."""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.torch_version import TorchVersion

import oracle
import regard
from regard import banded, masks, skipping
from regard.kernels import groups, spans
from regard.normalizers import Softmax
from regard.scores import Additive, Gaussian

KERNELS = ("chunked", "fused", None)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks in small tensors, and no size at which it would not pay."""
    monkeypatch.setattr(banded, "SIZE", 4)
    monkeypatch.setattr(spans, "LEAST", 4)
    monkeypatch.setattr(spans, "MOST", 4)
    monkeypatch.setattr(spans, "TINY", 2)
    monkeypatch.setattr(spans.Spans, "pay", lambda *_: True)


@pytest.fixture
def paths(monkeypatch):
    """Which ways were gone, by name."""
    gone = []
    for name in ("_along", "_around"):
        whole = getattr(skipping, name)

        def seen(*args, whole=whole, name=name):
            out = whole(*args)
            if out is not None:
                gone.append(name)
            return out

        monkeypatch.setattr(skipping, name, seen)
    return gone


def use(kernel):
    return nullcontext() if kernel is None else regard.kernels.use(kernel)


def drawn(batch, queries, keys, width=4, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = (queries, keys, keys)
    return [torch.randn(*batch, n, width, generator=generator, dtype=torch.float64).to(dtype) for n in sizes]


def everything(out, inputs):
    """Context, weights, and the gradients of a function of both."""
    slopes = torch.linspace(-1, 2, out.context.numel(), dtype=out.context.dtype).view_as(out.context)
    loss = (out.context * slopes).sum() + out.weights.square().sum()
    return [out.context, out.weights, *torch.autograd.grad(loss, inputs)]


def same(found, expected, limit=1e-9):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=limit, rtol=limit)


def joined(kind, radius, lengths, dense):
    made = {
        "window": masks.window(radius),
        "causal": masks.window(radius) & masks.causal(),
        "padded": masks.lengths(lengths) & masks.window(radius),
        "causal, padded": masks.causal() & masks.lengths(lengths) & masks.window(radius),
        "two windows": masks.window(radius + 2) & masks.window(radius),
        "dense": masks.window(radius) & dense,
        "per query": (dense.unsqueeze(-2) ^ torch.zeros(1, 1, dtype=torch.bool)) & masks.window(radius),
    }
    return made[kind]


KINDS = ("window", "causal", "padded", "causal, padded", "two windows", "dense", "per query")


def packed(kind, ids, lengths):
    made = {
        "segments": masks.segments(ids),
        "causal": masks.causal() & masks.segments(ids),
        "padded": masks.segments(ids) & masks.lengths(lengths),
        "window": masks.segments(ids) & masks.window(2) & masks.causal(),
    }
    return made[kind]


@pytest.mark.parametrize("kernel", KERNELS)
def test_windows_equal_dense_masks(kernel):
    """Blocks that do and do not divide T, T ≠ S, dead rows, radius 0, leading dimensions, shared keys."""

    @settings(max_examples=70)
    @given(
        st.sampled_from([(), (1,), (2,), (2, 2), (1, 4), (2, 1, 2)]),
        st.integers(1, 14),
        st.integers(1, 17),
        st.integers(0, 6),
        st.sampled_from(KINDS),
        st.sampled_from([torch.float32, torch.float64]),
        st.integers(0, 2**16),
    )
    def check(batch, queries, keys, radius, kind, dtype, seed):
        rng = np.random.default_rng(seed)
        query, key, value = drawn(batch, queries, keys, dtype=dtype, seed=seed)
        group = 2 if len(batch) == 2 and batch[-1] % 2 == 0 and seed % 2 else 1
        if group > 1:
            key, value = key[:, ::2], value[:, ::2]
        items = batch[:1]
        lengths = torch.from_numpy(rng.integers(0, keys + 1, items or (1,)))
        dense = torch.from_numpy(rng.random((*items, keys)) < 0.7)
        if kind == "per query" and not batch:
            kind = "dense"
        mask = joined(kind, radius, lengths, dense)
        results = []
        for path in ("plain", kernel):
            inputs = [x.clone().requires_grad_() for x in (query, key, value)]
            with use(path):
                results.append(everything(regard.attend(*inputs, mask=mask, grouped=group > 1), inputs))
        same(results[1], results[0], 1e-9 if dtype == torch.float64 else 3e-5)

    check()


@pytest.mark.parametrize("kernel", KERNELS)
def test_packed_sequences_equal_dense_masks(kernel):
    """Segments that are long, short, in pieces, and padding; the queries are all places or the last of them."""

    @settings(max_examples=70)
    @given(
        st.sampled_from([(), (1,), (3,), (2, 2)]),
        st.integers(1, 24),
        st.integers(0, 5),
        st.sampled_from(["segments", "causal", "padded", "window"]),
        st.sampled_from(["runs", "runs", "mixed", "padding", "alike"]),
        st.sampled_from([torch.float32, torch.float64]),
        st.integers(0, 2**16),
    )
    def check(batch, keys, fewer, kind, style, dtype, seed):
        rng = np.random.default_rng(seed)
        query, key, value = drawn(batch, max(keys - fewer, 1), keys, dtype=dtype, seed=seed)
        items = batch[:1]
        runs = (rng.random((*items, keys)) < rng.choice([0.05, 0.3, 0.8])).cumsum(-1)
        ids = {"runs": runs, "mixed": rng.integers(0, 3, runs.shape), "alike": runs[..., :] * 0 + 7}.get(style, runs)
        if style == "padding":
            ids = np.where(np.arange(keys) >= rng.integers(0, keys + 1, (*items, 1)), -1, runs)
        lengths = torch.from_numpy(rng.integers(0, keys + 1, items or (1,)))
        mask = packed(kind, torch.from_numpy(ids), lengths)
        results = []
        for path in ("plain", kernel):
            inputs = [x.clone().requires_grad_() for x in (query, key, value)]
            with use(path):
                results.append(everything(regard.attend(*inputs, mask=mask), inputs))
        same(results[1], results[0], 1e-9 if dtype == torch.float64 else 3e-5)

    check()


@pytest.mark.parametrize("kernel", ["plain", *KERNELS])
def test_a_packed_sequence_is_as_if_it_were_alone(kernel, paths):
    """Sequences of 1, 7 and 4 places in one row, heads, rotary positions, causal or not; and NaN in one stays there."""
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 4, key_heads=2, positions="rotary")
    each = [torch.randn(1, n, 8) for n in (1, 7, 4)]
    row = torch.cat(each, 1)
    ids = torch.arange(3).repeat_interleave(torch.tensor([1, 7, 4]))
    for more in (None, masks.causal()):
        mask = masks.both(masks.segments(ids), more)
        with use(kernel):
            together = heads(row, mask=mask)
            alone = [heads(x, mask=more) for x in each]
        torch.testing.assert_close(together.context, torch.cat([x.context for x in alone], 1), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together.weights[:, :, 1:8, 1:8], alone[1].weights, atol=1e-5, rtol=1e-5)
        assert not together.weights[:, :, 1:8, 8:].any()
        spoiled = row.clone()
        spoiled[:, 8:] = torch.nan
        with use(kernel):
            context = heads(spoiled, mask=mask).context
        torch.testing.assert_close(context[:, :8], together.context[:, :8], atol=1e-5, rtol=1e-5)
        assert context[:, 8:].isnan().all()
    if kernel in ("fused", None):
        assert paths.count("_along") == 2
    single = heads(row[0], mask=masks.segments(ids))
    torch.testing.assert_close(single.context, heads(row, mask=masks.segments(ids)).context[0], atol=1e-5, rtol=1e-5)


def test_segments_grow_and_are_selected():
    ids = torch.tensor([[0, 0, 1], [4, 5, 5]])
    mask = masks.segments(ids)
    grown = mask.grow((2, 1, 3), 2)
    assert grown.ids.tolist() == [[0, 0, 1, 1, 1], [4, 5, 5, 5, 5]]
    last = grown.tensor((2, 1, 5))
    assert last.tolist() == [[[False, False, True, True, True]], [[False, True, True, True, True]]]
    assert grown.select(torch.tensor([1, 1])).ids.tolist() == [grown.ids[1].tolist()] * 2
    assert masks.segments(ids[0]).select(torch.tensor([1])).ids.ndim == 1
    memory = regard.Attention().remember(torch.randn(2, 3, 4), mask=mask)
    assert memory.allowed().all()
    assert mask.span((2, 3, 3)) is mask.span((2, 3, 3)), "found once for all layers"
    ids[0, 0] = 9
    assert mask.span((2, 3, 3))[1].tolist() == [[1, 2, 3], [1, 3, 3]], "and again when they change"
    for bad, message in (
        (lambda: masks.segments(ids.float()), "float32"),
        (lambda: masks.segments(ids[None]), r"\(1, 2, 3\)"),
        (lambda: mask.tensor((3, 3, 3)), r"\(2, 3\).*\(3, 3, 3\)"),
        (lambda: mask.tensor((2, 3, 4)), r"\(2, 3\).*\(2, 3, 4\)"),
        (lambda: mask.tensor((2, 4, 3)), "not 4"),
        (lambda: mask.tensor((3, 3)), r"\(2, 3\).*\(3, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()


def test_packed_sequences_compiled():
    torch._dynamo.reset()
    query, key, value = drawn((2,), 9, 9, dtype=torch.float32)
    ids = torch.tensor([[0] * 4 + [1] * 5, [2] * 9])

    attention = regard.Attention()

    def step(query, ids):
        return attention(query, key, value, mask=masks.both(masks.segments(ids), masks.causal())).context

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(query, ids), step(query, ids), atol=1e-5, rtol=1e-5)


def test_the_equation():
    """Against loops: T = S, causal, the last two keys padding."""
    query, key, value = drawn((2,), 11, 11)
    rows = oracle.mask_window(11, 11, 3) & oracle.mask_causal(11, 11)
    for kernel in KERNELS:
        with use(kernel):
            mask = masks.window(3) & masks.causal() & masks.lengths(torch.tensor([11, 9]))
            out = regard.attend(query, key, value, mask=mask)
        for b, length in enumerate((11, 9)):
            allowed = rows & (np.arange(11) < length)
            rule = {"score": oracle.scaled_dot, "normalizer": oracle.softmax}
            seen = oracle.attend(*(x[b].numpy() for x in (query, key, value)), allowed, **rule)
            np.testing.assert_allclose(out.context[b], seen.context, atol=1e-12)
            np.testing.assert_allclose(out.weights[b], seen.weights, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_which_way_is_gone(kernel, paths):
    """The fused kernel for dot products, blocks for any other score or normalizer, and what is dense is left alone."""
    query, key, value = drawn((2,), 12, 12, dtype=torch.float32)
    with use(kernel):
        for score in ("scaled_dot", "dot", "cosine"):
            regard.attend(query, key, value, score=score, mask=masks.window(2))
        assert paths == ["_around" if kernel == "chunked" else "_along"] * 3
        paths.clear()
        regard.Attention(Additive(4, 4, 3))(query, key, mask=masks.window(1))
        regard.attend(query, key, value, score=Gaussian(), mask=masks.window(1))
        for normalizer in ("sparsemax", "sigmoid", Softmax(2.0)):
            regard.attend(query, key, value, normalizer=normalizer, mask=masks.window(1), weights=True)
        regard.attend(query, key, value, mask=masks.window(1), dropout=0.5)
        assert paths == ["_around"] * 6
        paths.clear()
        regard.attend(query, key, value, mask=masks.causal() & masks.lengths(torch.tensor([12, 3])))
        regard.attend(query, key, value, mask=~masks.window(2))
        regard.attend(query, key, value, mask=masks.window(2) | masks.causal())
        assert not paths


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("score", ["additive", "general", "gaussian", "mlp_dot", "leaky_additive", "inverse_distance"])
def test_any_score_in_a_window(score, kernel):
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 4, key_heads=2, window=2, score=score).to(
        torch.float32 if kernel == "fused" else torch.float64
    )
    (x, *_) = drawn((2,), 11, 1, width=8, dtype=heads.out.weight.dtype)
    for mask in (None, masks.causal(), masks.lengths(torch.tensor([11, 6]))):
        results = []
        for path in ("plain", kernel):
            given = x.clone().requires_grad_()
            with use(path):
                out = heads(given, mask=mask)
                results.append(everything(out, (given, *heads.attention.parameters())))
                inside = oracle_band(11, 2, 0 if isinstance(mask, masks.Causal) else 2).expand_as(out.weights)
                results[-1].append(out.scores[inside])
        same(results[1], results[0], 1e-9 if kernel != "fused" else 1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradcheck(kernel):
    inputs = [x.requires_grad_() for x in drawn((1, 2), 6, 7, width=2)]
    mask = masks.window(1) & masks.lengths(torch.tensor([5])) & masks.causal()

    def run(*inputs):
        with use(kernel):
            return regard.attend(*inputs, mask=mask).context

    assert torch.autograd.gradcheck(run, inputs)
    if kernel == "chunked":
        with use("chunked"):  # small halves take plain products, which have a second derivative
            context = regard.attend(*inputs, mask=mask, normalizer="sigmoid").context
            (slope,) = torch.autograd.grad(context.square().sum(), inputs[0], create_graph=True)
            assert torch.autograd.grad(slope.square().sum(), inputs[0])[0].isfinite().all()
    else:
        (slope,) = torch.autograd.grad(run(*inputs).square().sum(), inputs[0], create_graph=True)
        with pytest.raises(RuntimeError, match=r'use\("plain"\)'):
            slope.square().sum().backward()


@pytest.mark.parametrize("kernel", ["plain", *KERNELS])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e38])
def test_what_is_masked_does_not_matter(bad, kernel):
    """In padding, outside every window, and inside some windows but not others."""
    dtype = torch.float32
    query, key, value = drawn((2,), 13, 13, dtype=dtype)
    for mask, spoiled in (
        (masks.window(2) & masks.lengths(torch.tensor([13, 9])), 11),
        (masks.window(2) & masks.causal(), 12),
        (masks.window(1), 6),
    ):
        allowed = mask.tensor((2, 13, 13)).expand(2, 13, 13)
        rows = ~allowed[..., spoiled]  # (B, T)
        if spoiled == 11:
            rows = rows & torch.tensor([[False], [True]])
        results = []
        for filler in (0.0, bad):
            k, v = key.clone(), value.clone()
            k[rows.any(1), spoiled], v[rows.any(1), spoiled] = filler, filler
            inputs = [x.requires_grad_() for x in (query.clone(), k, v)]
            with use(kernel):
                out = regard.attend(*inputs, mask=mask)
            kept, weights = out.context[rows], out.weights[rows]
            slopes = torch.autograd.grad((kept * torch.linspace(-1, 1, kept.numel()).view_as(kept)).sum(), inputs)
            results.append([kept, weights, *slopes])
            if filler != filler:  # NaN, which those who may attend it see
                assert out.context[~rows & allowed[..., spoiled] & rows.any(1, keepdim=True)].isnan().all()
        assert all(x.isfinite().all() for x in results[1])
        same(results[1], results[0], 1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_without_a_key(kernel):
    inputs = [x.requires_grad_() for x in drawn((2, 2), 12, 12, dtype=torch.float32)]
    with use(kernel):
        out = regard.attend(*inputs, mask=masks.window(1) & masks.lengths(torch.tensor([12, 4])))
    assert not out.context[1, :, 5:].any() and not out.weights[1, :, 5:].any()
    assert out.context[1, :, :5].all()
    slopes = torch.autograd.grad(out.context[1, :, 5:].sum(), inputs)
    assert not any(slope.any() for slope in slopes)


@pytest.mark.parametrize("radius", [0, 1, 3, 50])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_decoder_reads_the_last_keys(score, masked, radius, monkeypatch):
    """Step by step equals at once; the kernel of a step is given no more keys than the window has."""
    torch.manual_seed(0)
    heads = regard.MultiHead(8, 4, key_heads=2, window=radius, score=score)
    (x, *_) = drawn((3,), 9, 1, width=8, dtype=torch.float32)
    padding = masks.lengths(torch.tensor([2, 1, 0])) if masked else None
    read, run = [], regard.kernels.single._run

    def counted(form, *rest):
        read.append(form.key.shape[-2] if rest[4] is None else rest[4].shape[1])
        return run(form, *rest)

    monkeypatch.setattr(regard.kernels.single, "_run", counted)
    with torch.no_grad():
        whole = masks.causal() if padding is None else masks.causal() & padding.grow((3, 1, 2), 7)
        expected = heads(x, mask=whole)
        memory = heads.remember(x[:, :2], mask=padding)
        for t in range(2, 9):
            memory = memory.append(x[:, t : t + 1])
            out = heads(x[:, t : t + 1], memory)
            torch.testing.assert_close(out.context, expected.context[:, t : t + 1], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(out.weights, expected.weights[:, :, t : t + 1, : t + 1], atol=1e-5, rtol=1e-5)
            if t == 5:
                order = torch.tensor([2, 0, 0])
                x, expected = x[order], heads(x[order], mask=whole.select(order))
                memory = memory.select(order)
        assert read and max(read) <= radius + 1
        tail = memory.last(min(radius + 1, 9))
        assert tail.key.shape[-2] == tail.value.shape[-2] == tail.length == min(radius + 1, 9)
        torch.testing.assert_close(tail.key, memory.key[..., -tail.length :, :])


def test_compile_and_export():
    """No number is read there, so blocks are taken; a graph without a break, and one that can be exported."""
    torch._dynamo.reset()
    heads = regard.MultiHead(8, 4, key_heads=2, window=2)
    (x, *_) = drawn((2,), 11, 1, width=8, dtype=torch.float32)

    def step(x, lengths):
        return heads(x, mask=masks.both(masks.causal(), masks.lengths(lengths)), weights=False).context

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = heads

        def forward(self, x, lengths):
            return step(x, lengths)

    lengths = torch.tensor([11, 5])
    expected = step(x, lengths)
    given = x.clone().requires_grad_()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    same([compiled(given, lengths)], [expected], 1e-5)
    slopes = [torch.autograd.grad(f(given, lengths).square().sum(), given)[0] for f in (compiled, step)]
    same(slopes[:1], slopes[1:], 1e-5)
    program = torch.export.export(Exported(), (x, lengths))
    same([program.module()(x, lengths)], [expected], 1e-5)


def test_vmap_and_forward_mode():
    query, key, value = (torch.stack([x, -x]) for x in drawn((), 11, 11))

    def run(query, key, value):
        return regard.attend(query, key, value, mask=masks.window(2)).context

    found = torch.vmap(run)(query, key, value)
    same(found, torch.stack([run(*x) for x in zip(query, key, value)]))
    tangent = torch.func.jvp(lambda q: run(q, key[0], value[0]), (query[0],), (query[1],))[1]
    step = 1e-6
    ends = [run(query[0] + sign * step * query[1], key[0], value[0]) for sign in (1, -1)]
    torch.testing.assert_close(tangent, (ends[0] - ends[1]) / (2 * step), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype):
    inputs = drawn((2, 2), 40, 40, width=8)
    mask = masks.window(5) & masks.lengths(torch.tensor([40, 22]))
    with use("plain"):
        expected = regard.attend(*inputs, mask=mask)
    for kernel in KERNELS:
        halves = [x.to(dtype).requires_grad_() for x in inputs]
        with use(kernel):
            out = regard.attend(*halves, mask=mask)
        assert out.context.dtype == out.weights.dtype == dtype
        torch.testing.assert_close(out.context.double(), expected.context, atol=3e-2, rtol=3e-2)
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.context.float().sum(), halves))


def test_the_tape_and_unbatched_queries():
    heads = regard.MultiHead(8, 2, window=1)
    (x, *_) = drawn((2,), 9, 1, width=8, dtype=torch.float32)
    with regard.record(heads) as tape:
        out = heads(x, mask=masks.causal())
    torch.testing.assert_close(tape["multi_head"].weights, out.weights)
    assert torch.equal(out.weights > 0, oracle_band(9, 1, 0).expand_as(out.weights))
    alone = heads(x[0], mask=masks.causal())
    torch.testing.assert_close(alone.context, out.context[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(alone.weights, out.weights[0], atol=1e-6, rtol=1e-5)
    assert "window=1" in repr(heads)


def oracle_band(length, before, behind):
    return torch.tensor([[t - before <= s <= t + behind for s in range(length)] for t in range(length)])


def test_nothing_of_size_t_squared(monkeypatch):
    """Forward and backward at T = 20,000 with a window of 16: no tensor is larger than a few hundred bytes a query."""
    monkeypatch.undo()
    largest = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    largest.append(tensor.untyped_storage().nbytes())
            return out

    length = 20_000
    inputs = [x.requires_grad_() for x in drawn((1, 1), length, length, width=8, dtype=torch.float32)]
    for mask in (masks.window(16), masks.window(16) & masks.causal() & masks.lengths(torch.tensor([length - 5]))):
        largest.clear()
        with Sizes():  # in which no number may be read: blocks
            torch.autograd.grad(regard.attend(*inputs, mask=mask).context.sum(), inputs)
        assert max(largest) < length * 8 * (128 + 32) * 4
        plan = regard.kernels.spans_of(mask, (1, 1, length, length), inputs[0]).blocks
        assert sum((q.stop - q.start) * (k.stop - k.start) for _, q, k in plan) < length * 100
        assert regard.attend(*inputs, mask=mask).context.shape == (1, 1, length, 8)


@settings(max_examples=100)
@given(st.integers(1, 3), st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**16))
def test_every_pair_is_in_one_block(batch, queries, keys, seed):
    """The plan covers what a query sees, once, and a query that sees nothing is in it or not."""
    rng = np.random.default_rng(seed)
    first, stop = (torch.from_numpy(np.sort(rng.integers(0, keys + 1, (batch, queries)), 1)) for _ in range(2))
    first = first.masked_fill(torch.from_numpy(rng.random((batch, queries)) < 0.1), keys)
    seen = np.zeros((batch, queries, keys), int)
    for items, rows, columns in spans.Spans.of(first, stop, batch).blocks:
        seen[items, rows, columns] += 1
    place = np.arange(keys)
    wanted = (place >= first.numpy()[..., None]) & (place < stop.numpy()[..., None])
    assert (seen[wanted] == 1).all() and seen.max(initial=0) <= 1


def test_spans_are_what_masks_say():
    shape = (2, 3, 5, 7)
    for mask in (masks.causal(), masks.window(2), masks.lengths(torch.tensor([3, 7])), masks.lengths(torch.tensor(4))):
        first, stop = mask.span(shape)
        place = torch.arange(7)
        found = (place >= first[..., None]) & (place < stop[..., None])
        assert torch.equal(found.expand(shape), mask.tensor(shape).expand(shape))
    assert (~masks.causal()).span(shape) is None and masks.Dense(torch.ones(2, 7, dtype=torch.bool)).band() is None
    with pytest.raises(ValueError, match="more than the 7 keys"):
        masks.lengths(torch.tensor([9, 2])).span(shape)


def test_bad_windows():
    with pytest.raises(ValueError, match="negative: -1"):
        regard.MultiHead(8, 2, window=-1)
    for kernel, mask in product(KERNELS, (masks.window(2) & torch.ones(3, 12, dtype=torch.bool),)):
        with use(kernel), pytest.raises(ValueError, match=r"\(3, 12\)"):
            regard.attend(*drawn((2,), 12, 12, dtype=torch.float32), mask=mask)


@pytest.mark.parametrize("version", ["2.6.0", "2.13.0"])
def test_older_versions_of_torch_get_a_key_for_each_query(version, monkeypatch):
    """torch 2.6 takes fewer heads of keys without a word, and reads and writes behind their end."""
    seen = []
    forward = spans._forward

    def spy(query, key, *more, **named):
        seen.append((query.shape[1], key.shape[1]))
        key, value = (groups.repeat(rows, 4 // rows.shape[1]) for rows in (key, more[0]))
        return forward(query, key, value, *more[1:], **named)

    monkeypatch.setattr(spans, "_forward", spy)
    monkeypatch.setattr(torch, "__version__", TorchVersion(version))
    query, (key, value) = torch.randn(1, 4, 9, 8), torch.randn(2, 1, 2, 9, 8)
    ends = torch.arange(9)[None]
    spans.attend(query, key, value, spans.Spans.of((ends - 2).clamp_min(0), ends + 1, 1), 1.0)
    assert seen and set(seen) == {(4, 4 if version == "2.6.0" else 2)}
