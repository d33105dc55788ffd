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
from regard.predictors import _questions
from regard.predictors.predictor import Answer, Predictor
from regard.questions import Input, form
from regard.views.picture import Picture

CONTINUE = "Go on"
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
        """For each question None, or its error; and the items of the others, by their
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
        next_fields = self.task.follow(question, answer.text)
        return dataclasses.replace(answer, next=[*answer.next, (CONTINUE, next_fields)]) if next_fields else answer

    def answer(self, file: Path | None, *, as_json: bool = False, out: str = "", **fields: Any) -> Iterator[str]:
        """What ``regard predict`` prints: the answer to each question of a file, or of standard input.

        Where one of several questions fails, stderr says why, its line stays empty, and the others are answered.

        Args:
            as_json: a JSON object a line, with all that an answer holds.
            out: a folder for answers that are files, such as subtitles.
        """
        entries = _questions.of_file(self.Question, file, fields)

        def ask(chunk: Sequence[_questions.Entry]) -> Sequence[Answer | ValueError]:
            return self.ask([entry.question for entry in chunk])

        for entry, answer, error in _questions.answer_all(
            entries, ask, lambda entry: entry.place, _questions.is_interactive(file)
        ):
            if as_json:
                result = {"error": error} if answer is None else {"text": answer.text, **answer.fields}
                yield json.dumps({**entry.fields, **result}, ensure_ascii=False)
            elif answer is not None and fields.get("nbest", 1) > 1 and not answer.document:
                yield from _several(entry, answer, fields["nbest"])
            elif answer is not None:
                yield _line(entry, answer) if not out else _write(entry, answer, Path(out))
            elif not entry.name:
                yield ""

    def look(self, what: Sequence[str] = (), **fields: Any) -> Iterator[tuple[str, Picture | None]]:
        """What ``regard show`` shows of each question, given as its text or file, or by its fields, or of the first
        example if none is: a heading, if not empty, and a picture."""
        entries = [entry for word in what for entry in _questions.of_word(self.Question, word, fields)]
        if not what and _questions.is_complete(self.Question, fields):
            entries = list(_questions.of_fields(self.Question, fields))
        elif not what:
            entries = [_questions.Entry(dataclasses.replace(example, **fields)) for example in self.examples()[:1]]
            if not entries:
                raise ValueError(f"{self.name}: say what to show")
        for entry, answer in zip(entries, self.ask([entry.question for entry in entries]), strict=True):
            if isinstance(answer, ValueError):
                raise ValueError(_questions.error_at(entry.place, answer))
            heading = "\n".join(filter(None, [_heading(entry, answer), *answer.notes]))
            pictures: Sequence[Picture | None] = answer.pictures or [None]
            for picture in pictures:
                yield heading, picture
                heading = ""


def _heading(entry: _questions.Entry, answer: Answer) -> str:
    """An answer below what was typed, or after the place of its question; of a text that goes on, the whole text."""
    if not entry.place or (entry.typed and answer.text.startswith(entry.place)):
        return answer.text
    return f"{entry.place}\n→ {answer.text}" if entry.typed else f"{entry.place}: {answer.text}"


def _line(entry: _questions.Entry, answer: Answer) -> str:
    """An answer after the name of its file; one that is a file itself, such as subtitles, stands for itself."""
    if answer.document and not entry.from_folder:
        return answer.text
    if answer.document == TABLE:
        return "\n".join(f"{entry.name}\t{line}" for line in answer.text.splitlines())
    if answer.document:
        raise ValueError(f"{entry.name}: a .{answer.document} file each; say into which folder: out=FOLDER")
    return f"{entry.name}\t{answer.text}" if entry.name and "\n" not in answer.text else answer.text


def _several(entry: _questions.Entry, answer: Answer, count: int) -> Iterator[str]:
    """``count`` lines, each an answer and its score; empty ones where a search found fewer."""
    answers: list[dict[str, Any]] = answer.fields.get("answers", [])
    for number in range(count):
        result: dict[str, Any] = answers[number] if number < len(answers) else {"text": "", "score": float("-inf")}
        score = result["score"] if "score" in result else result.get("log_prob", 0.0)
        yield "\t".join([*([entry.name] if entry.name else []), result["text"], f"{score:.4f}"])


def _write(entry: _questions.Entry, answer: Answer, folder: Path) -> str:
    """The file that an answer was written to."""
    if not answer.document:
        raise ValueError(f"out={folder} is for answers that are files, such as subtitles")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{Path(entry.name or entry.place or 'answer').stem}.{answer.document}"
    replace(path, answer.text.encode())
    return str(path)
