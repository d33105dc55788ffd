"""Pages of the explorer that need no trained model, one a file: a question, computed live by the library, and pictures.

A lesson is a file here with a class ``Lesson`` in it; the folder is the list.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def every() -> list[Any]:
    """All lessons, in the order in which they are taught."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "lesson"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return sorted((module.Lesson() for module in modules), key=lambda lesson: lesson.order)
