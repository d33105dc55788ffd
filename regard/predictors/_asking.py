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
NAMED = 80
"""Characters of a text that stands for itself in errors."""
EXAMPLE = "example"
"""The field that takes the number of a test item instead."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question, and where it came from.

    Attributes:
        place: for errors, such as a file with a line; empty where there is only one.
        name: what stands before its answer where several files are answered.
        given: the question's fields, for JSON.
        many: whether it is one of several files.
        typed: whether its place is its text.
    """

    question: Any
    place: str = ""
    name: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    many: bool = False
    typed: bool = False


def _fields(Question: Any) -> tuple[str, list[str]]:
    """The main field of a question, and the others that must be given."""
    main, *others = Question.inputs
    return main, [name for name in others if Question.inputs[name].default is inputs.REQUIRED]


def questions(Question: Any, file: Path | None, fields: Mapping[str, Any]) -> Iterator[Asked]:
    """The questions of a file, or of standard input; ``fields`` hold for all of them. Fields may name the file, too, or
    the number of an example, and are then all of the question."""
    main, others = _fields(Question)
    missing = [name for name in others if name not in fields]
    given = Question.inputs[main]
    _check(Question, fields, "")
    if isinstance(given, inputs.File):
        if file is None and whole(Question, fields):
            yield from alone(Question, fields)
            return
        if main in fields:
            raise ValueError(f"{file} or {main}={fields[main]}: one of them")
        if file is None:
            raise ValueError(f"say which {given.what} or folder of them, {' '.join(given.suffixes)}, to answer")
        yield from _files(Question, file, fields, missing)
    elif missing or (isinstance(given, inputs.Text) and given.rows > 2):
        hint = ", ".join(f'"{name}": "…"' for name in (main, *missing))
        yield from _objects(Question, lines(file, f"Type {{{hint}}}, one a line; Ctrl-D ends."), _named(file), fields)
    else:
        for number, line in enumerate(lines(file, "Type a line and press Enter; Ctrl-D ends."), 1):
            yield asked(Question, {**fields, main: line}, f"{_named(file)}, line {number}")


def whole(Question: Any, fields: Mapping[str, Any]) -> bool:
    """Are fields a question by themselves: do they name a file, or an example in its place?"""
    main, _ = _fields(Question)
    return isinstance(Question.inputs[main], inputs.File) and (main in fields or EXAMPLE in fields)


def alone(Question: Any, fields: Mapping[str, Any]) -> Iterator[Asked]:
    """The question that :func:`whole` fields are; a folder is one for each of its files."""
    main, others = _fields(Question)
    if main in fields:
        rest = {name: value for name, value in fields.items() if name != main}
        yield from _files(Question, Path(fields[main]), rest, [name for name in others if name not in rest])
    else:
        yield asked(Question, fields, "")


def named(Question: Any, word: str, fields: Mapping[str, Any]) -> Iterator[Asked]:
    """The questions that one word stands for: a text, a file, or the number of an example."""
    main, others = _fields(Question)
    missing = [name for name in others if name not in fields]
    given = Question.inputs[main]
    if word.isdecimal() and EXAMPLE in Question.inputs:
        yield asked(Question, {**fields, EXAMPLE: int(word)}, word)
    elif isinstance(given, inputs.File):
        yield from _files(Question, Path(word), fields, missing)
    elif missing or (isinstance(given, inputs.Text) and given.rows > 2 and Path(word).is_file()):
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"{word}: not a file; also say {' and '.join(f'{name}=…' for name in missing)}")
        yield from _objects(Question, lines(path, ""), word, fields)
    elif is_text_file(word):
        yield from questions(Question, Path(word), fields)
    else:
        place = word if len(word) <= NAMED else f"{word[: NAMED - 1]}…"
        yield dataclasses.replace(asked(Question, {**fields, main: given.python(word)}, place), typed=True)


def is_text_file(word: str) -> bool:
    """Does a word name a file of lines? One without a suffix may well be a word."""
    return bool(Path(word).suffix) and "\n" not in word and there(Path(word)) and Path(word).is_file()


def _files(Question: Any, path: Path, fields: Mapping[str, Any], missing: list[str]) -> Iterator[Asked]:
    main, _ = _fields(Question)
    given = Question.inputs[main]
    if missing:
        raise ValueError(f"also say {' and '.join(f'{name}=…' for name in missing)}")
    if path.is_dir() and not _whole(path, given):
        inside = sorted(path.iterdir())
        found = [each for each in inside if each.suffix.lower() in given.suffixes or _whole(each, given)]
        if not found:
            raise ValueError(f"{path}: no {given.what} ({', '.join(given.suffixes)}) is in it")
    elif not path.exists():
        raise ValueError(f"{path}: no such file")
    else:
        found = [path]
    for each in found:
        question = Question(**{**fields, main: each})
        yield Asked(question, str(each), str(each), {main: str(each), **fields}, path.is_dir())


def _whole(path: Path, given: inputs.File) -> bool:
    """Is a folder one thing that can be asked about, such as a clip with a picture for each frame?"""
    return bool(given.parts) and path.is_dir() and any(each.suffix.lower() in given.parts for each in path.iterdir())


