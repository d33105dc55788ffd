"""Trained systems in other programs' formats. One format, one file, which has a ``write(trained, folder)``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from regard._lazy import nearest

HERE = Path(__file__).parent


def formats() -> list[str]:
    """The names of the formats."""
    return sorted(file.stem for file in HERE.glob("[a-z]*.py"))


def write(trained: Any, to: str, folder: str | Path, **options: Any) -> None:
    """Write a trained system to a new folder in the format ``to``."""
    if to not in formats():
        raise ValueError(f"no format to export to is called {to!r}: {nearest(to, formats())}")
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} exists and is not empty")
    importlib.import_module(f"{__name__}.{to}").write(trained, folder, **options)
