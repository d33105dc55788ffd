"""A Gaussian as a dot product: right wherever it lies, and moved only where it must be."""

import pytest
import torch

from regard import kernels
from regard.kernels.forms import DotForm
from regard.normalizers import Sigmoid, Softmax
from regard.scores import Gaussian
from regard.scores.gaussian import _near


@pytest.mark.parametrize("away", [0.0, 3.0, 300.0, 1e4])
@pytest.mark.parametrize("learned", [False, True])
def test_near_and_far_from_the_origin(away, learned):
    torch.manual_seed(0)
    score = Gaussian(1.5, learn_width=learned)
    query, key = torch.randn(2, 7, 3) + away, torch.randn(2, 9, 3) + away
    form = score.form(query, key)
    assert isinstance(form, DotForm)
    assert _near(query, key.square().sum(-1), 1.5**-2) == (away < 10)
    right = Gaussian(1.5)(query.double(), key.double())
    torch.testing.assert_close(form.scores().detach(), right.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("away", [0.0, 300.0])
@pytest.mark.parametrize("normalizer", [Softmax(), Sigmoid()])
def test_gradients(away, normalizer):
    """Of query, key and width, moved or not; what the normalizer takes may depend on the constant along a row."""
    found = []
    for kind in ("plain", "fused"):
        torch.manual_seed(0)
        score = Gaussian(1.5, learn_width=True)
        query, key = ((torch.randn(2, n, 3) + away).requires_grad_() for n in (7, 9))
        with kernels.use(kind):
            form = kernels.lower(score, query, key, {})
            scores = score(query, key) if form is None else kernels.scores(form)
        (normalizer(scores, None) * torch.linspace(-1, 2, 9)).sum().backward()
        found.append([query.grad, key.grad, score.width.grad])
    for plain, fused in zip(*found):
        torch.testing.assert_close(fused, plain, rtol=2e-3, atol=2e-3 if away else 1e-5)


def test_nothing_and_no_number_are_not_near():
    query, squares = torch.randn(2, 3), torch.rand(4)
    assert _near(query, squares, 1.0)
    assert not _near(query[:0], squares, 1.0)
    assert not _near(query.bfloat16(), squares.bfloat16(), 1.0)
    assert not _near(torch.full_like(query, torch.nan), squares, 1.0)
    assert not _near(query, torch.full_like(squares, torch.inf), 1.0)
