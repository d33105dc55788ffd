"""The fused step of the NTM against its plain twin, which goes through the core, and against loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.kernels import turing
from regard.systems.ntm import NTM, Config


def machine(width, reads, writes, reach):
    torch.manual_seed(0)
    return NTM(Config(3, 2, rows=4, width=width, reads=reads, writes=writes, reach=reach, hidden=6))


def drawn(model, batch, rows, scale=1.0, seed=0):
    """A memory, weights that sum to 1, and what a controller might say."""
    torch.manual_seed(seed)
    heads = model.config.reads + model.config.writes
    weights = torch.softmax(3 * torch.randn(batch, heads, rows), -1)
    return [scale * torch.randn(batch, model.config.width, rows), weights, 2 * torch.randn(batch, sum(model.sizes))]


def gradients(step, inputs, dtype):
    """Outputs and gradients of a random weighting of all outputs."""
    inputs = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    out = step(*inputs)
    torch.manual_seed(5)
    total = sum((tensor * torch.randn(tensor.shape).to(dtype)).sum() for tensor in out)
    return [*out, *torch.autograd.grad(total, inputs)]


def close(fast, plain, slack=0.0):
    for found, expected in zip(fast, plain, strict=True):
        found, expected = found.detach().double(), expected.detach().double()
        assert torch.allclose(found, expected, rtol=1e-4, atol=2e-5 * max(1.0, float(expected.abs().max())) + slack)


@settings(max_examples=25)
@given(
    batch=st.integers(1, 3),
    rows=st.integers(1, 20),
    width=st.integers(1, 9),
    reads=st.integers(1, 3),
    writes=st.integers(1, 3),
    reach=st.integers(0, 3),
    scale=st.sampled_from([1.0, 1e-4, 100.0]),
)
def test_fused_equals_plain_values_and_gradients(batch, rows, width, reads, writes, reach, scale):
    model = machine(width, reads, writes, reach)
    inputs = drawn(model, batch, rows, scale)
    fused = gradients(lambda *x: turing.step(*x, reads, model.shifts), inputs, torch.float32)
    # A row of length r turns by 1/r for what is added to it; its rounding errors are as much larger.
    close(fused, gradients(model.turn, inputs, torch.float64), slack=1e-6 / scale)


def test_rows_too_short_to_have_a_direction():
    model = machine(4, 1, 1, 1)
    inputs = drawn(model, 2, 6, scale=1e-10)
    fused = gradients(lambda *x: turing.step(*x, 1, 3), inputs, torch.float32)
    close(fused, gradients(model.turn, inputs, torch.float64))


def test_plain_equals_the_equations():
    """Equations 2 to 9 of the paper as loops over float64 numbers."""
    model = machine(3, 1, 2, 1)
    memory, weights, raw = (tensor.double() for tensor in drawn(model, 1, 5))
    found = [tensor[0].tolist() for tensor in model.turn(memory, weights, raw)]
    m, before, given_raw = memory[0].T.tolist(), weights[0].tolist(), raw[0].tolist()

    def softplus(x):
        return math.log1p(math.exp(x))

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    def norm(x):
        return math.sqrt(sum(v * v for v in x))

    def softmax(x):
        total = sum(map(math.exp, x))
        return [math.exp(v) / total for v in x]

    size, now = 3 + 3 + 3, []
    for h in range(3):
        p = given_raw[h * size : (h + 1) * size]
        key, gain, gate, power, shift = p[:3], softplus(p[3]), sigmoid(p[4]), 1 + softplus(p[5]), softmax(p[6:])
        alike = softmax([gain * sum(a * b for a, b in zip(key, row)) / norm(key) / norm(row) for row in m])
        mixed = [gate * a + (1 - gate) * b for a, b in zip(alike, before[h])]
        moved = [sum(mixed[(i - (j - 1)) % 5] * shift[j] for j in range(3)) for i in range(5)]
        sharp = [x**power for x in moved]
        now.append([x / sum(sharp) for x in sharp])
    read = [sum(now[0][i] * m[i][d] for i in range(5)) for d in range(3)]
    written = [[0.0] * 5 for _ in range(3)]
    for i in range(5):
        for d in range(3):
            value = m[i][d]
            for h in (1, 2):
                value *= 1 - now[h][i] * sigmoid(given_raw[3 * size + (h - 1) * 6 + d])
            for h in (1, 2):
                value += now[h][i] * math.tanh(given_raw[3 * size + (h - 1) * 6 + 3 + d])
            written[d][i] = value
    for got, expected in zip(found, (written, now, [read]), strict=True):
        assert np.allclose(got, expected, atol=1e-10)


def test_gradcheck_of_the_plain_step():
    model = machine(3, 2, 2, 1)
    inputs = [tensor.double().requires_grad_() for tensor in drawn(model, 2, 4)]
    assert torch.autograd.gradcheck(model.turn, inputs)


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
def test_a_whole_tape_is_the_same_both_ways(controller):
    torch.manual_seed(0)
    model = NTM(Config(4, 3, rows=16, width=6, hidden=10, controller=controller))
    inputs = torch.randint(0, 2, (3, 12, 4)).float()
    fused = model.run(inputs)
    fast = torch.autograd.grad(fused.square().sum(), list(model.parameters()))
    with regard.kernels.use("plain"):
        plain = model.run(inputs)
    slow = torch.autograd.grad(plain.square().sum(), list(model.parameters()))
    close([fused, *fast], [plain, *slow])


def test_a_tape_sees_the_heads_that_the_kernel_hides():
    torch.manual_seed(0)
    model = NTM(Config(4, 3, rows=7, width=6, reads=2, hidden=10))
    inputs = torch.randn(2, 5, 4)
    with regard.record(model) as tape, torch.no_grad():
        seen = model.run(inputs)
    assert tape["heads"].weights.shape == (2, 3, 5, 7)
    assert torch.allclose(tape["heads"].weights.sum(-1), torch.ones(2, 3, 5), atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(seen, model.run(inputs), atol=1e-5)


def test_several_threads_compute_the_same():
    model = machine(20, 1, 1, 1)
    inputs = drawn(model, 64, 128)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(gradients(lambda *x: turing.step(*x, 1, 3), inputs, torch.float32))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


def test_extreme_strengths_stay_finite():
    """Strengths, gates and sharpenings far beyond anything learned."""
    model = machine(4, 1, 1, 1)
    for scale in (50.0, 1e3, 1e6):
        memory, weights, raw = drawn(model, 4, 9)
        out = gradients(lambda *x: turing.step(*x, 1, 3), [memory, weights, raw * scale], torch.float32)
        assert all(torch.isfinite(tensor).all() for tensor in out), scale
        assert torch.allclose(out[1].sum(-1), torch.ones(4, 2), atol=1e-5)


def test_nan_in_gives_nan_out():
    model = machine(4, 1, 1, 1)
    for place in range(3):
        inputs = drawn(model, 1, 9)
        inputs[place][(0,) * inputs[place].ndim] = float("nan")
        _, weights, read = turing.step(*inputs, 1, 3)
        assert torch.isnan(read).any() and torch.isnan(weights[0, 0]).any(), place


def test_the_kernel_is_for_float32_and_steps_aside_otherwise():
    model = machine(4, 1, 1, 1)
    inputs = drawn(model, 1, 5)
    assert turing.fits(*inputs)
    assert not turing.fits(*(tensor.double() for tensor in inputs))
    with regard.kernels.use("plain"):
        assert not turing.fits(*inputs)
    with regard.record(model):
        assert not turing.fits(*inputs)


def test_a_second_derivative_is_refused():
    model = machine(4, 1, 1, 1)
    memory, weights, raw = drawn(model, 1, 5)
    raw.requires_grad_()
    read = turing.step(memory, weights, raw, 1, 3)[2]
    with pytest.raises(RuntimeError, match=r'use\("plain"\)'):
        torch.autograd.grad(read.sum(), raw, create_graph=True)


def test_wrong_shapes_are_named():
    model = machine(4, 1, 1, 1)
    memory, weights, raw = drawn(model, 2, 5)
    with pytest.raises(ValueError, match=r"\(2, 28\), not \(2, 27\)"):
        turing.step(memory, weights, raw[:, 1:], 1, 3)
    with pytest.raises(ValueError, match="odd"):
        turing.step(memory, weights, raw, 1, 2)
