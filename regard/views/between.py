"""The picture of weights between two axes, whatever stands along them.

A view that draws weights over an axis has a function ``between(sides, columns, title=…)``; the axis names the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from regard.axes import Axis
from regard.views.picture import Picture


class Side(NamedTuple):
    """What stands along the rows, and its weights.

    Attributes:
        rows: T labels.
        weights: (T, S), over the columns that all sides share.
        score: how good the system finds it, larger is better; where there are alternatives.
    """

    rows: Axis
    weights: Any
    score: float | None = None


def picture(sides: Sequence[Side], columns: Axis, *, title: str = "") -> Picture:
    """Alternative answers over the same columns, the best first."""
    return import_module(f"regard.views.{columns.view}").between(sides, columns, title=title)
