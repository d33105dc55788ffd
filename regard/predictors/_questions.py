"""Questions as one types them: lines of a file, files themselves, JSON objects, ``key=value``.

What a question is made of says how it is read. If a file is all that it needs, every picture of a folder is a question,
for example; if a line of text is, every line of a file; otherwise a file has a JSON object a line.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard import questions as inputs
from regard._lazy import nearest
from regard.data.untrusted import parse_json_line

CHUNK = 256
"""Questions that are read before the first is answered, and items that are held at once while a split is measured."""
Q = TypeVar("Q")
A = TypeVar("A")
PLACE_LENGTH = 80
"""Characters of a text that stands for itself in errors."""
EXAMPLE = "example"
"""The field that takes the number of a test item instead."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A question, and where it came from.

    Attributes:
        place: for errors, such as a file with a line; empty where there is only one.
        name: what stands before its answer where several files are answered.
        fields: the question's fields, for JSON.
        from_folder: whether its file is one of those of a folder.
        typed: whether its place is its text.
    """

    question: Any
    place: str = ""
    name: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    from_folder: bool = False
    typed: bool = False


def _fields(Question: Any) -> tuple[str, list[str]]:
    """The main field of a question, and the others that must be given."""
    main, *others = Question.inputs
    return main, [name for name in others if Question.inputs[name].default is inputs.REQUIRED]


def of_file(Question: Any, file: Path | None, fields: Mapping[str, Any]) -> Iterator[Entry]:
    """The questions of a file, or of standard input; ``fields`` hold for all of them. Fields may name the file, too, or
    the number of an example, and are then all of the question."""
    main, others = _fields(Question)
    missing = [name for name in others if name not in fields]
    main_input = Question.inputs[main]
    _check(Question, fields, "")
    if isinstance(main_input, inputs.File):
        if file is None and is_complete(Question, fields):
            yield from of_fields(Question, fields)
            return
        if main in fields:
            raise ValueError(f"{file} or {main}={fields[main]}: one of them")
        if file is None:
            raise ValueError(
                f"say which {main_input.what} or folder of them, {' '.join(main_input.suffixes)}, to answer"
            )
        yield from _files(Question, file, fields, missing)
    elif missing or (isinstance(main_input, inputs.Text) and main_input.rows > 2):
        hint = ", ".join(f'"{name}": "…"' for name in (main, *missing))
        yield from _objects(
            Question, lines(file, f"Type {{{hint}}}, one a line; Ctrl-D ends."), _file_name(file), fields
        )
    else:
        for number, line in enumerate(lines(file, "Type a line and press Enter; Ctrl-D ends."), 1):
            yield build(Question, {**fields, main: line}, f"{_file_name(file)}, line {number}")


def is_complete(Question: Any, fields: Mapping[str, Any]) -> bool:
    """Are fields a question by themselves: do they name a file, or an example in its place?"""
    main, _ = _fields(Question)
    return isinstance(Question.inputs[main], inputs.File) and (main in fields or EXAMPLE in fields)


def of_fields(Question: Any, fields: Mapping[str, Any]) -> Iterator[Entry]:
    """The question that :func:`is_complete` fields are; a folder is one for each of its files."""
    main, others = _fields(Question)
    if main in fields:
        rest = {name: value for name, value in fields.items() if name != main}
        yield from _files(Question, Path(fields[main]), rest, [name for name in others if name not in rest])
    else:
        yield build(Question, fields, "")


def of_word(Question: Any, word: str, fields: Mapping[str, Any]) -> Iterator[Entry]:
    """The questions that one word stands for: a text, a file, or the number of an example."""
    main, others = _fields(Question)
    missing = [name for name in others if name not in fields]
    main_input = Question.inputs[main]
    if word.isdecimal() and EXAMPLE in Question.inputs:
        yield build(Question, {**fields, EXAMPLE: int(word)}, word)
    elif isinstance(main_input, inputs.File):
        yield from _files(Question, Path(word), fields, missing)
    elif missing or (isinstance(main_input, inputs.Text) and main_input.rows > 2 and Path(word).is_file()):
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"{word}: not a file; also say {' and '.join(f'{name}=…' for name in missing)}")
        yield from _objects(Question, lines(path, ""), word, fields)
    elif is_text_file(word):
        yield from of_file(Question, Path(word), fields)
    else:
        place = word if len(word) <= PLACE_LENGTH else f"{word[: PLACE_LENGTH - 1]}…"
        entry = build(Question, {**fields, main: main_input.python(word)}, place)
        yield dataclasses.replace(entry, typed=True)


def is_text_file(word: str) -> bool:
    """Does a word name a file of lines? One without a suffix may well be a word."""
    return bool(Path(word).suffix) and "\n" not in word and exists(Path(word)) and Path(word).is_file()


def _files(Question: Any, path: Path, fields: Mapping[str, Any], missing: list[str]) -> Iterator[Entry]:
    main, _ = _fields(Question)
    main_input = Question.inputs[main]
    if missing:
        raise ValueError(f"also say {' and '.join(f'{name}=…' for name in missing)}")
    if path.is_dir() and not _holds_parts(path, main_input):
        contents = sorted(path.iterdir())
        paths = [
            file for file in contents if file.suffix.lower() in main_input.suffixes or _holds_parts(file, main_input)
        ]
        if not paths:
            raise ValueError(f"{path}: no {main_input.what} ({', '.join(main_input.suffixes)}) is in it")
    elif not path.exists():
        raise ValueError(f"{path}: no such file")
    else:
        paths = [path]
    for file in paths:
        question = Question(**{**fields, main: file})
        yield Entry(question, str(file), str(file), {main: str(file), **fields}, path.is_dir())


def _holds_parts(path: Path, file_input: inputs.File) -> bool:
    """Does one folder hold one thing that can be asked about, such as a clip with a picture for each frame?"""
    return (
        bool(file_input.parts)
        and path.is_dir()
        and any(part.suffix.lower() in file_input.parts for part in path.iterdir())
    )


def _objects(Question: Any, json_lines: Iterator[str], place: str, fields: Mapping[str, Any]) -> Iterator[Entry]:
    """A JSON object a line."""
    for number, line in enumerate(json_lines, 1):
        if not line.strip():
            continue
        line_place = f"{place}, line {number}"
        values = parse_json_line(line, line_place) if line.lstrip().startswith(("{", "[")) else None
        if not isinstance(values, dict):
            wanted = ", ".join(f'"{key}": "…"' for key in _needed(Question, fields))
            raise ValueError(f"{line_place}: a line is {{{wanted}}}, not {line[:40]!r}")
        for name in values:
            if name not in Question.inputs:
                raise ValueError(f"{line_place}: a question has no {name!r}: {nearest(name, Question.inputs)}")
        values = {name: _joined(value, Question.inputs[name]) for name, value in values.items()}
        yield build(Question, {**fields, **values}, line_place)


def _needed(Question: Any, fields: Mapping[str, Any]) -> list[str]:
    main, others = _fields(Question)
    return [main, *(name for name in others if name not in fields)]


def _joined(value: Any, expected: inputs.Input) -> Any:
    """A list of texts as the lines of a field that has several."""
    several = isinstance(expected, inputs.Text) and expected.rows > 2 and isinstance(value, list)
    return "\n".join(value) if several and all(isinstance(each, str) for each in value) else value


def build(Question: Any, values: Mapping[str, Any], place: str) -> Entry:
    """The question that values make; a ValueError names the one that is missing or does not fit."""
    if values.get(EXAMPLE) is not None:  # which stands for all that would have to be typed
        required = (name for name, expected in Question.inputs.items() if expected.default is inputs.REQUIRED)
        values = {**dict.fromkeys(required, ""), **values}
    prefix = f"{place}: " if place else ""
    for name, expected in Question.inputs.items():
        if name not in values and expected.default is inputs.REQUIRED:
            raise ValueError(f"{prefix}{name!r} is missing")
    _check(Question, values, prefix)
    return Entry(Question(**values), place, fields=dict(values))


def _check(Question: Any, values: Mapping[str, Any], prefix: str) -> None:
    """A ValueError names the first value that does not fit its field."""
    for name, expected in Question.inputs.items():
        if name in values and not _fits(values[name], expected):
            raise ValueError(f"{prefix}{name} is {_description(expected)}, not {values[name]!r}")


def _fits(value: Any, expected: inputs.Input) -> bool:
    if value is None:
        return expected.optional
    match expected:
        case inputs.Number():
            return isinstance(value, int) and not isinstance(value, bool) and expected.least <= value <= expected.most
        case inputs.Flag():
            return isinstance(value, bool)
        case inputs.Choice():
            return value in expected.names
        case inputs.Text():
            return isinstance(value, str)
    return True


def _description(expected: inputs.Input) -> str:
    match expected:
        case inputs.Number():
            return f"a whole number from {expected.least} to {expected.most}"
        case inputs.Flag():
            return "true or false"
        case inputs.Choice():
            return f"one of {', '.join(expected.names)}"
    return "text"


def exists(file: Path) -> bool:
    """Is there such a file? A text may be too long to be the name of one."""
    try:
        return file.exists()
    except OSError:
        return False


def _file_name(file: Path | None) -> str:
    return str(file or "standard input")


def answer_all(
    questions: Iterator[Q],
    ask: Callable[[list[Q]], Sequence[A | ValueError]],
    place: Callable[[Q], str],
    interactive: bool,
) -> Iterator[tuple[Q, A | None, str]]:
    """Each question with its answer, or with None and what is wrong with it, which stderr says too. In the end a
    ValueError says how many had no answer. What is wrong with all of the first ones alike, or with a question alone, is
    raised instead.

    Args:
        ask: answers several at once.
        place: where a question stands, for errors.
        interactive: someone types the questions at a terminal and waits for each answer.
    """
    total, failures = 0, 0
    while chunk := list(itertools.islice(questions, 1 if interactive else CHUNK)):
        answers = ask(chunk)
        same_error = len({str(answer) for answer in answers if isinstance(answer, ValueError)}) == 1
        if not total and not interactive and same_error and all(isinstance(answer, ValueError) for answer in answers):
            raise ValueError(error_at(place(chunk[0]), answers[0]))
        for question, answer in zip(chunk, answers, strict=True):
            total += 1
            if isinstance(answer, ValueError):
                failures += 1
                message = error_at(place(question), answer)
                print(message, file=sys.stderr)
                yield question, None, message
            else:
                yield question, answer, ""
    if failures and not interactive:
        raise ValueError(f"{failures} of {total} questions have no answer; why is said above")


def error_at(place: str, error: object) -> str:
    """What is wrong and where, with the place once."""
    return str(error) if not place or str(error).startswith(f"{place}:") else f"{place}: {error}"


def is_interactive(file: Path | None) -> bool:
    """Does someone at a terminal type the questions?"""
    return file is None and sys.stdin is not None and sys.stdin.isatty()


def lines(file: Path | None, hint: str) -> Iterator[str]:
    """The lines of a file or of standard input; someone at a terminal is told what to type."""
    if file is None and sys.stdin is None:
        raise ValueError("standard input is closed: name a file")
    if file is not None and not exists(file):
        key, equals, _ = str(file).partition("=")
        if equals and key.isidentifier():
            raise ValueError(
                f"there is no option {key!r}, nor a file {str(file)!r}; regard predict RUN --help names all"
            )
        raise ValueError(f"there is no file {str(file)!r}; a text itself comes by standard input: echo … | regard …")
    if file is None and sys.stdin.isatty():
        print(hint, file=sys.stderr)
    with file.open(encoding="utf-8") if file else sys.stdin as source:
        try:
            for number, line in enumerate(source):
                yield (line if number else line.removeprefix("\ufeff")).rstrip("\n")  # no byte order mark
        except UnicodeDecodeError as error:
            raise ValueError(f"{file or 'standard input'}: not text in UTF-8 ({error})") from None
