"""Values that come from outside (a command line, TOML, JSON) as the fields of a typed dataclass."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from regard._lazy import nearest

SYNONYMS = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "bs": "batch",
    "max_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "num_steps": "steps",
    "warmup_steps": "warmup",
    "grad_clip": "clip",
    "max_grad_norm": "clip",
    "early_stopping": "patience",
    "beam": "size",
    "beam_size": "size",
    "num_layers": "layers",
    "num_heads": "heads",
    "n_heads": "heads",
    "hidden_size": "hidden",
    "hidden_dim": "hidden",
    "d_model": "dim",
    "embed_dim": "embedding",
    "vocab_size": "vocab",
    "max_len": "max_length",
}
"""What other toolkits call a setting → what it is called here."""


def suggest(key: str, names: Any) -> str:
    """As :func:`regard._lazy.nearest`, for the names of settings."""
    synonym = SYNONYMS.get(key.lower().replace("-", "_"))
    if synonym == "batch" and "batch_tokens" in names:
        synonym = "batch_tokens"
    return f"did you mean {synonym!r}? known: {', '.join(sorted(names))}" if synonym in names else nearest(key, names)


def build(cls: type, values: Mapping[str, Any], where: str) -> Any:
    """``cls(**values)``; an unknown key, or a value of the wrong type, is an error that begins with ``where``."""
    kinds = get_type_hints(cls)
    fields = {field.name: kinds[field.name] for field in dataclasses.fields(cls)}
    for key, value in values.items():
        if key not in fields:
            raise ValueError(f"{where} has no setting {key!r}: {suggest(key, fields)}")
        if not fits(value, fields[key]):
            raise ValueError(f"{where}: {key} is {describe(fields[key])}, not {value!r}")
    needed = [field.name for field in dataclasses.fields(cls) if field.default is field.default_factory]
    if missing := [name for name in needed if name not in values]:
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    return cls(**values)


def fits(value: Any, kind: Any) -> bool:
    """Is a value read from a file of the type that a field declares? A list may stand for a tuple, 1 for 1.0."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in inner)
    if origin in (tuple, list):
        if not isinstance(value, tuple | list):
            return False
        kinds = [inner[0]] * len(value) if origin is list or inner[-1] is Ellipsis else list(inner)
        return len(kinds) == len(value) and all(map(fits, value, kinds))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Path:
        return isinstance(value, str | Path)
    return isinstance(value, origin or kind)


def mixed(value: Any) -> list[Any] | None:
    """A list within ``value``, which came from JSON, that holds items of several types; None if there is none."""
    if isinstance(value, dict):
        return next(filter(None, map(mixed, value.values())), None)
    if not isinstance(value, list):
        return None
    kinds = {float if type(item) is int else type(item) for item in value}
    return value if len(kinds) > 1 else next(filter(None, map(mixed, value)), None)


def at_least(config: Any, *names: str, **least: float) -> None:
    """A ValueError unless the settings of these names are at least 1, and others at least the number given for them.
    None passes."""
    for name, number in {**dict.fromkeys(names, 1), **least}.items():
        value = getattr(config, name)
        if value is not None and not value >= number:  # NaN does not pass
            raise ValueError(f"{name} must be at least {number}, not {value}")


_NAMES = {type(None): "none", int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def describe(kind: Any) -> str:
    """A type in words: ``a whole number or none``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(map(describe, inner))
    if origin in (tuple, list):
        return "a list of " + " and ".join(
            getattr(each, "__name__", describe(each)) for each in inner if each is not Ellipsis
        )
    return str(_NAMES.get(kind) or getattr(kind, "__name__", kind))


def parse(text: str, kind: Any, key: str) -> Any:
    """What was typed, as the type that the key has."""
    united = get_origin(kind) in (Union, types.UnionType)
    options = [option for option in (get_args(kind) if united else (kind,)) if option is not type(None)]
    if text.lower() in ("none", "null") and type(None) in get_args(kind):
        return None
    if bool in options and text.lower() in ("true", "false", "yes", "no", "on", "off"):
        return text.lower() in ("true", "yes", "on")
    if int in options or float in options:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        if isinstance(value, int) and not isinstance(value, bool):
            return value if int in options else float(value)
        if isinstance(value, float):
            if float in options:
                return value
            if value.is_integer():
                return int(value)
    if str in options or Path in options:
        return text
    for option in options:
        if get_origin(option) in (tuple, list):
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                break
            if fits(value, option):
                return list(value)
    raise ValueError(f"{key}={text}: {key} is {' or '.join(map(describe, options))}")
