"""Code that the server shows as text, so that a page can link to it without a network."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import regard
from regard import registry

ROOT = Path(regard.__file__).parents[1]


@cache
def systems() -> dict[str, Path]:
    """The file of each system."""
    return {name: Path(sys.modules[registry.system(name).__module__].__file__ or "") for name in registry.systems()}


@cache
def examples() -> dict[str, Path]:
    """The worked examples, where the package stands in its repository: ``examples/complexity.py`` → the file."""
    return {f"examples/{file.name}": file for file in sorted((ROOT / "examples").glob("[a-z]*.py"))}


def example(name: str) -> str:
    """``examples/NAME.py`` if it is there, else nothing."""
    return path if name and (path := f"examples/{name}.py") in examples() else ""


def address(system: str) -> str:
    """Where the code of a system is shown."""
    return f"source/{system.replace(':', '.')}.py"


def every() -> dict[str, Path]:
    """All addresses, with their files."""
    return {address(name): file for name, file in systems().items()} | {
        f"source/{name}": file for name, file in examples().items()
    }
