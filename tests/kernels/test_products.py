"""Products by blocks, through oneDNN or not, against products in one piece and in float64."""

import pytest
import torch

from regard.kernels import products


@pytest.fixture(params=[0, 2**60], ids=["ordered", "torch"])
def little(request, monkeypatch):
    """From which size on oneDNN is asked."""
    monkeypatch.setattr(products, "LITTLE", request.param)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_product(little, rows):
    weight, x = torch.randn(33, 21), torch.randn(rows, 21)
    expected = x.double() @ weight.double().t()
    assert torch.allclose(products.Product(weight, rows)(x).double(), expected, atol=1e-5)
    turned = products.Product(weight.t(), rows)  # a weight that lies the other way round
    y = torch.randn(rows, 33)
    assert torch.allclose(turned(y).double(), y.double() @ weight.double(), atol=1e-5)


def test_gram(little):
    left, right = torch.randn(70, 12), torch.randn(70, 30)[:, 3:]
    assert torch.allclose(products.gram(left, right).double(), left.double().t() @ right.double(), atol=1e-4)


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (9, 4), (23, 60), (3, 600)])
def test_linear_of_parts(little, steps, batch):
    """Also where steps do not fill their last block, and where the parts lie apart."""
    parts = [torch.randn(steps, batch, 3), torch.randn(batch, steps, 9).transpose(0, 1), torch.randn(steps, batch, 5)]
    weight, bias = torch.randn(6, 17), torch.randn(6)
    inputs = [tensor.requires_grad_() for tensor in (weight, bias, *parts[1:])]  # the first part is given
    given = torch.randn(steps, batch, 6)
    out = products.linear(parts, weight, bias)
    found = torch.autograd.grad((out * given).sum(), inputs)
    expected_out = torch.cat([part.double() for part in parts], -1) @ weight.double().t() + bias.double()
    expected = torch.autograd.grad((expected_out * given).sum(), inputs)
    assert torch.allclose(out.double(), expected_out, atol=1e-4)
    for one, other in zip(found, expected):
        assert torch.allclose(one, other, atol=1e-5 * steps * batch**0.5, rtol=1e-4)


def test_no_second_derivative():
    part, weight = torch.randn(2, 2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    out = products.linear([part], weight, torch.zeros(3))
    with pytest.raises(RuntimeError, match="plain"):
        torch.autograd.grad(out.square().sum(), weight, create_graph=True)
