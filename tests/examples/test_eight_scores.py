from __future__ import annotations

import eight_scores as example
import pytest


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "additive", "general", "perceptron", "cosine"])
def test_contents_are_found(name):
    assert example.train(name, example.lookup)[1] >= 0.98


@pytest.mark.parametrize("name", ["concat", "location"])
def test_contents_are_not_found_without_comparing_them(name):
    assert example.train(name, example.lookup)[1] <= 0.15


def test_location_finds_places():
    assert example.train("location", example.copy)[1] >= 0.95


@pytest.mark.parametrize("name", ["scaled_dot", "concat"])
def test_contents_do_not_tell_places(name):
    assert example.train(name, example.copy)[1] <= 0.15


def test_concat_does_not_see_the_query():
    assert example.concat_spread() < 1e-6


def test_additive_is_perceptron():
    assert example.additive_against_perceptron() < 1e-6


def test_cosine_has_a_ceiling():
    reached, formula = example.cosine_ceiling()
    assert reached == pytest.approx(formula, abs=1e-6)
    assert formula == pytest.approx(0.4509, abs=1e-4)
    assert example.cosine_ceiling(gain=5.0)[0] > 0.99


def test_no_cosine_exceeds_the_ceiling():
    import torch

    import regard

    torch.manual_seed(0)
    weights = regard.attend(torch.randn(500, 4), torch.randn(example.LENGTH, 4), score="cosine").weights
    assert weights.max().item() < example.cosine_ceiling()[1]
