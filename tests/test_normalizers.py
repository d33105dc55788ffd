"""Sparse normalizers against the library of their authors, and what a mask or NaN does to them."""

import pytest
import torch
from entmax import entmax15, sparsemax

import regard
from regard.normalizers import Entmax15, Sparsemax

PAIRS = [(Sparsemax(), sparsemax), (Entmax15(), entmax15)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sparsemax", "entmax15"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("length", [1, 2, 7, 300])
def test_equal_to_entmax(ours, theirs, scale, length):
    torch.manual_seed(length)
    scores = (scale * torch.randn(5, 4, length, dtype=torch.float64)).requires_grad_()
    again = scores.detach().clone().requires_grad_()
    expected, got = theirs(scores, dim=-1), ours(again, None)
    assert torch.allclose(got, expected, atol=1e-9)
    assert torch.equal(got > 0, expected > 0)
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (got * direction).sum().backward()
    assert torch.allclose(again.grad, scores.grad, atol=1e-8)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sparsemax", "entmax15"])
def test_ties_and_masks(ours, theirs):
    scores = torch.tensor([[1.0, 1.0, 1.0, 5.0], [0.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    weights = ours(scores, mask)
    assert torch.allclose(weights[0], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0]), atol=1e-6)
    assert (weights[1] == 0).all()
    far = torch.tensor([[-1e30, -1e30, 1e30]])
    assert torch.allclose(ours(far, torch.tensor([[True, True, False]])), torch.tensor([[0.5, 0.5, 0.0]]))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sparsemax", "entmax15"])
def test_a_bad_row_stays_alone(ours, theirs):
    scores = torch.randn(3, 4)
    scores[1, 2], scores[2, 0] = torch.nan, torch.inf
    weights = ours(scores, None)
    assert torch.allclose(weights[0], theirs(scores[0], dim=-1), atol=1e-6)
    assert weights[1:].isnan().all()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sparsemax", "entmax15"])
def test_gradients_of_any_order(ours, theirs):
    torch.manual_seed(0)
    scores = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: ours(x, None), (scores,))
    each = torch.vmap(lambda x: ours(x, None))(scores)
    assert torch.allclose(each, ours(scores, None))


def test_hard_keeps_the_expectation_of_some_queries():
    """Xu et al. 2015, section 4.2.1: half of the samples are replaced by their expectation."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, n, 3, generator=generator, requires_grad=True) for n in (4, 5))
    expected = torch.tensor([[True, False, True, False], [False, False, False, True]])
    out = regard.Attention("dot", regard.normalizers.Hard())(query, key, expected=expected)
    soft = regard.attend(query, key, score="dot").weights
    torch.testing.assert_close(out.weights[expected], soft[expected])
    assert set(out.weights[~expected].flatten().tolist()) == {0.0, 1.0}
    assert not out.log_prob[expected].any() and (out.log_prob[~expected] < 0).all()
    (through,) = torch.autograd.grad(out.context.sum(), query, retain_graph=True)
    assert through[expected].any() and not through[~expected].any()
    (through,) = torch.autograd.grad(out.log_prob.sum(), query)
    assert through[~expected].any() and not through[expected].any()
