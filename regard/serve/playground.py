"""One query, keys and values of one's own, weighed by every score under any normalizer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

import regard
from regard import normalizers, parts, scores
from regard.serve.card import Problem, Wire

LONGEST, WIDEST = 64, 16
HIDDEN = 8

Build = Callable[..., parts.Score]
SCORES: dict[str, Build] = {
    "dot": lambda dim: scores.Dot(),
    "scaled_dot": lambda dim: scores.ScaledDot(),
    "additive": lambda dim: scores.Additive(dim, dim, hidden_dim=HIDDEN),
    "general": lambda dim: scores.General(dim, dim),
    "concat": lambda dim: scores.Concat(dim, dim),
    "perceptron": lambda dim: scores.Perceptron(dim, dim, hidden_dim=HIDDEN),
    "cosine": lambda dim, gain=1.0: scores.Cosine(gain),
    "location": lambda dim: scores.Location(dim, max_length=LONGEST),
    "inverse_distance": lambda dim, scale=1.0: scores.InverseDistance(scale),
    "gaussian": lambda dim, width=1.0: scores.Gaussian(width),
}
"""The eight of the lectures, and the two of the weather stations. What a lambda takes beside the width of the vectors
is a setting of that score."""

NORMALIZERS: dict[str, tuple[Callable[[], parts.Normalizer], str]] = {
    "softmax": (normalizers.Softmax, "Every key counts; none is ever exactly 0."),
    "sparsemax": (normalizers.Sparsemax, "Keys with low scores get exactly 0."),
    "entmax15": (normalizers.Entmax15, "Between softmax and sparsemax: some keys get 0, the others fade smoothly."),
    "hard": (lambda: normalizers.Hard("argmax"), "Only the best key counts. No gradient reaches the scores this way."),
    "sigmoid": (normalizers.Sigmoid, "Each key by itself: the weights need not sum to 1."),
}
"""Each with what it does, in a sentence."""


class Tempered(parts.Normalizer):
    """Any normalizer of e/τ."""

    def __init__(self, inner: parts.Normalizer, temperature: float):
        super().__init__()
        self.inner, self.temperature = inner, temperature

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.inner(scores / self.temperature, mask)


Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Number], Field(min_length=1, max_length=WIDEST)]
Vectors = Annotated[list[Vector], Field(min_length=1, max_length=LONGEST)]


def _setting(title: str, about: str, least: float, most: float) -> Any:
    return Field(ge=least, le=most, title=title, description=about, json_schema_extra={"setting": True})


class Question(Wire):
    """A query, and keys with their values."""

    query: Vector
    keys: Vectors
    values: Annotated[Vectors | None, Field(description="One for each key; the keys if null.")] = None
    seed: Annotated[int, Field(ge=0, le=9999, description="Of the parameters of scores that would learn some.")] = 0
    normalizer: Annotated[
        Literal["softmax", "sparsemax", "entmax15", "hard", "sigmoid"],
        Field(title="Normalizer", description="How scores become weights.", json_schema_extra={"setting": True}),
    ] = "softmax"
    temperature: Annotated[float, _setting("Temperature τ", "Divides the scores: small is sharp.", 0.05, 5)] = 1.0
    gain: Annotated[float, _setting("Gain β", "Multiplies the cosine.", 0.1, 20)] = 1.0
    scale: Annotated[float, _setting("Scale", "Multiplies 1 / distance.", 0.1, 10)] = 1.0
    width: Annotated[float, _setting("Width", "How far the Gaussian reaches.", 0.05, 5)] = 1.0


class Weighed(BaseModel):
    """What one score makes of it."""

    name: str
    equation: str
    learns: Annotated[bool, Field(description="Has it parameters? They are random here.")]
    settings: Annotated[list[str], Field(description="The fields of the question that this score depends on.")]
    scores: Annotated[list[float], Field(description="Of each key, before the temperature.")]
    weights: list[float]
    context: list[float]


class Answer(BaseModel):
    """The same query, keys and values, weighed by each score."""

    scores: list[Weighed]
    about: Annotated[str, Field(description="What the normalizer does.")]
    sums_to_one: bool


def weigh(questions: Sequence[Question]) -> list[Answer | Problem]:
    """What :func:`regard.attend` gives for each question."""
    return [_weigh(question) for question in questions]


@torch.inference_mode()
def _weigh(question: Question) -> Answer | Problem:
    values = question.keys if question.values is None else question.values
    if misfit := _misfit(question, values):
        return Problem(misfit)
    query, key, value = (torch.tensor(rows, dtype=torch.float64) for rows in ([question.query], question.keys, values))
    build, about = NORMALIZERS[question.normalizer]
    normalizer = Tempered(inner := build(), question.temperature)
    shared = ["normalizer"] if question.normalizer == "hard" else ["normalizer", "temperature"]
    results = []
    for name in SCORES:
        own = [setting for setting in inspect.signature(SCORES[name]).parameters if setting != "dim"]
        score = _score(name, key.shape[-1], question.seed, **{setting: getattr(question, setting) for setting in own})
        out = regard.attend(query, key, value, score=score, normalizer=normalizer)
        assert out.weights is not None and out.context is not None
        weighed: dict[str, Any] = {
            "scores": score(query, score.project(key))[0].tolist(),
            "weights": out.weights[0].tolist(),
            "context": out.context[0].tolist(),
        }
        learns = any(True for _ in score.parameters())
        results.append(Weighed(name=name, equation=score.equation, learns=learns, settings=shared + own, **weighed))
    return Answer(scores=results, about=about, sums_to_one=inner.sums_to_one)


def _misfit(question: Question, values: list[list[float]]) -> str:
    widths = {len(key) for key in question.keys}
    if widths != {len(question.query)}:
        return f"keys: each must have {len(question.query)} numbers, as the query has"
    if len(values) != len(question.keys) or len({len(value) for value in values}) != 1:
        return f"values: there must be {len(question.keys)}, one for each key, all of one length"
    return ""


@torch.no_grad()
def _score(name: str, dim: int, seed: int, **settings: float) -> parts.Score:
    """With parameters that depend on the seed alone: torch's own generator belongs to whoever samples."""
    with torch.device("meta"):  # where initial values are not drawn
        score = SCORES[name](dim, **settings)
    score.to_empty(device="cpu").double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in score.parameters():
        spread = 1 / math.sqrt(parameter.shape[-1])
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * spread)
    return score
