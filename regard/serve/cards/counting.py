"""A string of a counting language, and what the stacks did with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, create_model

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Told, drawn
from regard.tasks.counting import LANGUAGES, spell
from regard.trained.counting import Counting as TrainedCounting
from regard.views import stack

MOST = 60


class Counting(Card):
    """A system that predicts the next symbol, such as the Stack RNN."""

    trained: TrainedCounting
    Answer = Told
    title = "Count with stacks"

    def __init__(self, trained: TrainedCounting):
        super().__init__(trained)
        config = trained.task.config
        self.letters = spell(list(range(len(LANGUAGES[config.language]))))
        text = Field(
            default="",
            max_length=200,
            pattern=f"^[{self.letters}]*$",
            title="Or a string of your own",
            description=f"Of the letters {', '.join(self.letters)}; two or more.",
        )
        n = Field(default=6, ge=config.fewest, le=MOST, title="n", description=f"Trained on n up to {config.longest}.")
        self.Question: Any = create_model("Question", __base__=Read, n=(int, n), text=(str, text))

    def data(self) -> str:
        return f"generated strings, {self.trained.task.config.language}"

    def examples(self) -> Sequence[Wire]:
        wrong = self.letters[0] * 4 + self.letters[1] * 3 + self.letters[0]
        return [*(self.Question(n=n) for n in (6, 12, 24)), self.Question(text=wrong)]

    def one(self, question: Any) -> Told:
        text, known = self.trained.read("the string", question.text or str(question.n))
        trace = self.trained.predict(text, known)
        if known is None:
            said = f"It expected {trace.predicted}"
        else:
            wrong, determined = len(trace.wrong()), int(sum(trace.known))
            said = "Every determined symbol was expected" if not wrong else f"{wrong} of {determined} not expected"
        notes = [f"Read {text[:-1]}, one symbol after the other, and guessed the next one each time."]
        return Told(text=said, notes=notes, pictures=drawn(stack.view(trace)))


class Read(Wire):
    """A string, by its number or letter by letter."""

    model_config = ConfigDict(json_schema_extra={"verb": "Read"})
