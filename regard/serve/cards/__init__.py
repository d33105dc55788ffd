"""What each kind of system takes and gives over the wire. One kind, one file, named like its file in ``trained/``.

A card is made for one trained system. It says what a question may be, answers questions, and gives every answer its
pictures:

    class Stories(Card):
        class Question(Wire):
            story: list[Sentence] = Field(max_length=50)
            question: Sentence

        class Answer(Pictured):
            text: str

        title = "Answer questions about a story"

        def examples(self) -> list[Question]: ...

        def one(self, question: Question) -> Answer:
            found = self.trained.predict(question.story, question.question)      # a ValueError becomes a Problem
            return self.Answer(text=found.text, pictures=[encode(view)])

A kind that can answer many questions at once is faster if it writes :meth:`Card.answer` instead of ``one``. Both are
called in one thread of the card's own, never twice at the same time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from regard import registry
from regard._lazy import load, nearest
from regard._lazy import names as files
from regard.trained import Trained


class Wire(BaseModel):
    """What comes in: no unknown keys, no conversions (but 2.0 is 2), no NaN. Give texts and lists a ``max_length``."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        """2.0 is an integer in JSON."""
        return {name: _whole(value) for name, value in given.items()} if isinstance(given, dict) else given


def _whole(value: Any, depth: int = 3) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list) and depth:
        return [_whole(item, depth - 1) for item in value]
    return value


class Picture(BaseModel):
    """A view as :func:`regard.views.page.encode` writes it; ``mount(element, picture)`` of the viewer shows it."""

    kind: str
    title: str
    data: dict[str, Any]


class Pictured(BaseModel):
    """What goes out: an answer, and where the system looked."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    pictures: list[Picture] = []


class About(BaseModel):
    """What a model is, for the list of models."""

    name: str
    """In addresses."""
    kind: str
    """Which card it has: ``text``, ``stories`` …"""
    title: str
    """What one can do with it, in a few words."""
    sentence: str
    """What the system is."""
    system: str
    """The name of the system: a file in regard/systems."""
    paper: str
    examples: list[dict[str, Any]]
    """Questions to start from; each can be sent as it is."""
    data: str
    """What it was trained on, or what data it answers about."""


@dataclass(frozen=True)
class Problem:
    """Why this one question has no answer: the fault of the question. Its asker reads ``detail``."""

    detail: str


class Card:
    """One trained system, ready for questions; see the module's docstring."""

    Question: type[BaseModel]
    Answer: type[Pictured]
    title: str = ""

    def __init__(self, trained: Trained):
        self.trained = trained
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(trained.name).resolve().name).strip(".-")
        self.name = name or trained.recipe.sections["system"]["name"]

    def about(self) -> About:
        """For the list of models; what a system is and whose it is comes from its docstring."""
        name = self.trained.recipe.sections["system"]["name"]
        sentence, paper = told(name)
        return About(
            name=self.name,
            kind=self.trained.task.kind,
            title=self.title,
            sentence=sentence,
            system=name,
            paper=paper,
            examples=[example.model_dump(exclude_unset=True) for example in self.examples()],
            data=self.data(),
        )

    def examples(self) -> Sequence[BaseModel]:
        """A few questions, instances of ``Question``."""
        raise NotImplementedError

    def data(self) -> str:
        """What it was trained on, in a few words."""
        return self.trained.recipe.sections["task"]["name"].replace("_", " ")

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """An ``Answer`` or a :class:`Problem` for each question, in their order."""
        answers: list[Pictured | Problem] = []
        for question in questions:
            try:
                answers.append(self.one(question))
            except ValueError as error:
                answers.append(Problem(str(error)))
        return answers

    def one(self, question: Any) -> Pictured:
        """The answer to one question; a ValueError says what is wrong with the question."""
        raise NotImplementedError


def deal(trained: Trained) -> Card:
    """The card for a trained system."""
    kind, known = trained.task.kind, files(__name__)
    if kind not in known:
        raise ValueError(f"{trained.name}: systems of the kind {kind!r} cannot be served yet; {nearest(kind, known)}")
    return load(__name__, kind)(trained)


def told(system: str) -> tuple[str, str]:
    """What a system is, and its paper: the first line and the first reference of its module's docstring."""
    found = registry.system(system)
    first, _, rest = (sys.modules[found.__module__].__doc__ or "").partition("\n\n")
    reference = re.match(r"(.+?\(arXiv:[^)]+\))", " ".join(rest.split()))
    return " ".join(first.split()), reference[1].replace("*", "") if reference else ""
