"""Strings of a counting language, and what the stacks did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard
from regard.predictors.predictor import Answer, Predictor, lines
from regard.questions import Number, Text, form
from regard.tasks.counting import LANGUAGES, spell, string
from regard.views import stack
from regard.views.picture import Picture
from regard.views.stack import Trace

MOST = 60
"""The largest n of a question."""


class Counting(Predictor):
    """A system that predicts the next symbol, such as the Stack RNN."""

    def predict(self, text: str, known: Sequence[int] | None = None) -> Trace:
        """Read a string and say after each symbol but the last what is expected next.

        Args:
            text: two symbols or more, such as ``"aaabbba"``.
            known: for each symbol of it, whether those before determine it; none is marked if None.
        """
        symbols = torch.tensor([[ord(letter) - ord("a") for letter in text]])
        determined = torch.tensor([list(known) if known is not None else [0] * len(text)])[:, 1:]
        with regard.record(self.model) as tape, torch.inference_mode():
            logits, tops = (tensor[0].cpu() for tensor in self.model.run(symbols[:, :-1].to(self.device)))
        actions = tape["actions"].weights[0, 0].cpu().transpose(0, 1)  # (T, stacks, actions)
        target = symbols[0, 1:]
        probability = torch.softmax(logits, -1).gather(1, target[:, None])[:, 0]
        expected = spell(logits.argmax(-1).tolist())
        return Trace(text[:-1], text[1:], expected, probability, determined[0], actions, tops[..., 0], self.model.names)

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The share of n for which every determined symbol was predicted, in percent, as the recipe rounds and without
        rounding; and the first n that fails, 0 if none does."""
        metrics: dict[str, float] = {}
        for name, training in (("correct", False), ("correct_unrounded", True)):
            # Rounding is left to evaluation, and there is nothing random in training.
            self.model.train(training)
            loader = list(self.task.loader(split))[:limit]
            all_correct = [self._all_correct(self.moved(batch)) for batch in loader]
            metrics[name] = 100 * float(np.mean(all_correct))
            if not training:
                metrics["first_wrong"] = float(
                    all_correct.index(False) + self.task.config.fewest if False in all_correct else 0
                )
        self.model.eval()
        return metrics

    def _all_correct(self, batch: dict[str, Tensor]) -> bool:
        expected = self.model.predict(batch)
        return bool(((expected == batch["symbols"][:, 1:]) | (batch["known"] == 0)).all())

    def answer(self, file: Path | None, *, as_json: bool = False) -> Iterator[str]:
        """A string a line, or n for the string of n; a number in place of a file is an n too. What was expected after
        each symbol."""
        for place, line in self._entries(file):
            if not line:
                yield ""
                continue
            text, determined = self.read(place, line)
            trace = self.predict(text, determined)
            mistakes = len(trace.wrong())
            if as_json:
                probability = [round(value, 4) for value in trace.probability.tolist()]
                yield json.dumps(
                    {"text": text, "expected": trace.predicted, "probability": probability, "wrong": mistakes}
                )
                continue
            verdict = (
                f"{mistakes} of {int(sum(trace.known))} determined symbols not expected" if determined else "as typed"
            )
            yield f"read     {text[:-1]}"
            yield f"next     {text[1:]}"
            yield f"expected {trace.predicted}  ({verdict})"

    def look(self, what: Sequence[str] = (), *, head: int | None = None) -> Iterator[tuple[str, Picture | None]]:
        """The trace table of the string of n, or of a string; of all stacks the busiest, or number ``head``."""
        if len(what) > 1:
            raise ValueError(f"one string is shown at a time, not {' '.join(what)}")
        text, determined = self.read("what to show", what[0] if what else "6")
        title = f"{self.task.config.language}: {text[:-1]}"
        yield "", stack.picture(self.predict(text, determined), None if head is None else [head], title=title)

    # Questions

    title = "Count with stacks"

    @cached_property
    def Question(self) -> Any:
        """A string, by its number or letter by letter."""
        config, letters = self.task.config, self._letters
        about = f"Of the letters {', '.join(letters)}; two or more."
        text = Text(200, pattern=f"^[{letters}]*$", default="", title="Or a string of your own", about=about)
        n = Number(config.fewest, MOST, default=6, title="n", about=f"Trained on n up to {config.longest}.")
        return form("Read", n=n, text=text)

    @property
    def _letters(self) -> str:
        return spell(list(range(len(LANGUAGES[self.task.config.language]))))

    def data(self) -> str:
        return f"generated strings, {self.task.config.language}"

    def examples(self) -> list[Any]:
        letters = self._letters
        wrong = letters[0] * 4 + letters[1] * 3 + letters[0]
        return [*(self.Question(n=n) for n in (6, 12, 24)), self.Question(text=wrong)]

    def one(self, question: Any) -> Answer:
        text, marks = self.read("the string", question.text or str(question.n))
        trace = self.predict(text, marks)
        mistakes, determined = len(trace.wrong()), int(sum(trace.known))
        verdict = "Every determined symbol was expected" if not mistakes else f"{mistakes} of {determined} not expected"
        verdict = verdict if marks is not None else f"It expected {trace.predicted}"
        notes = [f"Read {text[:-1]}, one symbol after the other, and guessed the next one each time."]
        return Answer(verdict, notes, pictures=[stack.picture(trace)])

    def _entries(self, file: Path | None) -> Iterator[tuple[str, str]]:
        """What to answer, and where it stands."""
        if file is not None and not file.exists() and str(file).isdecimal():
            yield "n", str(file)
            return
        for number, line in enumerate(lines(file, "Type a string or an n and press Enter; Ctrl-D ends."), 1):
            yield f"{file or 'standard input'}, line {number}", line.strip()

    def read(self, place: str, line: str) -> tuple[str, list[int] | None]:
        """The text, and where it is determined if it is the string of a number n, with the next one's beginning."""
        config = self.task.config
        if line.isdecimal():
            n, fewest = int(line), config.fewest
            if n < fewest:
                raise ValueError(f"{place}: {config.language} has no string for {n}, only from {fewest} on")
            symbols, determined = string(
                config.language, n - n // 2 if fewest == 2 else n, n // 2 if fewest == 2 else 0
            )
            return spell([*symbols, 0]), [*determined, 1]
        letters = spell(list(range(len(LANGUAGES[config.language]))))
        unknown = sorted(set(line) - set(letters))
        if unknown:
            raise ValueError(f"{place}: {unknown[0]!r} is not a symbol of {config.language}: {', '.join(letters)}")
        if len(line) < 2:
            raise ValueError(f"{place}: a string of two symbols or more, not {line!r}")
        return line, None
