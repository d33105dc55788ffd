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


def split(given: Sequence[str], known: Mapping[str, Option], name: str) -> tuple[list[str], dict[str, Any]]:
    """What was typed, split into words and options.

    A word with an equals sign is an option if its key is one, or almost one. ``--key value`` is taken, too, as older
    versions had it.
    """
    from regard import _settings

    words, options, waiting = [], {}, list(given)
    while waiting:
        word = waiting.pop(0)
        key, equals, value = word.partition("=")
        if equals and key not in known and RENAMED.get(key) in known:
            key = RENAMED[key]
        if word.startswith("--") and len(word) > 2:
            flag = key[2:].replace("-", "_")
            key = RENAMED.get(flag, flag)
            if key in known and not equals:
                value = "true" if bool in _types(known[key].kind) else waiting.pop(0) if waiting else ""
            word, equals = f"{key}={value}", "="
        elif not equals or not key.isidentifier() or (key not in known and not _like(key, known)):
            words.append(word)
            continue
        if key not in known:
            raise ValueError(unknown(key, known, name))
        options[key] = _settings.parse(value, known[key].kind, key)
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
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        for number, (name, each) in enumerate(inputs().items()):
            if not each.hidden and (number or isinstance(each, File)):
                default = None if each.default is REQUIRED or isinstance(each, File) else each.default
                about = " ".join(filter(None, [f"{each.title}." if each.title else "", each.about]))
                options[name] = Option(each.python | None if each.optional else each.python, default, about)
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and one.name in hints:
            default = None if one.default is one.empty else one.default
            options[one.name] = Option(hints[one.name], default, " ".join(abouts.get(one.name, "").split()))
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
    named = [word for word in arguments[1:] if not word.startswith("-")]
    if not named:
        return False
    try:
        text = help_of(arguments[0], named[0])
    except (ValueError, OSError):
        return False  # the command's own help, then
    print(text)
    print(f"\nregard {arguments[0]} --help tells the rest.", file=sys.stdout)
    return True


def _types(kind: Any) -> tuple[Any, ...]:
    from typing import get_args

    return get_args(kind) or (kind,)


def _like(key: str, known: Any) -> list[str]:
    return difflib.get_close_matches(key, list(known), n=1, cutoff=0.75)


def _nearest(key: str, known: Any) -> str:
    matches = _like(key, known) or difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    return f"did you mean {matches[0]!r}? " if matches else ""
