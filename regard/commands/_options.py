"""Options of a kind of system: the keyword parameters of its predictor's method, typed as ``key=value``."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

from regard.questions import REQUIRED, File, Input, Text

RENAMED = {"self": "own", "json": "as_json"}
"""What a flag was called before options were ``key=value`` → the option."""


class Option(NamedTuple):
    """What may be typed as ``key=value``: its type, its default if it has one, and a sentence about it."""

    kind: Any
    default: Any = None
    about: str = ""


def split(arguments: Sequence[str], accepted: Mapping[str, Option], name: str) -> tuple[list[str], dict[str, Any]]:
    """What was typed, split into words and options.

    A word with an equals sign is an option if its key is one of the accepted, or almost one. ``--key value`` is taken,
    too, as older versions had it.
    """
    from regard import _settings

    words, options, pending = [], {}, list(arguments)
    while pending:
        word = pending.pop(0)
        key, equals, value = word.partition("=")
        if equals and key not in accepted and RENAMED.get(key) in accepted:
            key = RENAMED[key]
        if word.startswith("--") and len(word) > 2:
            flag = key[2:].replace("-", "_")
            key = RENAMED.get(flag, flag)
            if key in accepted and not equals:
                value = "true" if bool in _types(accepted[key].kind) else pending.pop(0) if pending else ""
            word, equals = f"{key}={value}", "="
        elif not equals or not key.isidentifier() or (key not in accepted and not _like(key, accepted)):
            words.append(word)
            continue
        if key not in accepted:
            raise ValueError(unknown(key, accepted, name))
        options[key] = _settings.parse(value, accepted[key].kind, key)
    return words, options


def unknown(key: str, known: Mapping[str, Option], name: str) -> str:
    """That ``name`` takes no such option, and which it takes."""
    others = f"its options here: {', '.join(known)}" if known else "it takes none here"
    return f"{name} takes no option {key!r}; {_nearest(key, known)}{others}"


def of(method: Callable[..., Any], inputs: Callable[[], Mapping[str, Input]]) -> dict[str, Option]:
    """The options of a method: its keyword parameters and, if it takes ``**fields``, the fields of its kind's
    questions. The first field is the question itself, and an option only if it is a file: ``image=photo.jpg``."""
    parameters, hints = inspect.signature(method).parameters.values(), get_type_hints(method)
    arguments = (inspect.getdoc(method) or "").partition("Args:\n")[2]
    abouts = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", arguments, re.MULTILINE))
    options: dict[str, Option] = {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        for number, (name, field) in enumerate(inputs().items()):
            if not field.hidden and (number or isinstance(field, File)):
                default = None if field.default is REQUIRED or isinstance(field, File) else field.default
                about = " ".join(filter(None, [f"{field.title}." if field.title else "", field.about]))
                options[name] = Option(field.python | None if field.optional else field.python, default, about)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in hints:
            default = None if parameter.default is parameter.empty else parameter.default
            options[parameter.name] = Option(
                hints[parameter.name], default, " ".join(abouts.get(parameter.name, "").split())
            )
    return options


def describe(options: Mapping[str, Option], where: str) -> str:
    """Options, a line each."""
    from regard import _settings

    if not options:
        return f"{where} takes no options here."
    lines = [f"Options of {where}, as KEY=VALUE:"]
    for name, option in options.items():
        default = "" if option.default is None else option.default
        lines.append(f"  {f'{name}={default}':24}  {option.about or _settings.describe(option.kind)}")
    return "\n".join(lines)


METHODS = {"predict": "answer", "show": "look"}


def help_of(command: str, where: str) -> str:
    """The options that ``regard predict`` or ``regard show`` takes for a run or a shipped model; no weights are
    loaded."""
    from regard import registry, runs
    from regard._lazy import load

    folder = runs.folder_of(where)
    task = registry.task(registry.Recipe.read(folder / "recipe.toml").sections["task"]["name"])
    kind: Any = load("regard.predictors", task.kind)
    inputs: Mapping[str, Input] = kind.inputs(task.load(folder / "task")) if hasattr(kind, "inputs") else {}
    options = describe(of(getattr(kind, METHODS[command]), lambda: inputs), where)
    return "\n\n".join(filter(None, [_line(inputs) if command == "predict" else "", options]))


def _line(inputs: Mapping[str, Input]) -> str:
    """What a line of a file of questions is, where it is not simply a text."""
    needed = {name: each for name, each in inputs.items() if each.default is REQUIRED}
    main = next(iter(inputs.values()), None)
    if not isinstance(main, Text) or (len(needed) < 2 and main.rows <= 2):
        return ""
    wanted = ", ".join(f'"{name}": "…"' for name in needed)
    return f"A line of the input is JSON: {{{wanted}}}"


def print_help(arguments: Sequence[str]) -> bool:
    """Print what a model takes, for ``regard predict NAME --help``; False if the command's own help should follow."""
    if not arguments or arguments[0] not in ("predict", "show") or not {"-h", "--help"} & set(arguments):
        return False
    names = [word for word in arguments[1:] if not word.startswith("-")]
    if not names:
        return False
    try:
        text = help_of(arguments[0], names[0])
    except (ValueError, OSError):
        return False  # the command's own help, then
    print(text)
    print(f"\nregard {arguments[0]} --help tells the rest.", file=sys.stdout)
    return True


def _types(kind: Any) -> tuple[Any, ...]:
    from typing import get_args

    return get_args(kind) or (kind,)


def _like(key: str, names: Any) -> list[str]:
    return difflib.get_close_matches(key, list(names), n=1, cutoff=0.75)


def _nearest(key: str, names: Any) -> str:
    matches = _like(key, names) or difflib.get_close_matches(key, list(names), n=1, cutoff=0.5)
    return f"did you mean {matches[0]!r}? " if matches else ""
