"""The loss in pieces against torch's, and against a loop."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from regard.layers import cross_entropy as module
from regard.layers.cross_entropy import cross_entropy


@pytest.fixture
def small_pieces(monkeypatch):
    """64 rows are the least of a piece; with a vocabulary of 30 these are pieces of 64 rows."""
    monkeypatch.setattr(module, "_ENTRIES", 100)


def case(count, kinds=30, width=7, bias=True):
    torch.manual_seed(count)
    rows = torch.randn(count, width, requires_grad=True)
    return rows, nn.Linear(width, kinds, bias=bias), torch.randint(kinds, (count,))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("count", [1, 64, 65, 200])
def test_value_and_gradients_are_torchs(count, smoothing, bias):
    rows, output, wanted = case(count, bias=bias)
    found = cross_entropy(rows, output, wanted, smoothing)
    inputs = [rows, *output.parameters()]
    grads = torch.autograd.grad(3 * found.loss, inputs)
    logits = output(rows)
    expected = functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.nll, functional.cross_entropy(logits, wanted, reduction="sum"))
    assert found.right == (logits.argmax(-1) == wanted).sum()
    for grad, right in zip(grads, torch.autograd.grad(3 * expected, inputs), strict=True):
        torch.testing.assert_close(grad, right, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_products_in_bfloat16_are_no_worse_than_torchs(bias, kind, monkeypatch):
    rows, output, wanted = case(200, bias=bias)
    rows = rows.detach().to(kind).requires_grad_()
    inputs = [rows, *output.parameters()]

    def measured():
        with torch.autocast("cpu", torch.bfloat16):
            found = cross_entropy(rows, output, wanted, 0.1)
        return found, torch.autograd.grad(found.loss, inputs)

    found, grads = measured()
    monkeypatch.setattr(module.vocabulary, "trains", lambda *_: False)
    plain, others = measured()
    assert type(found.loss.grad_fn).__name__ == "_PiecesBackward" != type(plain.loss.grad_fn).__name__
    torch.testing.assert_close(found.loss, plain.loss, rtol=1e-5, atol=0)
    assert found.right == plain.right
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    logits = functional.linear(*exact)
    loss = functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=0.1)
    for grad, other, right in zip(grads, others, torch.autograd.grad(loss, exact), strict=True):
        assert grad.dtype == other.dtype
        error, usual = ((each.double() - right).abs().max() for each in (grad, other))
        assert error <= 1.5 * usual
        assert error < 0.02 * right.abs().max()


def test_in_numbers():
    """Three kinds, one row: log-probabilities by hand."""
    output = nn.Linear(1, 3)
    with torch.no_grad():
        output.weight[:] = torch.tensor([[1.0], [2.0], [0.0]])
        output.bias[:] = torch.tensor([0.0, -1.0, 0.5])
    with torch.no_grad():
        found = cross_entropy(torch.tensor([[2.0]]), output, torch.tensor([0]), 0.3)
    logits = [2.0, 3.0, 0.5]
    total = math.log(sum(math.exp(x) for x in logits))
    each = [total - x for x in logits]
    assert float(found.nll) == pytest.approx(each[0], rel=1e-5)
    assert float(found.loss) == pytest.approx(0.7 * each[0] + 0.1 * sum(each), rel=1e-5)
    assert found.right == 0


def test_other_devices_and_dtypes_take_the_plain_way():
    rows, output, wanted = case(70)
    plain = cross_entropy(rows.double(), output.double(), wanted, 0.1)
    pieces = cross_entropy(rows, output.float(), wanted, 0.1)
    torch.testing.assert_close(plain.loss.float(), pieces.loss)
    torch.testing.assert_close(plain.nll.float(), pieces.nll)
    assert plain.right == pieces.right


def test_without_gradients_and_without_rows():
    rows, output, wanted = case(5)
    with torch.no_grad():
        assert not cross_entropy(rows, output, wanted, 0.1).loss.requires_grad
    none = cross_entropy(rows[:0], output, wanted[:0], 0.1)
    none.loss.backward()
    assert none.loss == 0
    assert output.weight.grad.abs().sum() == 0


@given(st.floats(-1e4, 1e4), st.sampled_from([0.0, 0.1]))
def test_large_logits_stay_finite(size, smoothing):
    rows, output, wanted = case(8)
    loss = cross_entropy(rows * size, output, wanted, smoothing).loss
    grads = torch.autograd.grad(loss, [rows, output.weight])
    assert loss.isfinite()
    assert all(grad.isfinite().all() for grad in grads)
