"""Eight scores learn to look something up, live."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.predictors.predictor import Answer
from regard.questions import Number, form
from regard.serve.lessons import lesson
from regard.serve.playground import SCORES
from regard.views import heads, table
from regard.views.picture import Picture

LENGTH, SYMBOLS, WIDTH = 8, 16, 16
TITLE = "Where each score looks: a diagonal finds the key"
EIGHT = [name for name in SCORES if name not in ("inverse_distance", "gaussian")]


class Reader(nn.Module):
    """Embeddings, one attention, and a linear layer that names the value."""

    def __init__(self, name: str):
        super().__init__()
        self.symbols, self.values = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(SYMBOLS, WIDTH)
        score = regard.scores.Cosine(gain=5.0, learn_gain=True) if name == "cosine" else SCORES[name](WIDTH)
        self.attention = regard.Attention(score)
        self.name = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, regard.Attended]:
        out = self.attention(self.symbols(query), self.symbols(key), self.values(value))
        return self.name(out.context), out


def lookup(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys and values in random order; every key is asked for once: queries, keys, values, answers, each (count, 8)."""
    key, value = (torch.rand(count, SYMBOLS, generator=generator).argsort(-1)[:, :LENGTH] for _ in range(2))
    order = torch.rand(count, LENGTH, generator=generator).argsort(-1)
    return key.gather(1, order), key, value, value.gather(1, order)


@lru_cache(64)
def trained(name: str, steps: int) -> tuple[float, Tensor]:
    """Accuracy on fresh samples after N steps, and the weights of eight queries in the order of their keys."""
    generator = torch.Generator().manual_seed(0)
    # Layers this small are not worth a compiled kernel.
    with torch.random.fork_rng(devices=[]), regard.kernels.use("plain"):
        torch.manual_seed(0)
        model = Reader(name)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(steps):
            *inputs, answer = lookup(32, generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(*inputs)[0].flatten(0, 1), answer.flatten()).backward()
            optimizer.step()
    with torch.no_grad():
        *inputs, answer = lookup(250, generator)
        accuracy = float((model(*inputs)[0].argmax(-1) == answer).float().mean())
        _, key, value, _ = lookup(1, torch.Generator().manual_seed(1))
        weights = model(key, key, value)[1].weights
        assert weights is not None
        return accuracy, weights[0].clone()


class Lesson(lesson.Lesson):
    """Six scores that compare contents, and two that cannot."""

    name = "eight-scores"
    title = "Eight scores look something up"
    sentence = (
        "Eight keys, each with a value; the query is one of the keys. Six scores learn to find it; location looks at "
        "places and concat never sees the query."
    )
    paper = "Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation (arXiv:1508.04025)"
    part = "Scores"
    order = 2
    script = "eight_scores"
    Question = form(
        "Train", steps=Number(0, 200, default=120, title="Steps of training", about="32 samples each; 0 is untrained.")
    )

    def one(self, question: Any) -> Answer:
        """Accuracies, and where each score looks."""
        results = {name: trained(name, question.steps) for name in EIGHT}
        rows = [
            [name.replace("_", " "), SCORES[name](WIDTH).equation, f"{100 * results[name][0]:.0f} %"] for name in EIGHT
        ]
        shades = [[None, None, results[name][0]] for name in EIGHT]
        weights = torch.stack([results[name][1] for name in EIGHT])[:, None]
        names, layers = [f"key {i + 1}" for i in range(LENGTH)], [name.replace("_", " ") for name in EIGHT]
        query_names = [f"asked {i + 1}" for i in range(LENGTH)]
        picture = Picture(
            TITLE,
            lambda: heads.terminal(weights, query_names, names),
            lambda: heads.view(weights, query_names, names, layers=layers, title=TITLE),
            lambda: heads.figure(weights, query_names, names, layers=layers),
        )
        solved = sum(accuracy > 0.9 for accuracy, _ in results.values())
        text = f"After {question.steps} steps {solved} of eight scores are right in more than nine of ten cases."
        shown = table.picture(["Score", "Equation", "Right answers"], rows, shades, title="Accuracy on fresh samples")
        return Answer(text, [f"Guessing one of the values gives {100 / LENGTH:.1f} %."], pictures=[shown, picture])
