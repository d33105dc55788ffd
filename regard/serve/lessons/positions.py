"""Positional encodings: the sinusoids of the Transformer, with sliders."""

from __future__ import annotations

from typing import Any

import torch

from regard.predictors.predictor import Answer
from regard.questions import Number, form
from regard.serve.lessons import lesson
from regard.views import positions
from regard.views.picture import Picture


def encodings(count: int, width: int, base: float) -> torch.Tensor:
    """PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i + 1) the cosine; (count, width)."""
    angle = torch.arange(count)[:, None] / base ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


class Lesson(lesson.Lesson):
    """The map of the encodings, and how alike any two places are."""

    name = "positions"
    title = "Positional encodings"
    sentence = "Sines and cosines of many wavelengths tell the Transformer where a word stands: near places are alike."
    paper = "Vaswani et al. 2017, Attention Is All You Need (arXiv:1706.03762)"
    part = "The Transformer"
    order = 5
    Question = form(
        "Draw",
        count=Number(2, 200, default=50, title="Positions"),
        width=Number(2, 256, default=64, title="Dimensions d"),
        base=Number(2, 20000, default=10000, title="Base", about="The longest wavelength is 2π times this."),
    )

    def one(self, question: Any) -> Answer:
        """The encodings."""
        values = encodings(question.count, question.width, question.base).numpy()
        alike = positions.likeness(values)
        near, far = alike[0, 1], alike[0, -1]
        text = f"Neighbours have a cosine of {near:.2f}, the first and the last position one of {far:.2f}."
        picture = Picture(
            "Encodings", lambda: text, lambda: positions.view(values), lambda: positions.figure(values)
        )  # fmt: skip
        return Answer(text.replace("-", "−"), pictures=[picture])
