"""The recipe's properties, each in a few lines: what must hold of any score → softmax → sum."""

from __future__ import annotations

import pytest
import torch

import regard

SCORES = ("dot", "scaled_dot", "cosine", "gaussian", "inverse_distance")


@pytest.fixture
def given():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*shape, generator=generator) for shape in ((3, 4, 8), (3, 6, 8), (3, 6, 5)))


@pytest.mark.parametrize("score", SCORES)
def test_weights_are_positive_and_sum_to_one(given, score):
    weights = regard.attend(*given, score=score).weights
    assert weights.shape == (3, 4, 6)
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4))


@pytest.mark.parametrize("score", SCORES)
def test_context_is_the_weighted_sum(given, score):
    out = regard.attend(*given, score=score)
    expected = torch.zeros(3, 4, 5)
    for b in range(3):
        for t in range(4):
            for s in range(6):
                expected[b, t] += out.weights[b, t, s] * given[2][b, s]
    torch.testing.assert_close(out.context, expected)


@pytest.mark.parametrize("score", SCORES)
def test_context_lies_in_the_hull_of_the_values(given, score):
    # In one dimension after the other, and along 100 random directions, which together bound the convex hull.
    query, key, value = given
    directions = torch.cat([torch.eye(5), torch.randn(100, 5, generator=torch.Generator().manual_seed(1))]).mT
    context, corners = regard.attend(query, key, value, score=score).context @ directions, value @ directions
    assert (context <= corners.amax(-2, keepdim=True) + 1e-5).all()
    assert (context >= corners.amin(-2, keepdim=True) - 1e-5).all()


@pytest.mark.parametrize("score", SCORES)
def test_the_order_of_the_pairs_does_not_matter(given, score):
    query, key, value = given
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    one = regard.attend(query, key, value, score=score)
    other = regard.attend(query, key[:, order], value[:, order], score=score)
    torch.testing.assert_close(other.context, one.context)
    torch.testing.assert_close(other.weights, one.weights[..., order])


def test_the_order_of_the_values_alone_does_matter(given):
    query, key, value = given
    one, other = regard.attend(query, key, value).context, regard.attend(query, key, value.flip(-2)).context
    assert (one - other).abs().max() > 0.1


def test_a_constant_added_to_the_scores_changes_nothing():
    # With the unit vectors for keys the query is the scores.
    scores, key = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.eye(6)
    one = regard.attend(scores, key, score="dot")
    other = regard.attend(scores + 5.0, key, score="dot")
    torch.testing.assert_close(other.scores, one.scores + 5.0)
    torch.testing.assert_close(other.weights, one.weights)


def test_large_scores_do_not_overflow():
    weights = regard.attend(torch.tensor([[1e4, 1e4 - 1.0, -1e4]]), torch.eye(3), score="dot").weights
    torch.testing.assert_close(weights, torch.tensor([[0.7310586, 0.2689414, 0.0]]))


def test_gradient_of_the_weights_is_the_softmax_jacobian():
    scores = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def weights(scores):
        return regard.attend(scores[None], torch.eye(6, dtype=torch.float64), score="dot", weights=True).weights[0]

    alpha = weights(scores)
    expected = torch.diag(alpha) - alpha[:, None] * alpha[None, :]
    torch.testing.assert_close(torch.autograd.functional.jacobian(weights, scores), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("score", SCORES)
def test_a_single_key_gives_its_value(given, score):
    query, key, value = given
    out = regard.attend(query, key[:, :1], value[:, :1], score=score)
    torch.testing.assert_close(out.weights, torch.ones(3, 4, 1))
    torch.testing.assert_close(out.context, value[:, :1].expand(3, 4, 5))


def test_values_default_to_keys(given):
    query, key, _ = given
    torch.testing.assert_close(regard.attend(query, key).context, regard.attend(query, key, key).context)
