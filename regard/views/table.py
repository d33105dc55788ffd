"""A table of texts and numbers; a cell may have a share between 0 and 1, which is drawn as a shade.

``cells`` are rows of texts, ``shades`` as many rows of numbers or None. The first column names the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from regard.views.page import View
from regard.views.picture import Picture
from regard.views.text import pad

Shades = Sequence[Sequence[float | None]]


def terminal(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """As text."""
    lines = [columns, *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join("  ".join(pad(cell, width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def view(
    columns: Sequence[str], cells: Sequence[Sequence[str]], shades: Shades | None = None, *, title: str = ""
) -> View:
    """For the interactive page."""
    if any(len(row) != len(columns) for row in [*cells, *(shades or [])]):
        raise ValueError(f"each row of the table must have {len(columns)} cells")
    data = {"columns": list(columns), "cells": [list(row) for row in cells]}
    return View("table", title or "table", {**data, "shades": [list(row) for row in shades or []]})


def picture(
    columns: Sequence[str], cells: Sequence[Sequence[str]], shades: Shades | None = None, *, title: str = ""
) -> Picture:
    """The table in its forms."""
    return Picture(title, partial(terminal, columns, cells), partial(view, columns, cells, shades, title=title))
