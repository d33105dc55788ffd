"""Learning from choices that were sampled: REINFORCE with a baseline.

Williams 1992, *Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning*. For a reward
R after choices a₁ … a_T with the expected rewards b₁ … b_T, the gradient of −Σₜ log π(aₜ) (R − bₜ) is an unbiased
estimate of that of −E[R]; the baseline makes its variance smaller and is learned by (bₜ − R)².
"""

from __future__ import annotations

import torch
from torch import Tensor


def policy_terms(log_prob: Tensor, expected: Tensor, reward: Tensor) -> dict[str, Tensor]:
    """``baseline``, the mean square error of the expected reward, and ``reinforce``, the loss of the choices.

    Shapes: ``log_prob`` and ``expected`` (T, N), ``reward`` (N,) or (T, N) → (N,) each.
    """
    return {
        "baseline": (expected - reward).square().mean(0),
        "reinforce": -(log_prob * (reward - expected.detach())).sum(0),
    }


def discounted(rewards: Tensor, discount: float) -> Tensor:
    """R = Σ γᵗ⁻¹ rₜ over the last dimension, t = 1 … T: (…, T) → (…)."""
    powers = discount ** torch.arange(rewards.shape[-1], dtype=rewards.dtype, device=rewards.device)
    return (rewards * powers).sum(-1)


def log_normal(drawn: Tensor, mean: Tensor, std: float) -> Tensor:
    """log N(drawn; mean, std²) of independent numbers (…, D) → (…), up to a constant."""
    return -((drawn - mean) / std).square().sum(-1) / 2


def entropy(scores: Tensor) -> Tensor:
    """−Σ p log p of p ∝ exp(scores), over the last dimension: (…, S) → (…)."""
    log_prob = torch.log_softmax(scores, -1)
    return -(log_prob.exp() * log_prob).sum(-1)


def repeated(rows: Tensor, times: int) -> Tensor:
    """Each row N times, for N runs of it. Once is no copy: that would be the only work that grows with an image."""
    return rows if times == 1 else rows.repeat_interleave(times, 0)
