"""Options of a kind of system: the keyword parameters of its predictor's method, typed as ``key=value``."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

RENAMED = {"self": "own", "json": "as_json"}
"""What a flag was called before options were ``key=value`` → the option."""


def split(given: Sequence[str], method: Callable[..., Any], name: str) -> tuple[list[str], dict[str, Any]]:
    """What was typed, parted into words and the options that ``method`` takes.

    A word with an equals sign is an option if its key is one, or almost one. ``--key value`` is taken, too, as older
    versions had it.
    """
    from regard import _settings

    known = of(method)
    words, options, waiting = [], {}, list(given)
    while waiting:
        word = waiting.pop(0)
        key, equals, value = word.partition("=")
        if word.startswith("--") and len(word) > 2:
            flag = key[2:].replace("-", "_")
            key = RENAMED.get(flag, flag)
            if key in known and not equals:
                value = "true" if bool in _options(known[key]) else waiting.pop(0) if waiting else ""
            word, equals = f"{key}={value}", "="
        elif not equals or not key.isidentifier() or (key not in known and not _like(key, known)):
            words.append(word)
            continue
        if key not in known:
            others = f"its options here: {', '.join(known)}" if known else "it takes none here"
            raise ValueError(f"{name} takes no option {key!r}; {_nearest(key, known)}{others}")
        options[key] = _settings.parse(value, known[key], key)
    return words, options


def of(method: Callable[..., Any]) -> dict[str, Any]:
    """The options of a method and their types."""
    hints = get_type_hints(method)
    parameters = inspect.signature(method).parameters.values()
    return {each.name: hints[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY and each.name in hints}


def describe(method: Callable[..., Any], where: str) -> str:
    """The options of a method, a line each, with what its docstring says of them."""
    from regard import _settings

    text = inspect.getdoc(method) or ""
    told = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text.partition("Args:\n")[2], re.MULTILINE))
    defaults = inspect.signature(method).parameters
    lines = [f"Options of {where}, as KEY=VALUE:"]
    for name, kind in of(method).items():
        default = "" if defaults[name].default in (None, inspect.Parameter.empty) else defaults[name].default
        about = " ".join(told.get(name, _settings.describe(kind)).split())
        lines.append(f"  {f'{name}={default}':24}  {about}")
    return "\n".join(lines if len(lines) > 1 else [f"{where} takes no options here."])


def help_of(command: str, where: str) -> str:
    """The options that ``regard predict`` or ``regard show`` takes for a run or a shipped model; nothing is loaded."""
    from regard import registry, runs
    from regard._lazy import load

    recipe = registry.Recipe.read(runs.folder_of(where) / "recipe.toml")
    kind = load("regard.predictors", registry.task(recipe.sections["task"]["name"]).kind)
    return describe(getattr(kind, {"predict": "answer", "show": "look"}[command]), where)


def print_help(arguments: Sequence[str]) -> bool:
    """``regard predict NAME --help`` tells also what that model takes. Says whether it did."""
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


def _options(kind: Any) -> tuple[Any, ...]:
    from typing import get_args

    return get_args(kind) or (kind,)


def _like(key: str, known: Any) -> list[str]:
    return difflib.get_close_matches(key, list(known), n=1, cutoff=0.75)


def _nearest(key: str, known: Any) -> str:
    found = _like(key, known) or difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}? " if found else ""
