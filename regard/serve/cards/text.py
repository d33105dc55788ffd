"""Sentences in, sentences out: translation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from regard.serve.cards import Card, Picture, Pictured, Problem, Wire
from regard.tasks._text import clean
from regard.trained import text as trained_text
from regard.trained.text import Prediction
from regard.views import alignment
from regard.views.page import encode

LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese"}
SENTENCES = ("I love coffee.", "She didn't tell me where she was going.", "The red house is near the river.")

HIDDEN = {"widget": "hidden"}
"""Not a field of the explorer's form."""


class Sentence(Wire):
    """A sentence, and how to search for its translation."""

    model_config = ConfigDict(json_schema_extra={"verb": "Translate"})

    text: Annotated[str, Field(max_length=2000, title="Sentence")]
    nbest: Annotated[int, Field(ge=1, le=5, title="Answers", description="The best first.")] = 1
    beam: Annotated[int | None, Field(ge=1, le=10, title="Beam", description="Hypotheses that are kept.")] = None
    pictures: Annotated[bool, Field(description="Also say where each word came from?", json_schema_extra=HIDDEN)] = True


class Reading(BaseModel):
    """One of the answers."""

    text: str
    score: float
    words: list[str]
    alignment: Annotated[str, Field(description="The source word that each word looked at most: 0-0 1-2.")]


class Translation(Pictured):
    """The best answer, and all that were asked for."""

    text: str
    source_words: list[str]
    readings: list[Reading]


class Text(Card):
    """A translator, or anything else that writes a sentence for a sentence."""

    Question, Answer = Sentence, Translation
    trained: trained_text.Text

    def __init__(self, trained: trained_text.Text):
        super().__init__(trained)
        config = trained.task.config
        source, target = (
            LANGUAGES.get(code, code) for code in (getattr(config, "src", ""), getattr(config, "tgt", ""))
        )
        self.title = f"Translate {source} into {target}" if source and target else "Sentences to sentences"
        self._searching = cache(self._search)

    def examples(self) -> list[Sentence]:
        """English sentences for those who read English; else what the task itself makes up."""
        task = self.trained.task
        if self.trained.recipe.sections["task"]["name"] == "translation":
            return [Sentence(text=text) for text in SENTENCES] if task.config.src == "en" else []
        return [Sentence(text=text) for text in task.pairs("test").source[:3]]

    def data(self) -> str:
        """The data set that the recipe names."""
        config = self.trained.task.config
        return getattr(config, "data", "") or ("generated" if not hasattr(config, "data") else "its owner's text")

    def answer(self, questions: Sequence[Sentence]) -> list[Translation | Problem]:
        """All that are searched for with the same beam are decoded together."""
        answers: list[Translation | Problem | None] = [self._refused(question) for question in questions]
        groups: dict[int, list[int]] = defaultdict(list)
        for row, question in enumerate(questions):
            if answers[row] is None:
                groups[max(question.beam or self.trained.config.size, question.nbest)].append(row)
        for size, rows in groups.items():
            asked = [questions[row] for row in rows]
            most = max(question.nbest for question in asked)
            found = self._searching(size).predict([question.text for question in asked], nbest=most)
            for row, question, readings in zip(rows, asked, found, strict=True):
                answers[row] = _answer(question, readings[: question.nbest])
        return answers  # type: ignore[return-value]  # none is None now

    def _refused(self, question: Sentence) -> Problem | None:
        """The command line cuts what is too long and warns; here there is nobody to read a warning."""
        task = self.trained.task
        (tokens,), most = task.source.encode_all([clean(question.text)]).lengths, task.config.max_length - 1
        return Problem(f"the sentence has {tokens:,} tokens, and {most:,} is the most") if tokens > most else None

    def _search(self, size: int) -> trained_text.Text:
        """The same system with a beam of another size."""
        ours = self.trained
        return trained_text.Text(ours.model, ours.task, ours.recipe.change([f"decode.size={size}"]), ours.name)


def _answer(question: Sentence, readings: Sequence[Prediction]) -> Translation:
    best = readings[0]
    shown = [
        alignment.Reading(reading.words, reading.weights, reading.score, reading.text)
        for reading in readings
        if reading.words and reading.weights is not None
    ]
    views = [alignment.beam(shown, best.source_words, title=question.text)] if question.pictures and shown else []
    return Translation(
        text=best.text,
        source_words=best.source_words,
        readings=[
            Reading(text=one.text, score=one.score, words=one.words, alignment=one.pharaoh()) for one in readings
        ],
        pictures=[Picture(**encode(view)) for view in views],
    )
