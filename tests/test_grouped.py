"""Heads of queries that share keys: the same as a copy of the keys for each of them, by every kernel."""

from contextlib import nullcontext
from itertools import product

import pytest
import torch

import regard
from regard import masks
from regard.heads import PerHead
from regard.kernels import single
from regard.scores import LocationAware
from test_heads import buildable

B, T, S, DIM, HEADS, KEY_HEADS = 2, 4, 5, 24, 6, 2
GROUP = HEADS // KEY_HEADS
MASKS = {
    "none": lambda: None,
    "padding": lambda: masks.lengths(torch.tensor([2, 5])),
    "causal": lambda: masks.causal(),
    "per head": lambda: torch.rand(B, HEADS, T, S, generator=torch.Generator().manual_seed(3)) > 0.4,
    "dead": lambda: masks.lengths(torch.tensor([0, 5])),
}


def twins(score="scaled_dot", **options):
    """A module with fewer heads of keys, and one with as many as queries that computes the same."""
    torch.manual_seed(0)
    few = regard.MultiHead(DIM, HEADS, key_heads=KEY_HEADS, score=score, **options)
    for parameter in few.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    many = regard.MultiHead(DIM, HEADS, score=score, **options)
    state = few.state_dict()
    for name in ("key", "value"):
        for kind in ("weight", "bias"):
            heads = state[f"{name}.{kind}"].unflatten(0, (KEY_HEADS, -1))
            state[f"{name}.{kind}"] = heads.repeat_interleave(GROUP, 0).flatten(0, 1)
    if isinstance(few.attention.score, PerHead):
        own = {name: state[name] for name in list(state) if name.startswith("attention.score.scores.")}
        for name, tensor in own.items():
            *path, head, rest = name.split(".", 4)
            for h in range(GROUP):
                state[".".join([*path, str(int(head) * GROUP + h), rest])] = tensor
    many.load_state_dict(state)
    return few, many


def rows(*lengths, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, n, DIM, generator=generator).to(dtype) for n in lengths]


def looked(module, kernel, mask, learning):
    query, key = (x.requires_grad_(learning) for x in rows(T, S))
    with nullcontext() if kernel is None else regard.kernels.use(kernel), torch.set_grad_enabled(learning):
        out = module(query, key, mask=mask)
        assert out.weights.shape == (B, HEADS, T, S)
        if not learning:
            return [out.context, out.weights, out.scores]
        slopes = torch.linspace(-1, 1, out.context.numel()).view_as(out.context)
        loss = (out.context * slopes).sum() + out.weights.square().sum()
        return [out.context, out.weights, *torch.autograd.grad(loss, (query, key))]


@pytest.mark.parametrize("kernel", [None, "plain", "chunked", "fused"])
@pytest.mark.parametrize("score", buildable())
def test_equals_repeated_keys(score, kernel):
    few, many = twins(score)
    assert few.key.out_features == few.value.out_features == DIM // GROUP
    for (name, mask), learning in product(MASKS.items(), (True, False)):
        results = [looked(module, kernel, mask(), learning) for module in (few, many)]
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected, atol=2e-5, rtol=2e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("keys", [60, 5])
@pytest.mark.parametrize("kernel", [None, "plain", "fused"])
def test_self_attention(kernel, keys):
    few, many = twins()
    (x,) = rows(keys)
    with nullcontext() if kernel is None else regard.kernels.use(kernel):
        for mask in (None, masks.causal(), masks.causal() & masks.lengths(torch.tensor([keys, keys - 2]))):
            torch.testing.assert_close(few(x, mask=mask).context, many(x, mask=mask).context, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(few(x[0]).weights, many(x[0]).weights, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mask", ["none", "padding", "dead", "per head"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive", "gaussian", "cosine", "leaky_additive"])
def test_a_decoder(score, mask, monkeypatch):
    """Single queries at a memory that grows and is reordered, read where it lies."""
    few, many = twins(score)
    calls = []
    monkeypatch.setattr(single, "_run", lambda *args, run=single._run: calls.append(1) or run(*args))
    query, key = rows(T, S)
    allowed = MASKS[mask]()
    if mask == "per head":
        allowed = allowed[:, :, :1]
    results = []
    with torch.no_grad():
        for module in (few, many):
            memory = module.remember(key, mask=allowed)
            assert memory.shape[-3] == module.key_heads
            found = [module(query[:, :1], memory).context]
            memory = memory.append(query[:, 1:2])
            memory = memory.select(torch.tensor([1, 1, 0]))
            found.append(module(query[[1, 1, 0], 2:3], memory).context)
            memory = memory.append(query[[0, 1, 0], :1])
            out = module(query[[1, 1, 0], 3:4], memory)
            results.append([*found, out.context, out.weights, out.scores])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    if score not in ("leaky_additive", "gaussian"):  # the one has no kernel here, the other is a dot product to a group
        assert len(calls) >= 6


@pytest.mark.parametrize("group", [2, 4, 8, 12])
def test_single_queries_of_any_group_and_layout(group):
    """Four queries read a key together where they can: odd lengths, rows that lie apart, pieces, allowed keys."""
    generator = torch.Generator().manual_seed(group)
    for length, width in ((3, 8), (17, 5), (4100, 16)):
        query = torch.randn(2, 2 * group, 1, width, generator=generator)
        key, value = (torch.randn(2, length, 2, width, generator=generator) for _ in range(2))
        allowed = torch.rand(2, length, generator=generator) > 0.3
        for layout in (lambda x: x.transpose(1, 2), lambda x: x.transpose(1, 2).contiguous()):
            for mask in (None, allowed, masks.lengths(torch.tensor([length, length - 2]))):
                with torch.no_grad():
                    found = regard.attend(query, layout(key), layout(value), mask=mask, grouped=True)
                    copies = [layout(x).repeat_interleave(group, 1) for x in (key, value)]
                    with regard.kernels.use("plain"):
                        expected = regard.attend(query, *copies, mask=mask)
                    torch.testing.assert_close(found.context, expected.context, atol=1e-5, rtol=1e-5)
                    torch.testing.assert_close(found.weights, expected.weights, atol=1e-5, rtol=1e-5)


