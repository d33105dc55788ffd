"""What predictors share whose task says what one may ask: questions, examples, and what the command line prints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard._files import replace
from regard.axes import TABLE
from regard.predictors import _asking
from regard.predictors.predictor import Answer, Predictor
from regard.questions import Input, form
from regard.views.picture import Picture

GO_ON = "Go on"
"""What the button says that takes a conversation to its next turn."""


class AskedPredictor(Predictor):
    """A system whose questions are those of its task, a :class:`regard.tasks.task.AskedTask`."""

    @classmethod
    def inputs(cls, task: Any) -> Mapping[str, Input]:
        """The fields of a question, the most important first."""
        return task.asks

    @cached_property
    def Question(self) -> Any:
        """What one may ask; see :func:`regard.questions.form`."""
        return form(self.task.verb, **self.inputs(self.task))

    @property
    def title(self) -> str:
        """What one can do with it, in a few words."""
        return self.task.title

    def examples(self) -> Sequence[Any]:
        """A few questions to start from."""
        return [self.Question(**values) for values in self.task.suggested()]

    def data(self) -> str:
        """What it was trained on, in a few words."""
        return self.task.origin()

    def read(self, questions: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        """For each question None, or the error that says what is wrong with it; and the items of the others, by their
        numbers."""
        answers: list[Any] = [None] * len(questions)
        items: dict[int, Any] = {}
        for row, question in enumerate(questions):
            try:
                items[row] = self.task.read(question)
            except ValueError as error:
                answers[row] = error
        return answers, items

    def followed(self, question: Any, answer: Answer) -> Answer:
        """An answer with the next question of a conversation, if it is one."""
        changed = self.task.follow(question, answer.text)
        return dataclasses.replace(answer, next=[*answer.next, (GO_ON, changed)]) if changed else answer

    def answer(self, file: Path | None, *, as_json: bool = False, out: str = "", **fields: Any) -> Iterator[str]:
        """What ``regard predict`` prints: the answer to each question of a file, or of standard input.

        Where one of many questions has no answer, stderr says why, its line stays empty, and the others are answered.

        Args:
            as_json: a JSON object a line, with all that an answer holds.
            out: a folder for answers that are files, such as subtitles.
        """
        asked = _asking.questions(self.Question, file, fields)

        def ask(group: Sequence[_asking.Asked]) -> Sequence[Answer | ValueError]:
            return self.ask([one.question for one in group])

        for one, found, wrong in _asking.answered(asked, ask, lambda one: one.place, _asking.typing(file)):
            if as_json:
                told = {"error": wrong} if found is None else {"text": found.text, **found.fields}
                yield json.dumps({**one.given, **told}, ensure_ascii=False)
            elif found is not None and fields.get("nbest", 1) > 1 and not found.document:
                yield from _several(one, found, fields["nbest"])
            elif found is not None:
                yield _said(one, found) if not out else _written(one, found, Path(out))
            elif not one.name:
                yield ""

    def look(self, what: Sequence[str] = (), **fields: Any) -> Iterator[tuple[str, Picture | None]]:
        """What ``regard show`` shows of each question, given as its text or file, or by its fields, or of the first
        example if none is: a heading, if not empty, and a picture."""
        named = [one for word in what for one in _asking.named(self.Question, word, fields)]
        if not what and _asking.whole(self.Question, fields):
            named = list(_asking.alone(self.Question, fields))
        elif not what:
            named = [_asking.Asked(dataclasses.replace(one, **fields)) for one in self.examples()[:1]]
            if not named:
                raise ValueError(f"{self.name}: say what to show")
        for one, found in zip(named, self.ask([one.question for one in named]), strict=True):
            if isinstance(found, ValueError):
                raise ValueError(_asking.placed(one.place, found))
            heading = "\n".join(filter(None, [_heading(one, found), *found.notes]))
            shown: Sequence[Picture | None] = found.pictures or [None]
            for picture in shown:
                yield heading, picture
                heading = ""


def _heading(one: _asking.Asked, found: Answer) -> str:
    """An answer below what was typed, or after the place of its question; of a text that goes on, the whole text."""
    if not one.place or (one.typed and found.text.startswith(one.place)):
        return found.text
    return f"{one.place}\n→ {found.text}" if one.typed else f"{one.place}: {found.text}"


def _said(one: _asking.Asked, found: Answer) -> str:
    """An answer after the name of its file; one that is a file itself, such as subtitles, stands for itself."""
    if found.document and not one.many:
        return found.text
    if found.document == TABLE:
        return "\n".join(f"{one.name}\t{line}" for line in found.text.splitlines())
    if found.document:
        raise ValueError(f"{one.name}: a .{found.document} file each; say into which folder: out=FOLDER")
    return f"{one.name}\t{found.text}" if one.name and "\n" not in found.text else found.text


def _several(one: _asking.Asked, found: Answer, count: int) -> Iterator[str]:
    """``count`` lines, each an answer and its score; empty ones where a search found fewer."""
    answers = found.fields.get("answers", [])
    for number in range(count):
        told: dict[str, Any] = answers[number] if number < len(answers) else {"text": "", "score": float("-inf")}
        score = told["score"] if "score" in told else told.get("log_prob", 0.0)
        yield "\t".join([*([one.name] if one.name else []), told["text"], f"{score:.4f}"])


def _written(one: _asking.Asked, found: Answer, folder: Path) -> str:
    """The file that an answer was written to."""
    if not found.document:
        raise ValueError(f"out={folder} is for answers that are files, such as subtitles")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{Path(one.name or one.place or 'answer').stem}.{found.document}"
    replace(path, found.text.encode())
    return str(path)
