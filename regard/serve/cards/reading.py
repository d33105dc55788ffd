"""A text, and a question about it."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, Field

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Told, drawn, percent
from regard.trained.reading import Reading as TrainedReading
from regard.views import document


class Passage(Wire):
    """A text and what is asked of it."""

    model_config = ConfigDict(json_schema_extra={"verb": "Ask"})
    story: str = Field(min_length=1, max_length=6000, title="Text", json_schema_extra={"widget": "lines", "rows": 7})
    question: str = Field(
        min_length=1,
        max_length=400,
        title="Question",
        description="Of a reader that names entities, a sentence with a hole, ___, where the answer goes.",
    )


class Reading(Card):
    """A reader that is given a text."""

    trained: TrainedReading
    Question = Passage
    Answer = Told
    title = "Ask about a text"

    def data(self) -> str:
        config = self.trained.task.config
        return str(config.data) if config.data else "made stories"

    def examples(self) -> Sequence[Wire]:
        """Questions of the test split, where it is at hand or can be made."""
        try:
            asked = self.trained.task.questions("test")[:3]
        except (ValueError, OSError):
            return []
        pairs = ((one.document.raw[:6000], one.question.raw[:400]) for one in asked)
        return [Passage(story=story, question=question) for story, question in pairs if story and question]

    def one(self, question: Passage) -> Told:
        found = self.trained.predict(question.story, question.question)
        view = document.view(
            found.words,
            found.weights,
            rows=found.rows,
            blanks=found.blanks,
            marked=found.places,
            question=question.question,
            prediction=found.text,
            title=question.question,
        )
        return Told(text=found.text, notes=[f"{percent(found.probability)} sure."], pictures=drawn(view))
