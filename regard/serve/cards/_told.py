"""What the explorer shows of any answer beside its pictures."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from regard.serve.cards import Picture, Pictured
from regard.views import page

Seed = Annotated[int, Field(ge=0, le=9999)]


class Next(BaseModel):
    """A question that follows from an answer: what its button says, and the fields of the question that change."""

    label: str
    question: dict[str, Any]


class Told(Pictured):
    """An answer in one line, remarks on it, and where one could go from here."""

    text: str
    notes: list[str] = Field(default=[])
    next: list[Next] = Field(default=[])


def drawn(*views: page.View) -> list[Picture]:
    """Views as an answer carries them."""
    return [Picture(**page.encode(view)) for view in views]


def percent(share: float) -> str:
    """0.973 → ``97 %``."""
    return f"{100 * share:.0f} %"
