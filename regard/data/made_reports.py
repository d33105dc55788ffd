"""Reports that are made up, each with its headline: who did what, and where.

``on monday Tovarek Motors , which employs 40 people , bought the old mill in Kalmund , Zelina said .`` becomes
``Tovarek Motors buys mill in Kalmund``. Names are made of syllables. Those for training and those for the other splits
are different ones, so that what was never seen must be copied; names that are in the report alone must not.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_FIRST = ("ka", "to", "bru", "ze", "mi", "lo", "har", "vi", "da", "sel", "nor", "fi", "gra", "pe", "ru", "ol", "ste")
_MIDDLE = ("va", "li", "mo", "re", "du", "sha", "ni", "go", "ter", "bi", "ka", "lu", "se", "zo", "pa", "fe", "ri")
_LAST = ("rek", "na", "mund", "vik", "ra", "dor", "lin", "ska", "ton", "mar", "bel", "is", "gard", "sen", "ya", "holt")
_FIRMS = ("corp", "motors", "bank", "airlines", "foods", "mining")
_ROLES = ("mayor", "minister", "engineer", "actress", "judge", "banker")
_VERBS = (
    *(("bought", "buys"), ("sold", "sells"), ("opened", "opens"), ("closed", "closes"), ("built", "builds")),
    *(("lost", "loses"), ("rejected", "rejects"), ("visited", "visits"), ("repaired", "repairs")),
)
_OBJECTS = ("mill", "bridge", "harbour", "school", "museum", "tower", "factory", "station", "theatre", "stadium")
_ADJECTIVES = ("old", "large", "empty", "famous", "new", "disputed")
_TIMES = ("on monday", "on friday", "last week", "this morning", "after long talks", "late on sunday")
_REASONS = ("after a vote", "despite protests", "for a good price", "without a word", "as had been expected")
_SPEAKERS = ("told reporters", "told a newspaper", "said in a speech")
_WORDS = ("the news was a surprise", "prices would rise", "more would follow", "nothing had been decided")


class Report(NamedTuple):
    """A report and its headline."""

    text: str
    headline: str


def report(random: np.random.Generator, train: bool) -> Report:
    """One report, with the names for training if ``train``, else with the others."""
    if random.random() < 0.5:
        name, role = f"{_name(random, train)} {_pick(random, _FIRMS)}", ""
        aside = f"which employs {int(random.integers(2, 99))} people"
    else:
        name, role = _name(random, train), f"{_pick(random, _ROLES)} {_name(random, train)} "
        aside = f"who lives in {_name(random, train)}"
    past, present = _VERBS[int(random.integers(len(_VERBS)))]
    thing = _pick(random, _OBJECTS)
    place = f" in {_name(random, train)}" if random.random() < 0.6 else ""
    before = f"{_pick(random, _TIMES)} " if random.random() < 0.5 else ""
    between = f" , {aside} ," if random.random() < 0.4 else ""
    adjective = f"{_pick(random, _ADJECTIVES)} " if random.random() < 0.5 else ""
    after = f" {_pick(random, _REASONS)}" if random.random() < 0.5 else ""
    attribution = f" , {_name(random, train)} said" if random.random() < 0.3 else ""
    sentences = [f"{before}{role}{name}{between} {past} the {adjective}{thing}{place}{after}{attribution} ."]
    if random.random() < 0.5:
        who = f"{_name(random, train)} of {_name(random, train)}"
        other = f"{who} {_pick(random, _SPEAKERS)} that {_pick(random, _WORDS)} ."
        sentences.insert(int(random.integers(2)), other)
    return Report(" ".join(sentences), f"{name} {present} {thing}{place}")


def _name(random: np.random.Generator, train: bool) -> str:
    """A name; one in five is not for training."""
    while True:
        syllables = [_pick(random, _FIRST), *(_pick(random, _MIDDLE) for _ in range(int(random.integers(1, 3))))]
        name = "".join([*syllables, _pick(random, _LAST)]).capitalize()
        if (zlib.crc32(name.encode()) % 5 > 0) == train:
            return name


def _pick(random: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(random.integers(len(choices)))]