def test_gradcheck_with_a_dead_row():
    few, _ = twins()
    few = few.double()
    query, key = (x[:, :3].requires_grad_() for x in rows(T, S, dtype=torch.float64))
    mask = torch.tensor([[True, False, True], [False] * 3])

    def run(query, key, *_):
        out = few(query, key, mask=mask)
        return out.context, out.weights

    leaves = (query, key, few.key.weight)
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)
    with regard.kernels.use("plain"):
        assert torch.autograd.gradgradcheck(lambda *x: run(*x)[0], leaves, fast_mode=True)
    out = few(query, key, mask=mask)
    torch.testing.assert_close(out.context[1], few.out.bias.expand(3, -1))
    assert not out.weights[1].any()
    (slope,) = torch.autograd.grad(out.context[1].sum(), key)
    assert not slope.any()


@pytest.mark.parametrize("kernel", [None, "plain", "fused"])
@pytest.mark.parametrize("keys", [6, 60])
def test_what_is_masked_does_not_matter(keys, kernel):
    few, _ = twins()
    query, key = rows(T, keys)
    per_head = torch.ones(B, HEADS, T, keys, dtype=torch.bool)
    per_head[:, 1, :2, -1] = False
    for mask, seen in (
        (masks.lengths(torch.tensor([keys - 1, keys - 1])), slice(0, 0)),
        (masks.causal(), slice(T - 1, T)),
        (per_head, slice(0, T)),
    ):
        found = []
        for filler in (0.0, torch.nan):
            spoiled = key.clone()
            spoiled[:, -1] = filler
            with nullcontext() if kernel is None else regard.kernels.use(kernel):
                heads = few.attention(few._split(few.query(query)), few.remember(spoiled, mask=mask)).context
            rest = torch.ones(T, dtype=torch.bool)
            rest[seen] = False
            kept = heads[:, :, rest] if mask is not per_head else heads[:, 1, :2]
            found.append([kept, *torch.autograd.grad(kept.square().sum(), few.key.weight)])
            if filler and seen.stop:
                assert heads[:, :, T - 1].isnan().all()
        for clean, dirty in zip(*found, strict=True):
            torch.testing.assert_close(dirty, clean, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compile_and_export(backend):
    few, _ = twins()
    query, key = rows(T, S)

    def step(query, key, lengths):
        out = few(query, key, mask=masks.lengths(lengths), weights=True)
        return out.context, out.weights

    torch._dynamo.reset()
    lengths = torch.tensor([2, 5])
    compiled = torch.compile(step, fullgraph=True, backend=backend)(query, key, lengths)
    torch.testing.assert_close(compiled, step(query, key, lengths), atol=1e-5, rtol=1e-5)

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = few

        def forward(self, query, key, mask):
            return self.heads(query, key, mask=mask, weights=False).context

    allowed = torch.rand(B, T, S) > 0.3
    program = torch.export.export(Exported(), (query, key, allowed))
    torch.testing.assert_close(program.module()(query, key, allowed), few(query, key, mask=allowed).context)


def test_a_stateful_score():
    few = regard.MultiHead(DIM, HEADS, key_heads=KEY_HEADS, score=LocationAware(4, 4, 6, filters=2, kernel=3))
    query, key = rows(T, S)
    mask = masks.lengths(torch.tensor([3, 5]))
    whole = few(query, key, mask=mask)
    memory = few.remember(key, mask=mask)
    state, steps = few.start(memory), []
    for t in range(T):
        out = few(query[:, t : t + 1], memory, state=state)
        state = out.state
        steps.append(out.context)
    torch.testing.assert_close(torch.cat(steps, 1), whole.context, atol=1e-5, rtol=1e-5)
    assert whole.weights.shape == (B, HEADS, T, S)


def test_lazy_weights_and_the_tape():
    few, many = twins()
    (x,) = rows(60)
    lazy, now = few(x), few(x, weights=True)
    with regard.record(few) as tape:
        few(x)
    for found in (lazy.weights, now.weights, tape["multi_head"].weights):
        torch.testing.assert_close(found, many(x).weights, atol=1e-5, rtol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="heads=6, key_heads=4"):
        regard.MultiHead(DIM, 6, key_heads=4)
    with pytest.raises(ValueError, match="key_heads=0"):
        regard.MultiHead(DIM, 6, key_heads=0)
    with pytest.raises(ValueError, match=r"\(2, 6, 3, 4\) and key \(2, 4, 5, 4\)"):
        regard.attend(torch.randn(2, 6, 3, 4), torch.randn(2, 4, 5, 4), grouped=True)
    with pytest.raises(ValueError, match="leading dimensions"):
        regard.attend(torch.randn(2, 6, 3, 4), torch.randn(2, 3, 5, 4))
    few, many = twins()
    (x,) = rows(S)
    with pytest.raises(ValueError, match="share each head"):
        few.attention(many._split(x)[:, :4], few.remember(x))
