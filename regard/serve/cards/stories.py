"""A story that one tells, and a question about it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, create_model

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Told, drawn, percent
from regard.tasks._stories import Question as Asked
from regard.tasks._stories import read_babi
from regard.tasks._worlds import WORLDS, generate
from regard.trained.stories import Stories as TrainedStories
from regard.views import hops


class Story(Wire):
    """A story and what is asked of it."""

    model_config = ConfigDict(json_schema_extra={"verb": "Ask"})
    story: str = Field(
        min_length=1,
        max_length=4000,
        title="Story",
        description="A sentence a line, in the words that it was trained on.",
        json_schema_extra={"widget": "lines", "rows": 7},
    )
    question: str = Field(min_length=1, max_length=200, title="Question")


class Stories(Card):
    """A memory network that is told a story."""

    trained: TrainedStories
    Answer = Told
    title = "Tell a story and ask about it"

    def __init__(self, trained: TrainedStories):
        super().__init__(trained)
        names = tuple(trained.task.names)
        about = "Whose model answers; left open, the one that knows the words."
        task = Field(default=None, title="Task", description=about, json_schema_extra={"option": True})
        fields: dict[str, Any] = {"task": (Literal[names] | None, task)} if len(names) > 1 else {}
        self.Question: Any = create_model("Question", __base__=Story, **fields)

    def data(self) -> str:
        config = self.trained.task.config
        return f"bAbI, tasks {config.tasks}" if config.data else f"generated stories like bAbI's, tasks {config.tasks}"

    def examples(self) -> Sequence[Wire]:
        """A short generated story for each task that it knows, in words that it knows."""
        found = []
        for number in WORLDS:
            if (asked := self._story(number)) is not None:
                told = {"story": "\n".join(asked.story), "question": asked.question}
                named = {"task": str(number)} if "task" in self.Question.model_fields else {}
                found.append(self.Question(**told, **named))
        return found

    def _story(self, number: int) -> Asked | None:
        task = self.trained.task
        if str(number) not in task.names:
            return None
        home = task.home(str(number))
        made = read_babi(generate(number, 60, random.Random(f"explorer {number}")), "example")
        for asked in sorted(made, key=lambda one: abs(len(one.story) - 6)):
            try:
                task.table([asked], home, strict=True)
            except ValueError:  # a word that it has not learned
                continue
            return asked
        return None

    def one(self, question: Any) -> Told:
        asked = question.question.strip()
        if not asked.endswith("?"):
            asked += "?"
        told = question.story.split("\n")
        found = self.trained.predict(told, asked, task=getattr(question, "task", None))
        sure = "" if found.probability is None else f"{percent(found.probability)} sure. "
        named = f"task {found.task}" if found.task.isdigit() else found.task
        notes = [f"{sure}Answered by the model of {named}, with {len(found.weights)} hops over the story."]
        view = hops.view(found.story, found.weights, title=asked, text=found.text)
        return Told(text=found.text, notes=notes, pictures=drawn(view))
