"""One trained system over the wire, whatever its kind: its questions as a schema, its answers as JSON with pictures.

A predictor declares its question (:mod:`regard.questions`); here that becomes a type that pydantic checks, and with it
the route's schema and the explorer's form. Nothing here knows a kind of system.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from regard import questions, registry
from regard.predictors.predictor import Answer, Predictor
from regard.views.page import encode


class Wire(BaseModel):
    """What comes in: no unknown keys, no conversions (but 2.0 is 2), no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, values: Any) -> Any:
        """2.0 is an integer in JSON."""
        return {name: _whole(value) for name, value in values.items()} if isinstance(values, dict) else values


def _whole(value: Any, depth: int = 3) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list) and depth:
        return [_whole(item, depth - 1) for item in value]
    return value


class View(BaseModel):
    """A picture as :func:`regard.views.page.encode` writes it; ``mount(element, picture)`` of the viewer shows it."""

    kind: str
    title: str
    data: dict[str, Any]


class Next(BaseModel):
    """A question that follows from an answer: what its button says, and the fields of the question that change."""

    label: str
    question: dict[str, Any]


class Reply(BaseModel):
    """What goes out: an answer in one line, remarks on it, where one could go from here, where the system looked; and
    what else its kind has to say."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    text: str
    notes: list[str] = []
    next: list[Next] = []
    pictures: list[View] = []


class About(BaseModel):
    """What a model is, for the list of models."""

    name: str
    """In addresses."""
    kind: str
    """Which questions it takes: ``text``, ``stories`` …"""
    family: str
    """Under which heading the explorer lists it."""
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
    compared: bool
    """Is it shown beside another of its kind?"""
    path: str
    """Where it is asked."""
    script: str = ""
    """A file in examples/ that shows the same."""


@dataclass(frozen=True)
class Problem:
    """Why this one question has no answer: the fault of the question. Its asker reads ``detail``."""

    detail: str


class Card:
    """A trained system, ready for questions. It answers in one thread of its own, one batch at a time."""

    Answer = Reply

    def __init__(self, predictor: Predictor):
        if predictor.Question is None:
            raise ValueError(f"{predictor.name}: systems of the kind {predictor.task.kind!r} take no questions")
        self.predictor = predictor
        self.Question = model_of(predictor.Question)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(predictor.name).resolve().name).strip(".-")
        self.name = name or predictor.recipe.sections["system"]["name"]

    def about(self) -> About:
        """For the list of models; what a system is and whose it is comes from its docstring."""
        predictor = self.predictor
        name = predictor.recipe.sections["system"]["name"]
        sentence, paper = described(name)
        return About(
            name=self.name,
            kind=predictor.task.kind,
            family=predictor.task.family,
            title=predictor.title,
            sentence=sentence,
            system=name,
            paper=paper,
            examples=[example.model_dump(exclude_unset=True) for example in self.examples()],
            data=predictor.data(),
            compared=predictor.compared,
            path=self.path,
        )

    @property
    def path(self) -> str:
        """The route of its answers."""
        return f"/api/models/{self.name}/answer"

    def examples(self) -> list[BaseModel]:
        """A few questions; fields that have their default are left out."""
        examples = []
        for example in self.predictor.examples():
            values = {field.name: getattr(example, field.name) for field in dataclasses.fields(example)}
            inputs = self.predictor.Question.inputs
            changed = {name: value for name, value in values.items() if value != inputs[name].default}
            if not changed:  # all defaults: the fields that a form shows first stand for it
                shown = [name for name, spec in inputs.items() if not (spec.option or spec.hidden)]
                changed = {name: values[name] for name in (["example"] if "example" in shown else shown)}
            examples.append(self.Question(**{name: inputs[name].sent(value) for name, value in changed.items()}))
        return examples

    def answer(self, asked: Sequence[Any]) -> list[Reply | Problem]:
        """A reply or a problem for each question, in their order."""
        received = [self._received(question) for question in asked]
        valid = [question for question in received if not isinstance(question, ValueError)]
        answers = iter(self.predictor.ask(valid) if valid else [])
        return [_reply(question if isinstance(question, ValueError) else next(answers)) for question in received]

    def _received(self, wire_question: Any) -> Any:
        """The question as the predictor takes it, or what is wrong with it."""
        inputs = self.predictor.Question.inputs
        try:
            return self.predictor.Question(
                **{name: spec.received(getattr(wire_question, name)) for name, spec in inputs.items()}
            )
        except ValueError as error:
            return error


def _reply(answer: Answer | ValueError) -> Reply | Problem:
    if isinstance(answer, ValueError):
        return Problem(str(answer))
    views = [View(**encode(picture.view())) for picture in answer.pictures if picture.view is not None]
    follow_ups = [Next(label=label, question=dict(question)) for label, question in answer.next]
    return Reply(text=answer.text, notes=list(answer.notes), next=follow_ups, pictures=views, **answer.fields)


def described(system: str) -> tuple[str, str]:
    """What a system is, and its paper: the first line and the first reference of its module's docstring."""
    system_class = registry.system(system)
    first, _, body = (sys.modules[system_class.__module__].__doc__ or "").partition("\n\n")
    body = " ".join(body.split())
    # A paper that is not on arXiv names its publisher: Radford et al. 2018, … (OpenAI).
    reference = re.match(r"(.+?\(arXiv:[^)]+\))", body) or re.match(r"([^()]+ \([A-Z][^()]*\))", body)
    return " ".join(first.split()), reference[1].replace("*", "") if reference else ""


