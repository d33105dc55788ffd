"""Names that load when they are first used (PEP 562), and folders that are registries.

``regard.scores.ScaledDot`` lives in ``regard/scores/scaled_dot.py``: the file is named after the class. Adding a part
is therefore adding a file; nothing else has to know. The ``.pyi`` beside each ``__init__`` tells type checkers the
same; it is written by :func:`stub`, and a test keeps it equal to the folder.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def snake(name: str) -> str:
    """``MLPDot`` → ``mlp_dot``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _squash(name: str) -> str:
    """What ``RNNsearch`` and ``rnnsearch``, ``MLPDot`` and ``mlp_dot`` have in common."""
    return name.replace("_", "").lower()


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A clause for error messages: the name that was probably meant, and all the names there are."""
    options = sorted(candidates)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(options)}"


def names(package: str) -> list[str]:
    """The names of the files of a folder package, without importing them. Not listed are folders, ``_private`` files
    and the one that holds what its members have in common, such as ``tasks/task.py``."""
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__)
    common = package.rpartition(".")[2].removesuffix("s")
    return sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_") and m.name != common)


def load(package: str, name: str) -> type:
    """The class that the file ``name`` of a folder package is named after."""
    module = importlib.import_module(f"{package}.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and _squash(value.__name__) == _squash(name):
            return value
    raise ImportError(f"{package.replace('.', '/')}/{name}.py must define the class that it is named after")


def folder(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package in which each file is one part."""

    def __getattr__(attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        members = names(package)
        if attribute in members:
            return importlib.import_module(f"{package}.{attribute}")
        for name in members:
            if _squash(name) == _squash(attribute) and (cls := load(package, name)).__name__ == attribute:
                setattr(sys.modules[package], attribute, cls)
                return cls
        classes = [load(package, name).__name__ for name in members]
        raise AttributeError(f"{package} has no {attribute!r}: {nearest(attribute, classes)}")

    def __dir__() -> list[str]:
        return sorted(load(package, name).__name__ for name in names(package))

    return __getattr__, __dir__


def front(
    package: str, homes: Mapping[str, tuple[str, ...]], rooms: tuple[str, ...]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package that shows names of its modules (``homes``) and modules
    (``rooms``).
    """
    where = {name: module for module, shown in homes.items() for name in shown}

    def __getattr__(attribute: str) -> Any:
        if attribute in where:
            member = getattr(importlib.import_module(f"{package}.{where[attribute]}"), attribute)
        elif attribute in rooms:
            member = importlib.import_module(f"{package}.{attribute}")
        elif attribute.startswith("_"):
            raise AttributeError(attribute)
        else:
            raise AttributeError(f"{package} has no {attribute!r}: {nearest(attribute, [*where, *rooms])}")
        setattr(sys.modules[package], attribute, member)
        return member

    def __dir__() -> list[str]:
        return sorted([*where, *rooms])

    return __getattr__, __dir__


def stub(package: str) -> str:
    """The text of the ``__init__.pyi`` of a folder package."""
    lines = [
        f"from {package}.{name} import {cls} as {cls}\n"
        for name in names(package)
        for cls in [load(package, name).__name__]
    ]
    return _STUB_HEAD + "".join(lines)


def front_stub(package: str, homes: Mapping[str, tuple[str, ...]], rooms: tuple[str, ...]) -> str:
    """The text of the ``__init__.pyi`` of a package made by :func:`front`."""
    lines = [f"from {package} import {room} as {room}\n" for room in sorted(rooms)]
    lines += [f"from {package}.{home} import {name} as {name}\n" for home in sorted(homes) for name in homes[home]]
    return _STUB_HEAD + "".join(lines) + "\n__version__: str\n"


_STUB_HEAD = "# Written by tools/stubs.py; tests keep it equal to the folder.\n"
