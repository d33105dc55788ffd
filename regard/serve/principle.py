"""Same principle, different query, key, value, score and normalizer: the table of all systems."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

from regard import registry
from regard.serve.card import described


class Looked(BaseModel):
    """One attention of a system, as the system declares it."""

    where: str
    query: str
    key: str
    value: str
    score: str
    normalizer: str
    rows: str
    columns: str


class System(BaseModel):
    """A system and all its attentions."""

    name: str
    sentence: str
    paper: str
    looks: list[Looked]


class Principle(BaseModel):
    """All systems that look at something."""

    systems: list[System]


@cache
def table() -> Principle:
    """The table of the lectures, from the code of the systems."""
    rows = []
    for name in registry.systems():
        looks = registry.system(name).uses
        sentence, paper = described(name)
        looked = [Looked(where=where, **look._asdict()) for where, look in looks.items()]
        rows += [System(name=name, sentence=sentence, paper=paper, looks=looked)] if looked else []
    return Principle(systems=rows)