# ---------------------------------------------------------------------------------------------------------------------
# Questions as pydantic has them

_Real = Annotated[float, Field(ge=-1e6, le=1e6)]
_Place = Annotated[float, Field(ge=0, le=1)]
_Point = Annotated[list[_Place], Field(min_length=2, max_length=2)]


def model_of(question: Any) -> type[BaseModel]:
    """The type that checks a kind of question, with what a form must know in its JSON schema."""
    fields = {name: _field(spec) for name, spec in question.inputs.items()}
    base = type("Question", (Wire,), {"model_config": ConfigDict(json_schema_extra={"verb": question.verb})})
    return create_model("Question", __base__=base, **fields)


def _field(spec: questions.Input) -> Any:
    kind, limits, widget = _described(spec)
    extra: dict[str, Any] = dict(widget)
    extra |= {"option": True} if spec.option else {}
    extra |= {"widget": "hidden"} if spec.hidden else {}
    default = ... if spec.default is questions.REQUIRED else spec.sent(spec.default)
    description = Field(
        default, title=spec.title or None, description=spec.about or None, json_schema_extra=extra or None, **limits
    )
    return (kind | None if spec.optional else kind, description)


def _described(spec: questions.Input) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """The type of a field, its limits, and what its form needs beyond them."""
    match spec:
        case questions.Text():
            limits = {"max_length": spec.longest, "min_length": spec.least or None, "pattern": spec.pattern or None}
            widget = {"widget": "lines", "rows": spec.rows} if spec.rows > 2 else {}
            return str, {name: limit for name, limit in limits.items() if limit is not None}, widget
        case questions.Number():
            return int, {"ge": spec.least, "le": spec.most}, {}
        case questions.Flag():
            return bool, {}, {}
        case questions.Choice():
            return Literal[spec.names], {}, {}
        case questions.Vectors():
            row = Annotated[list[_Real], Field(min_length=1, max_length=spec.widest)]
            return list[row], {"min_length": 1, "max_length": spec.most}, {"widget": "vectors"}
        case questions.Strokes():
            line = Annotated[list[_Point], Field(min_length=1, max_length=spec.longest)]
            widget = {"widget": "pad", "most": spec.most, "longest": spec.longest}
            return list[line], {"max_length": spec.most}, widget
        case questions.Image():
            return str, {"max_length": _base64(spec.longest)}, {"widget": "image", "side": spec.side}
        case questions.Sound():
            widget = {"widget": "sound", "accept": ",".join(spec.suffixes), "seconds": spec.seconds}
            return str, {"max_length": _base64(spec.longest)}, {**widget, "rate": spec.rate}
        case questions.File():
            widget = {"widget": "file", "accept": ",".join(spec.suffixes), "longest": spec.longest}
            return str, {"max_length": _base64(spec.longest)}, widget
    raise TypeError(f"no form has a field for {type(spec).__name__}")


def _base64(size: int) -> int:
    """The characters that ``size`` bytes become."""
    return -(-size // 3) * 4
