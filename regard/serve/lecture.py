"""All pages of the explorer in the order of the lectures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from regard.serve.card import About
from regard.tasks.task import GRAPHS, LANGUAGE, MEMORY, SPEECH, VISION

TRANSFORMER = "The Transformer"
PARTS = ("The recipe", "Scores", LANGUAGE, TRANSFORMER, VISION, SPEECH, MEMORY, GRAPHS)


def part_of(system: str, family: str) -> str:
    """The part of the lectures that a system of a family belongs to."""
    return TRANSFORMER if system == "transformer" else family


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
        found.append(Slide(part=part_of(about.system, about.family), name=about.name, title=about.title))
    order = {part: number for number, part in enumerate(PARTS)}
    found.sort(key=lambda slide: order.get(slide.part, len(order)))
    return [*found, Slide(part="All systems", name="principle", title="Same principle, different query, key, value")]
