from __future__ import annotations

from statistics import median

import hard_attention as example
import pytest
import torch

from regard.normalizers import Gumbel, Hard


def test_exact_gradient_is_the_formula():
    p = torch.softmax(torch.tensor(example.LOGITS), 0)
    rewards = example.REWARDS.squeeze(-1)
    torch.testing.assert_close(example.exact_gradient(), p * (rewards - (p * rewards).sum()))


@pytest.mark.parametrize("baseline", [0.0, 5.0])
def test_reinforce_is_right_on_average(baseline):
    error, _ = example.error_and_variance(example.reinforce(100_000, baseline))
    assert error <= 0.05


def test_baseline_takes_the_noise_away():
    _, without = example.error_and_variance(example.reinforce(20_000))
    _, with_baseline = example.error_and_variance(example.reinforce(20_000, baseline=5.0))
    assert without >= 3 * with_baseline


def test_argmax_has_no_gradient():
    assert example.through_weights(Hard("argmax")).abs().max().item() == 0


def test_straight_through_is_exact_for_a_linear_reward():
    gradient = example.through_weights(Hard("straight_through"))[0]
    torch.testing.assert_close(gradient, example.exact_gradient())


def test_gumbel_is_calm_and_biased():
    error, variance = example.error_and_variance(example.through_weights(Gumbel(1.0), 20_000))
    _, noisy = example.error_and_variance(example.reinforce(20_000))
    assert variance < 0.1 * noisy
    assert 0.05 < error < 0.5


def test_drawn_cells_follow_the_weights():
    _, out = example.look(example.REWARDS, Hard("sample"), 50_000)
    expected = torch.softmax(torch.tensor(example.LOGITS), 0)
    torch.testing.assert_close(out.weights.mean(0), expected, atol=0.01, rtol=0)


def test_soft_and_hard_learn_and_hard_needs_longer():
    steps = {
        kind: [example.steps_to(0.95, example.learn(kind, seed, steps=3000, until=0.95)) for seed in range(3)]
        for kind in ("soft", "hard", "hard with baseline")
    }
    assert max(max(found) for found in steps.values()) <= 3000, f"one never reached 95 %: {steps}"
    soft, hard, helped = (median(found) for found in steps.values())
    assert hard >= 3 * soft
    assert helped < 0.7 * hard
