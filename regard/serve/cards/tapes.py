"""A tape of the length one chooses, and the heads of the machine that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, create_model

from regard.serve.cards import Card, Wire
from regard.serve.cards._told import Next, Seed, Told, drawn
from regard.trained.tapes import Tapes as TrainedTapes
from regard.views import weightings

LONGER = 6
"""Tapes may be so many times longer than in training."""
MOST = 240


class Tapes(Card):
    """A machine with a memory, such as the NTM."""

    trained: TrainedTapes
    Answer = Told

    def __init__(self, trained: TrainedTapes):
        super().__init__(trained)
        config = trained.task.config
        what = config.what.replace("_", " ")
        self.title = f"Run the tape: {what}"
        self.least = {"recall": 2, "ngrams": config.order, "sort": config.top}.get(config.what, 1)
        self.most = max(config.longest, min(LONGER * config.longest, MOST))
        noun = {"recall": "Items", "ngrams": "Bits"}.get(config.what, "Vectors")
        length = Field(
            default=config.longest,
            ge=self.least,
            le=self.most,
            title=f"{noun} on the tape",
            description=f"Trained on {config.shortest} to {config.longest}.",
        )
        fields: dict[str, Any] = {"length": (int, length)}
        if config.what == "repeat_copy":
            fields["repeats"] = (int, Field(default=2, ge=1, le=2 * config.repeats, title="Copies"))
        fields["seed"] = (Seed, Field(default=0, title="Chance", description="Each number gives another tape."))
        self.Question: Any = create_model("Question", __base__=Run, **fields)

    def data(self) -> str:
        return f"generated tapes, {self.trained.task.config.what.replace('_', ' ')}"

    def examples(self) -> Sequence[Wire]:
        config = self.trained.task.config
        middle = max(self.least, (config.shortest + config.longest) // 2)
        lengths = sorted({middle, config.longest, min(2 * config.longest, self.most), self.most})
        return [self.Question(length=length) for length in lengths]

    def one(self, question: Any) -> Told:
        found = self.trained.predict(
            question.length, repeats=getattr(question, "repeats", 1), seed=question.seed, rows=self._rows(question)
        )
        bits = {"input": found.input, "output": found.output * found.asked[:, None]}
        if found.wrong:
            bits["wrong"] = found.mistakes.float()
        text = "Every bit is right" if not found.wrong else f"{found.wrong} of {found.bits} bits are wrong"
        notes = [f"{len(found.input)} steps; {found.bits} bits were asked for."]
        longest = self.trained.task.config.longest
        if question.length > longest:
            notes.append(f"Longer than anything it was trained on, {longest}.")
        more = Next(label="Another tape", question={"seed": (question.seed + 1) % 10000})
        return Told(text=text, notes=notes, next=[more], pictures=drawn(weightings.view(bits, found.heads)))

    def _rows(self, question: Any) -> int | None:
        """A memory that holds the tape: as trained, or larger where the tape needs it."""
        rows = self.trained.model.rows
        return None if question.length < rows else question.length + 8


class Run(Wire):
    """How long a tape, and which."""

    model_config = ConfigDict(json_schema_extra={"verb": "Run"})
