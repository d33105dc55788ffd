"""Soft attention blends, hard attention samples: what its gradient costs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import regard
from regard.normalizers import Gumbel, Hard
from regard.predictors.predictor import Answer
from regard.questions import SEED, Number, Vectors, form
from regard.serve.lessons import lesson
from regard.views import table


class Lesson(lesson.Lesson):
    """The gradient of the expected reward by several estimators."""

    name = "soft-hard"
    title = "Soft against hard"
    sentence = (
        "Soft attention reads a mean and has ordinary gradients; hard attention draws one place and needs REINFORCE, "
        "right on average and noisy in each draw."
    )
    paper = "Xu et al. 2015, Show, Attend and Tell (arXiv:1502.03044)"
    part = "Scores"
    order = 3
    script = "hard_attention"
    Question = form(
        "Sample",
        scores=Vectors(1, 8, default=[[0.4, 0.0, -0.6, 0.8]], title="Scores of the places"),
        rewards=Vectors(1, 8, default=[[4.0, 6.0, 9.0, 5.0]], title="Reward of each place"),
        draws=Number(10, 5000, default=500, title="Draws"),
        seed=SEED,
    )

    def one(self, question: Any) -> Answer:
        """Mean and variance of each estimator against the exact gradient."""
        scores, rewards = (torch.tensor(rows[0], dtype=torch.float64) for rows in (question.scores, question.rewards))
        if len(scores) != len(rewards):
            raise ValueError(f"there are {len(scores)} scores and {len(rewards)} rewards; each place needs both")

        def look(normalizer: Any, count: int) -> tuple[Tensor, regard.Attended]:
            logits = scores.repeat(count, 1).requires_grad_()
            generator = torch.Generator().manual_seed(question.seed)
            key = torch.eye(len(scores), dtype=torch.float64)
            return logits, regard.attend(
                logits, key, rewards[:, None], score="dot", normalizer=normalizer, generator=generator
            )

        logits, soft = look("softmax", 1)
        (exact,) = torch.autograd.grad(soft.context.sum(), logits)
        assert soft.weights is not None
        share = soft.weights.detach()[0]
        mean = float(share @ rewards)

        def reinforce(baseline: float) -> Tensor:
            logits, out = look(Hard("sample"), question.draws)
            assert out.log_prob is not None
            reward = out.context.squeeze(-1).detach()
            return torch.autograd.grad(((reward - baseline) * out.log_prob).sum(), logits)[0]

        logits, drawn = look(Hard("sample"), question.draws)
        assert drawn.weights is not None
        observed = drawn.weights.detach().mean(0)
        logits, gumbel = look(Gumbel(1.0), question.draws)
        gradients = {
            "soft attention (exact)": exact,
            "REINFORCE": reinforce(0.0),
            "REINFORCE, baseline = mean reward": reinforce(mean),
            "Gumbel-softmax, τ = 1": torch.autograd.grad(gumbel.context.sum(), logits)[0],
        }
        variances = {name: float(samples.var(0, unbiased=False).sum()) for name, samples in gradients.items()}
        most = max(variances.values()) or 1.0
        size = float(exact.norm()) or 1.0
        rows, shades = [], []
        for name, samples in gradients.items():
            average = samples.mean(0)
            mean_text = "  ".join(f"{value:+.2f}" for value in average.tolist()).replace("-", "−")
            error = float((average - exact[0]).norm()) / size
            rows.append([name, mean_text, f"{100 * error:.0f} %", f"{variances[name]:.2f}"])
            shades.append([None, None, None, variances[name] / most])
        places = [f"place {number + 1}" for number in range(len(share))]
        chances = [
            ["softmax weight", *(f"{value:.2f}" for value in share.tolist())],
            [f"share of {question.draws} draws", *(f"{value:.2f}" for value in observed.tolist())],
            ["reward", *(f"{value:g}" for value in rewards.tolist())],
        ]
        levels = [[None, *share.tolist()], [None, *observed.tolist()], [None] * (len(share) + 1)]
        head = ["Estimator", "Mean gradient", "Off the exact one by", "Variance of a draw"]
        return Answer(
            f"Soft attention reads {mean:.2f}; a hard one reads one of the rewards, {mean:.2f} on average.".replace(
                "-", "−"
            ),
            pictures=[
                table.picture(["", *places], chances, levels, title="Where it looks"),
                table.picture(head, rows, shades, title="The gradient of the expected reward"),
            ],
        )
