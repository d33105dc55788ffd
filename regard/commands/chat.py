"""``regard chat``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from regard.commands import _options
from regard.commands._app import Data, Trust, Where, app, examples

LOOK, NEW, HISTORY, END = "/look", "/new", "/history", "/quit"


@app.command(
    "chat",
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "chat runs/dialog-babi task=5      talk to an agent that books tables",
        "chat runs/coqa-made story=@jessica.txt     ask about a text",
    ),
)
def chat_command(
    where: Where,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]", help="Fields that all questions share; KEY=@FILE reads a file."),
    ] = None,
    data: Data = None,
    trust: Trust = False,
) -> None:
    """Talk to a system. What was said before is part of each question.

    Type a line a turn. /look shows what the last answer looked at, /history what was said so far, /new begins a new
    conversation, /quit ends.
    """
    from regard import runs

    model = runs.load(where, data=data, trust=trust)
    message_field = getattr(model.task, "said", "text")
    question_inputs = getattr(model.Question, "inputs", {}).items()
    inputs = {
        name: field for name, field in question_inputs if name not in (message_field, "history") and not field.hidden
    }
    kinds = {name: field.python | None if field.optional else field.python for name, field in inputs.items()}
    accepted = {name: _options.Option(kind) for name, kind in kinds.items()}
    words, fields = _options.split(options or [], accepted, where)
    if words and "=" in words[0]:
        raise ValueError(_options.unknown(words[0].partition("=")[0], accepted, where))
    if words:
        raise ValueError(f"{words[0]!r} is no option KEY=VALUE; what you say is typed, a line a turn")
    fields = {name: _text(value) for name, value in fields.items()}
    if sys.stdin is None:
        raise ValueError("standard input is closed: there is nobody to talk to")
    hint = (
        f"Type what you say. {LOOK} shows what the last answer looked at, {HISTORY} what was said so far, "
        f"{NEW} begins a new conversation, {END} or Ctrl-D ends."
    )
    if sys.stdin.isatty():
        print(hint, file=sys.stderr)
    for line in talk(model, fields, (line.strip("\ufeff\r\n") for line in sys.stdin)):
        print(line, flush=True)


def talk(model: Any, fields: dict[str, Any], lines: Iterator[str]) -> Iterator[str]:
    """What is printed for each line that someone types. ``fields`` are those that all questions share."""
    from regard.predictors import _questions

    follow = getattr(model.task, "follow", None)
    message_field = getattr(model.task, "said", "text")
    if follow is None or message_field not in model.Question.inputs or "history" not in model.Question.inputs:
        raise ValueError(f"{model.name}: its questions do not follow each other; ask it with regard predict")
    _questions.build(model.Question, {**fields, message_field: ""}, model.name)  # wrong fields are errors now
    turn_fields: dict[str, Any] = {}
    last = None
    for line in lines:
        if line.strip() == END:
            return
        if line.strip() == NEW:
            turn_fields, last = {}, None
            yield "(a new conversation)"
        elif line.strip() == HISTORY:
            yield turn_fields.get("history", "") or "(nothing was said yet)"
        elif line.strip() == LOOK:
            pictures: list[str] = [] if last is None else [picture.terminal() for picture in last.pictures]
            yield "\n".join([*([] if last is None else last.notes), *pictures]) or "(nothing was looked at)"
        else:
            question = model.Question(**{**fields, **turn_fields, message_field: line})
            (answer,) = model.ask([question])
            if isinstance(answer, ValueError):
                yield f"({answer})"
                continue
            last = dataclasses.replace(answer)
            turn_fields = {**turn_fields, **follow(question, answer.text)}
            yield answer.text


def _text(value: Any) -> Any:
    """A value, or the text of the file that it names: ``@story.txt``."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    with open(value[1:], encoding="utf-8-sig") as file:
        try:
            return file.read().strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"{value[1:]}: not text in UTF-8 ({error})") from None