def _objects(Question: Any, typed: Iterator[str], place: str, fields: Mapping[str, Any]) -> Iterator[Asked]:
    """A JSON object a line."""
    for number, line in enumerate(typed, 1):
        if not line.strip():
            continue
        where = f"{place}, line {number}"
        values = parse_json_line(line, where) if line.lstrip().startswith(("{", "[")) else None
        if not isinstance(values, dict):
            wanted = ", ".join(f'"{key}": "…"' for key in _needed(Question, fields))
            raise ValueError(f"{where}: a line is {{{wanted}}}, not {line[:40]!r}")
        for name in values:
            if name not in Question.inputs:
                raise ValueError(f"{where}: a question has no {name!r}: {nearest(name, Question.inputs)}")
        values = {name: _joined(value, Question.inputs[name]) for name, value in values.items()}
        yield asked(Question, {**fields, **values}, where)


def _needed(Question: Any, fields: Mapping[str, Any]) -> list[str]:
    main, others = _fields(Question)
    return [main, *(name for name in others if name not in fields)]


def _joined(value: Any, given: inputs.Input) -> Any:
    """A list of texts as the lines of a field that has several."""
    several = isinstance(given, inputs.Text) and given.rows > 2 and isinstance(value, list)
    return "\n".join(value) if several and all(isinstance(each, str) for each in value) else value


def asked(Question: Any, values: Mapping[str, Any], place: str) -> Asked:
    """The question that values make; a ValueError names the one that is missing or does not fit."""
    if values.get(EXAMPLE) is not None:  # which stands for all that would have to be typed
        needed = (name for name, given in Question.inputs.items() if given.default is inputs.REQUIRED)
        values = {**dict.fromkeys(needed, ""), **values}
    where = f"{place}: " if place else ""
    for name, given in Question.inputs.items():
        if name not in values and given.default is inputs.REQUIRED:
            raise ValueError(f"{where}{name!r} is missing")
    _check(Question, values, where)
    return Asked(Question(**values), place, given=dict(values))


def _check(Question: Any, values: Mapping[str, Any], where: str) -> None:
    """A ValueError names the first value that does not fit its field."""
    for name, given in Question.inputs.items():
        if name in values and not _fits(values[name], given):
            raise ValueError(f"{where}{name} is {_described(given)}, not {values[name]!r}")


def _fits(value: Any, given: inputs.Input) -> bool:
    if value is None:
        return given.optional
    match given:
        case inputs.Number():
            return isinstance(value, int) and not isinstance(value, bool) and given.least <= value <= given.most
        case inputs.Flag():
            return isinstance(value, bool)
        case inputs.Choice():
            return value in given.names
        case inputs.Text():
            return isinstance(value, str)
    return True


def _described(given: inputs.Input) -> str:
    match given:
        case inputs.Number():
            return f"a whole number from {given.least} to {given.most}"
        case inputs.Flag():
            return "true or false"
        case inputs.Choice():
            return f"one of {', '.join(given.names)}"
    return "text"


def there(file: Path) -> bool:
    """Is there such a file? A text may be too long to be the name of one."""
    try:
        return file.exists()
    except OSError:
        return False


def _named(file: Path | None) -> str:
    return str(file or "standard input")


def answered(
    asked: Iterator[Q], ask: Callable[[list[Q]], Sequence[A | ValueError]], place: Callable[[Q], str], typed: bool
) -> Iterator[tuple[Q, A | None, str]]:
    """Each question with its answer, or with None and what is wrong with it, which stderr says too. In the end a
    ValueError says how many had no answer. What is wrong with all of the first ones alike, or with a question alone, is
    raised instead.

    Args:
        ask: answers several at once.
        place: where a question stands, for errors.
        typed: by someone at a terminal, who waits for each answer.
    """
    count, wrong = 0, 0
    while group := list(itertools.islice(asked, 1 if typed else CHUNK)):
        answers = ask(group)
        alike = len({str(found) for found in answers if isinstance(found, ValueError)}) == 1
        if not count and not typed and alike and all(isinstance(found, ValueError) for found in answers):
            raise ValueError(placed(place(group[0]), answers[0]))
        for one, found in zip(group, answers, strict=True):
            count += 1
            if isinstance(found, ValueError):
                wrong += 1
                error = placed(place(one), found)
                print(error, file=sys.stderr)
                yield one, None, error
            else:
                yield one, found, ""
    if wrong and not typed:
        raise ValueError(f"{wrong} of {count} questions have no answer; why is said above")


def placed(place: str, error: object) -> str:
    """What is wrong and where, which is said once."""
    return str(error) if not place or str(error).startswith(f"{place}:") else f"{place}: {error}"


def typing(file: Path | None) -> bool:
    """Does someone at a terminal type the questions?"""
    return file is None and sys.stdin is not None and sys.stdin.isatty()


def lines(file: Path | None, hint: str) -> Iterator[str]:
    """The lines of a file or of standard input; someone at a terminal is told what to type."""
    if file is None and sys.stdin is None:
        raise ValueError("standard input is closed: name a file")
    if file is not None and not there(file):
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
