"""Digits to look at, drawn by hand or from the test set, and digits that a system draws itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import ConfigDict, Field, JsonValue
from torch import Tensor

from regard.serve.cards import Card, Pictured, Problem, Wire
from regard.serve.cards._told import Next, Seed, Told, drawn, percent
from regard.tasks._canvases import STROKES
from regard.trained.digits import PICTURES
from regard.trained.digits import Digits as TrainedDigits
from regard.views import canvas

Place = Annotated[float, Field(ge=0, le=1)]
Point = Annotated[list[Place], Field(min_length=2, max_length=2)]
Line = Annotated[list[Point], Field(min_length=1, max_length=300)]
Lines = Annotated[list[Line], Field(max_length=20)]
PAD: dict[str, JsonValue] = {"widget": "pad", "most": 20, "longest": 300}


class Example(Wire):
    """A picture of the test set."""

    model_config = ConfigDict(json_schema_extra={"verb": "Look"})
    example: Seed = Field(default=0, title="Test picture", description="Used while nothing is drawn.")


class Look(Wire):
    """A digit that is drawn, else one of the test set."""

    model_config = ConfigDict(json_schema_extra={"verb": "Look"})
    strokes: Lines = Field(default=[], title="Your digit", json_schema_extra=PAD)
    example: Seed = Field(default=0, title="Or a test digit", description="Used while nothing is drawn.")


class Scattered(Look):
    """The same where digits lie anywhere or are distorted."""

    place: Seed = Field(default=0, title="Put yours elsewhere", description="What becomes of a digit that you draw.")


class Paint(Wire):
    """What to draw: something new, or what one drew oneself."""

    model_config = ConfigDict(json_schema_extra={"verb": "Draw"})
    strokes: Lines = Field(
        default=[], title="To be copied", description="Empty: it imagines a digit.", json_schema_extra=PAD
    )
    seed: Seed = Field(default=0, title="Chance", description="Each number gives another picture.")


class Digits(Card):
    """A system that looks at digits, or draws them."""

    trained: TrainedDigits
    Answer = Told

    def __init__(self, trained: TrainedDigits):
        super().__init__(trained)
        self.paints = getattr(trained.model.config, "goal", "") == "generate"
        kind = trained.task.config.kind
        if self.paints:
            self.Question: Any = Paint
        elif kind == "folder":
            self.Question = Example
        else:
            self.Question = Look if kind == "plain" else Scattered
        kinds = {"glimpses": "Watch where it glances", "rectified": "Watch it turn digits upright"}
        view = getattr(trained.model, "view", "")
        self.title = "Watch it draw, stroke by stroke" if self.paints else kinds.get(view, "Name what is on a picture")

    @cached_property
    def task(self) -> Any:
        """The task with its pictures, or with drawn ones."""
        return self.trained.at_hand()

    @cached_property
    def workshop(self) -> Any:
        """The task whose canvases a drawn digit is put on."""
        config = self.task.config
        if config.kind != "npz":
            return self.task
        size = self.task.sizes["height"]
        return type(self.task)(dataclasses.replace(config, kind="cluttered", data="drawn", size=size, drawn=1000))

    def data(self) -> str:
        learnt = self.trained.task.config
        told = "generated digits" if learnt.data == "drawn" else f"{learnt.data}, {learnt.kind}"
        return told if self.paints or self.task.config.data == learnt.data else f"{told}; examples are generated"

    def examples(self) -> Sequence[Wire]:
        lines = [[[[round(x, 3), round(y, 3)] for x, y in line] for line in STROKES[digit]] for digit in (3, 5)]
        if self.paints:
            return [*(Paint(seed=seed) for seed in (1, 2, 3)), Paint(strokes=lines[0])]
        numbers = [self.Question(example=number) for number in (0, 1, 2)]
        return numbers if self.Question is Example else [*numbers, *(self.Question(strokes=each) for each in lines)]

    @torch.inference_mode()
    def answer(self, questions: Sequence[Any]) -> list[Pictured | Problem]:
        """All pictures in one batch."""
        found: list[Pictured | Problem | None] = [None] * len(questions)
        images, rows, truths = [], [], []
        for row, question in enumerate(questions):
            if self.paints and not question.strokes:
                found[row] = self._imagined(question.seed)
                continue
            try:
                image, truth = self._picture(question)
            except ValueError as error:
                found[row] = Problem(str(error))
                continue
            images.append(image)
            rows.append(row)
            truths.append(truth)
        if images:
            batch = self.trained.moved({"image": torch.stack(images)})
            batch["label"] = torch.zeros(len(images), dtype=torch.long, device=self.trained.device)
            seeds = [getattr(questions[row], "seed", 0) for row in rows]
            for row, made in zip(rows, self._looked(batch, truths, seeds), strict=True):
                found[row] = made
        return [each for each in found if each is not None]

    def _picture(self, question: Any) -> tuple[Tensor, str | None]:
        """The image (C, height, width) of a question, and what it is if that is known."""
        strokes = getattr(question, "strokes", [])
        if not strokes:
            size = len(self.task.pictures["test"])
            if question.example >= size:
                raise ValueError(f"there is no test picture {question.example}: they are 0 to {size - 1}")
            made = self.task.make("test", np.array([question.example]))
            return made["image"][0], self.task.classes[int(made["label"])]
        paper, pictures = self.workshop.canvas("test"), self.workshop.pictures["test"].image
        mine = ink(strokes, pictures.shape[-1])[None, None]
        plan = paper.plan(np.random.default_rng(getattr(question, "place", 0)), 1)
        image = paper.paint(np.concatenate([mine, pictures[:-1]]), np.zeros(1, int), plan)
        if self.task.config.binarize:
            image = (image > 0.5).astype(np.float32)
        return torch.from_numpy(image[0]), None

    def _looked(self, batch: dict[str, Tensor], truths: Sequence[str | None], seeds: Sequence[int]) -> list[Told]:
        if self.paints:
            shape = (self.trained.model.config.steps, self.trained.model.config.latent)
            noise = [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
            batch["noise"] = torch.stack(noise).to(self.trained.device)
            told = [Told(text="Your digit, as it draws it") for _ in seeds]
        else:
            shares = self.trained.model.predict(batch).float().cpu()
            told = [self._named(each, truth) for each, truth in zip(shares, truths, strict=True)]
        kind = getattr(self.trained.model, "view", "")
        if kind in PICTURES:
            picture = PICTURES[kind](self.trained, batch, [each.text for each in told])
            for row, each in enumerate(told):
                each.pictures = drawn(picture.view(row))
        return told

    def _named(self, shares: Tensor, truth: str | None) -> Told:
        """What the system says of one picture, by the probabilities (classes,)."""
        best, second = (int(place) for place in shares.argsort(descending=True, stable=True)[:2])
        names = self.task.classes
        notes = [f"{percent(float(shares[best]))} sure; {names[second]} is next, {percent(float(shares[second]))}."]
        if truth is not None:
            notes.append("Right." if truth == names[best] else f"Wrong: it is {truth}.")
            notes += [self.trained.missing] if self.trained.missing else []
        return Told(text=f"It says {names[best]}", notes=notes)

    def _imagined(self, seed: int) -> Told:
        made = self.trained.model.imagine(1, generator=torch.Generator().manual_seed(seed))
        view = canvas.view(*(None if part is None else part[0] for part in made))
        more = Next(label="Another", question={"seed": (seed + 1) % 10000, "strokes": []})
        return Told(text="Imagined, stroke by stroke", next=[more], pictures=drawn(view))


# ---------------------------------------------------------------------------------------------------------------------
# What is drawn by hand

BOX, PEN = 20 / 28, 1.15 / 28
"""MNIST's digits fill a box of 20 pixels of 28, and are about so thick."""


