"""Same principle, different query, key, value, score and normalizer: as a table, and as a playground."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field

import regard
from regard import parts, registry, scores
from regard.serve.card import Problem, Wire, described


class Looked(BaseModel):
    """One attention of a system, as the system declares it."""

    where: str
    query: str
    key: str
    value: str
    score: str
    normalizer: str
    rows: str
    columns: str


class System(BaseModel):
    """A system and all its attentions."""

    name: str
    sentence: str
    paper: str
    looks: list[Looked]


class Principle(BaseModel):
    """All systems that look at something."""

    systems: list[System]


@cache
def table() -> Principle:
    """The table of the lectures, from the code of the systems."""
    rows = []
    for name in registry.systems():
        looks = registry.system(name).uses
        sentence, paper = described(name)
        looked = [Looked(where=where, **look._asdict()) for where, look in looks.items()]
        rows += [System(name=name, sentence=sentence, paper=paper, looks=looked)] if looked else []
    return Principle(systems=rows)


LONGEST, WIDEST = 64, 16
HIDDEN = 8

SCORES: dict[str, Callable[[int], parts.Score]] = {
    "dot": lambda width: scores.Dot(),
    "scaled_dot": lambda width: scores.ScaledDot(),
    "additive": lambda width: scores.Additive(width, width, hidden_dim=HIDDEN),
    "general": lambda width: scores.General(width, width),
    "concat": lambda width: scores.Concat(width, width),
    "perceptron": lambda width: scores.Perceptron(width, width, hidden_dim=HIDDEN),
    "cosine": lambda width: scores.Cosine(),
    "location": lambda width: scores.Location(width, max_length=LONGEST),
    "inverse_distance": lambda width: scores.InverseDistance(),
    "gaussian": lambda width: scores.Gaussian(),
}
"""The eight of the lectures, and the two of the weather stations."""

Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Number], Field(min_length=1, max_length=WIDEST)]
Vectors = Annotated[list[Vector], Field(min_length=1, max_length=LONGEST)]


class Question(Wire):
    """A query, and keys with their values."""

    query: Vector
    keys: Vectors
    values: Annotated[Vectors | None, Field(description="One for each key; the keys if null.")] = None
    seed: Annotated[int, Field(ge=0, le=9999, description="Of the parameters of scores that would learn some.")] = 0


class Weighed(BaseModel):
    """What one score makes of it."""

    name: str
    equation: str
    learns: Annotated[bool, Field(description="Has it parameters? They are random here.")]
    weights: list[float]
    context: list[float]


class Answer(BaseModel):
    """The same query, keys and values, weighed by each score."""

    scores: list[Weighed]


def weigh(questions: Sequence[Question]) -> list[Answer | Problem]:
    """What :func:`regard.attend` gives for each question."""
    return [_weigh(question) for question in questions]


@torch.inference_mode()
def _weigh(question: Question) -> Answer | Problem:
    values = question.keys if question.values is None else question.values
    if wrong := _misfit(question, values):
        return Problem(wrong)
    query, key, value = (torch.tensor(rows, dtype=torch.float64) for rows in ([question.query], question.keys, values))
    found = []
    for name in SCORES:
        score = _score(name, key.shape[-1], question.seed)
        out = regard.attend(query, key, value, score=score)
        assert out.weights is not None and out.context is not None
        weighed: dict[str, Any] = {"weights": out.weights[0].tolist(), "context": out.context[0].tolist()}
        found.append(
            Weighed(name=name, equation=score.equation, learns=any(True for _ in score.parameters()), **weighed)
        )
    return Answer(scores=found)


def _misfit(question: Question, values: list[list[float]]) -> str:
    widths = {len(key) for key in question.keys}
    if widths != {len(question.query)}:
        return f"keys: each must have {len(question.query)} numbers, as the query has"
    if len(values) != len(question.keys) or len({len(value) for value in values}) != 1:
        return f"values: there must be {len(question.keys)}, one for each key, all of one length"
    return ""


@torch.no_grad()
def _score(name: str, width: int, seed: int) -> parts.Score:
    """With parameters that depend on the seed alone: torch's own generator belongs to whoever samples."""
    with torch.device("meta"):  # where initial values are not drawn
        score = SCORES[name](width)
    score.to_empty(device="cpu").double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in score.parameters():
        spread = 1 / math.sqrt(parameter.shape[-1])
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * spread)
    return score
