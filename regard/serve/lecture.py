"""All pages of the explorer in the order of the lectures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from regard.serve.card import About
from regard.serve.sources import example
from regard.tasks.task import GRAPHS, LANGUAGE, MEMORY, SPEECH, VISION

TRANSFORMER = "The Transformer"
PARTS = ("The recipe", "Scores", LANGUAGE, TRANSFORMER, VISION, SPEECH, MEMORY, GRAPHS)


def part_of(system: str, family: str) -> str:
    """The part of the lectures that a system of a family belongs to."""
    return TRANSFORMER if system in ("transformer", "gpt", "bert") else family


def year_of(paper: str) -> int:
    """In which it came out."""
    match = re.search(r"\b((?:19|20)\d\d)\b", paper)
    return int(match[1]) if match else 9999


class Slide(BaseModel):
    """One page: its part of the lectures, its name in addresses, its title, and the example that shows the same."""

    part: str
    name: str
    title: str
    script: str = ""


def slides(models: Sequence[About], lessons: Sequence[Any]) -> list[Slide]:
    """The playground, lessons and models by their parts, models by year, and last the table of all systems."""
    deck = [Slide(part=PARTS[0], name="playground", title="Playground", script=example("weather_stations"))]
    deck += [Slide(part=lesson.part, name=lesson.name, title=lesson.title) for lesson in lessons]
    for about in sorted(models, key=lambda about: year_of(about.paper)):
        deck.append(Slide(part=part_of(about.system, about.family), name=about.name, title=about.title))
    order = {part: number for number, part in enumerate(PARTS)}
    deck.sort(key=lambda slide: order.get(slide.part, len(order)))
    return [*deck, Slide(part="All systems", name="principle", title="Same principle, different query, key, value")]
