"""Graves's window against loops over eqs. 46-51, and what a window that slides must keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import regard
from regard.glimpses import MixtureWindow

B, T, S, D, E, K = 2, 4, 6, 3, 5, 3


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def window(dtype=torch.float64, bias=True):
    """Random parameters, with steps of about one place so that four queries move visibly."""
    part = MixtureWindow(D, K).to(dtype)
    if bias:
        torch.nn.init.normal_(part.query.bias)
    return part


def loops(part, query, value, allowed=None, kappa=None):
    """Weights, context and κ of one item, (T, D) and (S, E)."""
    w, b = (x.detach().double().numpy() for x in (part.query.weight, part.query.bias))
    query, value = (x.detach().double().numpy() for x in (query, value))
    kappa = [0.0] * K if kappa is None else list(kappa)
    phi = np.zeros((len(query), len(value)))
    for t, q in enumerate(query):
        raw = [float(sum(w[i, d] * q[d] for d in range(D)) + b[i]) for i in range(3 * K)]
        for k in range(K):
            alpha, beta = math.exp(raw[k]), math.exp(raw[K + k])
            kappa[k] += math.exp(raw[2 * K + k])
            for u in range(len(value)):
                if allowed is None or allowed[u]:
                    phi[t, u] += alpha * math.exp(-beta * (kappa[k] - u) ** 2)
    return phi, phi @ value, kappa


def test_against_loops():
    part, query, value = window(), torch.randn(B, T, D).double(), torch.randn(B, S, E).double()
    start = torch.rand(B, K).double()
    out = part(query, value, state=start)
    for b in range(B):
        weights, context, kappa = loops(part, query[b], value[b], kappa=start[b].tolist())
        assert np.allclose(out.weights[b].detach(), weights, atol=1e-12)
        assert np.allclose(out.context[b].detach(), context, atol=1e-12)
        assert np.allclose(out.state[b].detach(), kappa, atol=1e-12)


def test_by_hand():
    """One Gaussian with α = β = 1 that moves a place per query; the first place is u = 0."""
    part = MixtureWindow(D, 1)
    torch.nn.init.zeros_(part.query.weight)
    torch.nn.init.zeros_(part.query.bias)
    out = part(torch.zeros(2, D), torch.eye(3))
    assert torch.allclose(out.weights, torch.tensor([[-1.0, 0.0, -1.0], [-4.0, -1.0, 0.0]]).exp())
    assert torch.equal(out.context, out.weights)
    assert out.state.tolist() == [2.0]


def test_one_call_equals_many():
    part, query, value = window(), torch.randn(B, T, D).double(), torch.randn(B, S, E).double()
    whole = part(query, value)
    state, contexts = part.start(value), []
    for t in range(T):
        out = part(query[:, t : t + 1], value, state=state)
        contexts.append(out.context)
        state = out.state
    assert torch.allclose(torch.cat(contexts, 1), whole.context, atol=1e-12)
    assert torch.allclose(state, whole.state, atol=1e-12)


def test_start_takes_a_value_or_a_memory():
    part, value = window(), torch.randn(B, S, E).double()
    memory = regard.Memory(value, value)
    assert torch.equal(part.start(value), part.start(memory))
    assert part.start(value).shape == (B, K)
    assert part.start(value.bfloat16()).dtype == torch.float32


def test_it_only_moves_forward_and_slowly_at_first():
    part = MixtureWindow(D, K)
    query, value = torch.randn(B, 100, D) * 0.1, torch.randn(B, S, E)
    centres = torch.stack([part(query[:, : t + 1], value).state for t in range(100)], 1)
    assert (centres.diff(dim=1) > 0).all()
    assert 3 < centres[:, -1].mean() < 8  # about e^-3 = 1/20 of a place per query


def test_what_a_row_sums_to():
    part = MixtureWindow(D, 2).double()
    with torch.no_grad():
        part.query.weight.zero_()
        part.query.bias.copy_(torch.tensor([0.3, -0.5, -1.0, -2.0, 3.0, 3.2]))  # κ = 20 and 24.5
    total = part(torch.zeros(1, D).double(), torch.zeros(50, 1).double()).weights.sum()
    expected = sum(math.exp(a) * math.sqrt(math.pi / math.exp(b)) for a, b in [(0.3, -1.0), (-0.5, -2.0)])
    assert total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", ["lengths", "tensor", "rows"])
def test_padding_changes_nothing(form):
    part, query, value = window(), torch.randn(B, T, D).double(), torch.randn(B, S, E).double()
    lengths = torch.tensor([S, 2])
    allowed = torch.arange(S) < lengths[:, None]
    mask = {"lengths": regard.masks.lengths(lengths), "tensor": allowed, "rows": allowed[:, None].expand(B, T, S)}[form]
    out = part(query, value, mask=mask)
    for b in range(B):
        weights, context, _ = loops(part, query[b], value[b], allowed[b])
        assert np.allclose(out.weights[b].detach(), weights)
        assert np.allclose(out.context[b].detach(), context)
    short = part(query[1:], value[1:, :2])
    assert torch.allclose(out.context[1:], short.context)
    assert not out.weights[1, :, 2:].any()


def test_no_allowed_key():
    part, query = window(), torch.randn(B, T, D).double().requires_grad_()
    out = part(query, torch.randn(B, S, E).double(), mask=torch.zeros(B, S, dtype=torch.bool))
    assert not out.weights.any() and not out.context.any()
    out.context.sum().backward()
    assert not query.grad.any()


def test_gradients():
    part, query = window(), torch.randn(B, T, D).double().requires_grad_()
    value, kappa = torch.randn(B, S, E).double().requires_grad_(), torch.rand(B, K).double().requires_grad_()

    def run(query, value, kappa, *_):
        out = part(query, value, state=kappa, mask=regard.masks.lengths(torch.tensor([S, 3])))
        return out.context, out.weights, out.state

    assert torch.autograd.gradcheck(run, (query, value, kappa, *part.parameters()))


def test_half_precision_does_not_stand_still():
    """In bfloat16, 16 + 1/20 is 16: a window that adds up in it would stop moving."""
    part = MixtureWindow(D, 1)
    torch.nn.init.zeros_(part.query.weight)
    query, value = torch.zeros(1, 800, D), torch.randn(1, 50, E)
    exact, half = part(query, value), part.bfloat16()(query.bfloat16(), value.bfloat16())
    assert exact.state > 39
    assert torch.allclose(half.state, exact.state, rtol=1e-4)
    assert half.context.dtype == half.weights.dtype == torch.bfloat16


@pytest.mark.parametrize("sizes", [(0, T, S), (B, 0, S), (B, T, 0), (0, 0, 0)])
def test_nothing_to_do(sizes):
    b, t, s = sizes
    part, start = window(torch.float32), torch.rand(b, K)
    out = part(torch.randn(b, t, D, requires_grad=True), torch.randn(b, s, E), state=start)
    assert out.context.shape == (b, t, E) and out.weights.shape == (b, t, s)
    assert not out.context.any() or t
    out.context.sum().backward()
    assert torch.equal(out.state, start) or t


def test_leading_dimensions_strides_vmap_and_compile():
    part, query, value = window(torch.float32), torch.randn(B, 3, T, D), torch.randn(B, 3, S, E)
    expected = part(query, value)
    flat = part(query.flatten(0, 1), value.flatten(0, 1)).context.unflatten(0, (B, 3))
    mapped = torch.func.vmap(lambda q, v: part(q, v).context)(query, value)
    strided = part(query.mT.contiguous().mT, value[..., :1].expand(B, 3, S, E))
    compiled = torch.compile(part, backend="aot_eager", fullgraph=True)(query, value)
    for other in (flat, mapped, compiled.context):
        assert torch.allclose(other, expected.context, atol=1e-5)
    assert torch.allclose(compiled.state, expected.state)
    assert torch.allclose(strided.context[..., 2], expected.context[..., 0], atol=1e-5)
    one_by_one = torch.stack([part(q, v).context for q, v in zip(query[0], value[0])])
    assert torch.allclose(one_by_one, expected.context[0], atol=1e-5)


def test_bad_input():
    part, query, value = window(torch.float32), torch.randn(B, T, D), torch.randn(B, S, E)
    with pytest.raises(ValueError, match=r"query \(…, T, 3\), not \(2, 4, 5\)"):
        part(torch.randn(B, T, 5), value)
    with pytest.raises(ValueError, match=r"\(2, 4, 3\) and value \(6, 5\)"):
        part(query, value[0])
    with pytest.raises(ValueError, match=r"κ, \(2, 3\), not \(2, 4\)"):
        part(query, value, state=torch.zeros(B, K + 1))
    with pytest.raises(ValueError, match=r"mask\.bool\(\)"):
        part(query, value, mask=torch.ones(B, S, dtype=torch.long))
    with pytest.raises(ValueError, match="mixtures=0"):
        MixtureWindow(D, 0)
