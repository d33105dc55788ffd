"""All pages of the explorer in the order of the lectures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from regard.serve.card import About
from regard.tasks.task import GRAPHS, LANGUAGE, MEMORY, SPEECH, VISION

TRANSLATION, TRANSFORMER = "Translation and language", "The Transformer"
PARTS = ("The recipe", "Scores", TRANSLATION, TRANSFORMER, VISION, SPEECH, MEMORY, GRAPHS)


class Slide(BaseModel):
    """One page: its part of the lectures, its name in addresses, and its title."""

    part: str
    name: str
    title: str


def slides(models: Sequence[About], lessons: Sequence[Any]) -> list[Slide]:
    """The playground, lessons and models by their parts, and last the table of all systems."""
    found = [Slide(part=PARTS[0], name="playground", title="Playground")]
    found += [Slide(part=lesson.part, name=lesson.name, title=lesson.title) for lesson in lessons]
    for about in models:
        part = TRANSFORMER if about.family == LANGUAGE and about.system == "transformer" else about.family
        found.append(Slide(part=part, name=about.name, title=about.title))
    order = {part: number for number, part in enumerate(PARTS)}
    found.sort(key=lambda slide: order.get(slide.part, len(order)))
    return [*found, Slide(part="All systems", name="principle", title="Same principle, different query, key, value")]