def ink(lines: Sequence[Sequence[Sequence[float]]], side: int = 28) -> np.ndarray:
    """Lines as MNIST has its digits: scaled to its box, their mass in the middle; (side, side) bytes, light on dark."""
    points = [np.array(line, np.float32) for line in lines]
    every = np.concatenate(points)
    low, high = every.min(0), every.max(0)
    scale = side * BOX / max(float((high - low).max()), 0.1)
    points = [(line - (low + high) / 2) * scale + side / 2 for line in points]
    y, x = np.mgrid[:side, :side] + 0.5
    first = _strokes(points, x, y)
    mass = max(float(first.sum()), 1e-6)
    shift = np.array([side / 2 - float((first * x).sum()) / mass, side / 2 - float((first * y).sum()) / mass])
    return np.rint(255 * _strokes([line + shift for line in points], x, y)).astype(np.uint8)


def _strokes(lines: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How dark the pixels at x and y are, 0 to 1, by their distance to the nearest piece of a line."""
    nearest = np.full(x.shape, np.inf)
    for line in lines:
        start, end = (line[:-1], line[1:]) if len(line) > 1 else (line, line)
        along = end - start
        length = np.maximum((along**2).sum(1), 1e-9)
        dx, dy = x[..., None] - start[:, 0], y[..., None] - start[:, 1]
        place = ((dx * along[:, 0] + dy * along[:, 1]) / length).clip(0, 1)
        distance = np.hypot(dx - place * along[:, 0], dy - place * along[:, 1]).min(-1)
        nearest = np.minimum(nearest, distance)
    return (PEN * len(x) + 0.5 - nearest).clip(0, 1)
