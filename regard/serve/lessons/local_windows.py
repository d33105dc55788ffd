"""Global attention against Luong's local-m and local-p, on one sentence and its translation."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import regard
from regard.predictors.predictor import Answer
from regard.questions import Number, Text, form
from regard.serve.lessons import lesson
from regard.views import heads
from regard.views.picture import Picture
from regard.windows import LocalMonotonic, LocalPredictive

TITLE = "Choose one of the three"
WORDS = 30
SMALL = 1e-4  # where tanh is the identity


def spelled(words: list[str]) -> torch.Tensor:
    """Each word as the unit vector of its pairs of letters, (T, 27·27)."""
    table = torch.zeros(len(words), 27 * 27, dtype=torch.float64)
    for row, word in enumerate(words):
        letters = [ord(c) - 96 if "a" <= c <= "z" else 0 for c in f" {word.lower()} "]
        for first, second in itertools.pairwise(letters):
            table[row, 27 * first + second] += 1
    return table / table.norm(dim=-1, keepdim=True).clamp_min(1e-9)


class Lesson(lesson.Lesson):
    """Which keys are candidates, and how a Gaussian fades them."""

    name = "local-windows"
    title = "Global against local attention"
    sentence = (
        "Global attention scores every word; local-m only those near its own place; local-p those near a predicted "
        "place, faded by a Gaussian. The score is how many pairs of letters two words share."
    )
    paper = "Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation (arXiv:1508.04025)"
    part = "Scores"
    order = 4
    Question = form(
        "Align",
        source=Text(200, default="the economic situation in the European Union is very difficult", title="Source"),
        target=Text(200, default="la situación económica en la Unión Europea es muy difícil", title="Target"),
        radius=Number(1, 10, default=2, title="Window D", about="Words on either side."),
        shift=Number(-8, 8, default=0, title="Shift of pₜ", about="A model learns pₜ; here it is t · S/T plus this."),
    )

    @torch.inference_mode()
    def one(self, question: Any) -> Answer:
        """Weights of all three."""
        source, target = question.source.split()[:WORDS], question.target.split()[:WORDS]
        if not source or not target:
            raise ValueError("both sentences need a word")
        key, query = spelled(source), spelled(target)
        share = (torch.arange(len(target), dtype=torch.float64) + 0.5) / len(target) + question.shift / len(source)
        place = torch.logit(share.clamp(1e-3, 1 - 1e-3))[:, None]
        # The last feature of a query is its place, which the score does not see: the keys have zero there.
        query, key = torch.cat([8 * query, place], -1), torch.cat([key, torch.zeros(len(source), 1)], -1).double()
        predictive = LocalPredictive(query.shape[-1], question.radius).double()
        for parameter in predictive.parameters():
            parameter.zero_()
        predictive.query.weight[-1, -1], predictive.v.weight[0, -1] = SMALL, 1 / SMALL
        maps = []
        for window in (None, LocalMonotonic(question.radius), predictive):
            attention = regard.Attention("dot", window=window)
            out = attention(query[None], key[None], key[None])
            assert out.weights is not None
            maps.append(out.weights[0])
        weights, layers = torch.stack(maps)[:, None], ["global", "local-m", "local-p"]
        picture = Picture(
            TITLE,
            lambda: heads.terminal(weights, target, source),
            lambda: heads.view(weights, target, source, layers=layers, title=TITLE),
            lambda: heads.figure(weights, target, source, layers=layers),
        )
        count, width = len(source), min(len(source), 2 * question.radius + 1)
        notes = ["local-p's weights are not normalized again after the Gaussian, so its rows sum to less than 1."]
        return Answer(f"Of {count} words a local query scores at most {width}.", notes, pictures=[picture])
