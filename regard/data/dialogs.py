"""Dialogues of an agent that books tables: dialog-bAbI's format, and generated ones.

Bordes, Boureau & Weston 2017, *Learning End-to-End Goal-Oriented Dialog* (arXiv:1605.07683).

    1 hi⇥hello what can i help you with today
    2 <SILENCE>⇥api_call italian paris two cheap
    3 resto_paris_cheap_italian_2stars R_phone resto_paris_cheap_italian_2stars_phone

A numbered line is what the user said, a tab and what the agent said, or a fact; an empty line, or the number 1, begins
a new dialogue. A folder has ``dialog-babi-task1trn.txt`` and the like, ``dialog-babi-candidates.txt`` with all that an
agent may say, and ``dialog-babi-kb-all.txt`` with all facts, each also with ``.gz``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data import untrusted

SILENCE = "<SILENCE>"
CALL = "api_call"
SPLITS = {"train": "trn", "valid": "dev", "test": "tst"}
ASKED = ("R_cuisine", "R_location", "R_number", "R_price")
"""The relations that a call names, in its order."""


class Turn(NamedTuple):
    """What user and agent say; ``agent`` is empty if it is a fact. ``place`` is where it stands, for messages."""

    user: str
    agent: str
    place: str


Dialog = list[Turn]


class Fact(NamedTuple):
    """``resto_paris_cheap_italian_2stars R_price cheap``."""

    subject: str
    relation: str
    value: str


def parse(lines: Iterable[str], name: str) -> list[Dialog]:
    """The dialogues of a file."""
    dialogs: list[Dialog] = []
    last = 0
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            last = 0
            continue
        number, _, text = line.rstrip("\r\n").partition(" ")
        if not number.isdigit() or not text.strip():
            raise ValueError(f"{place}: a line is a number, a blank and what was said, not {line.strip()[:60]!r}")
        if int(number) == 1:
            dialogs.append([])
        elif not dialogs or int(number) != last + 1:
            raise ValueError(f"{place}: number {number} follows {last}; a dialogue counts from 1 without gaps")
        last = int(number)
        user, tab, agent = text.partition("\t")
        if tab and (not user.strip() or not agent.strip() or "\t" in agent):
            raise ValueError(
                f"{place}: a turn is what the user said, one tab and what the agent said; not {text[:60]!r}"
            )
        dialogs[-1].append(Turn(user.strip(), agent.strip(), place))
    if not any(turn.agent for dialog in dialogs for turn in dialog):
        raise ValueError(f"{name}: the agent says nothing in it")
    return dialogs


class Folder:
    """A folder in the published format."""

    def __init__(self, path: Path):
        if not path.is_dir():
            raise ValueError(f"{path}: not a folder with dialog-babi-task1trn.txt and the like")
        self.path = path

    def dialogs(self, task: int, split: str) -> list[Dialog]:
        """Those of one task."""
        name = f"dialog-babi-task{task}{SPLITS[split]}.txt"
        return parse(self._lines(name), str(self.path / name))

    def candidates(self) -> list[str]:
        """All that an agent may say."""
        name = "dialog-babi-candidates.txt"
        return [line.partition(" ")[2].strip() for line in self._lines(name) if line.strip()]

    def facts(self) -> list[Fact]:
        """All facts; none if there is no file of them."""
        name = "dialog-babi-kb-all.txt"
        if not any((self.path / file).exists() for file in (name, f"{name}.gz")):
            return []
        facts = []
        for count, line in enumerate(self._lines(name), 1):
            if not line.strip():
                continue
            words = line.split()[1:]
            if len(words) != 3:
                raise ValueError(
                    f"{self.path / name}, line {count}: a fact is three words after its number: {line!r:.80}"
                )
            facts.append(Fact(*words))
        return facts

    def _lines(self, name: str) -> list[str]:
        for path in (self.path / name, self.path / f"{name}.gz"):
            if path.exists():
                try:
                    return untrusted.read(path).decode("utf-8-sig").split("\n")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}: not text in UTF-8 ({error})") from None
        raise ValueError(f"{self.path}: there is no {name} in it")


def options(facts: Iterable[Fact], call: str) -> list[Fact]:
    """All facts about the restaurants that a call asks for, the worst rated first as in the published dialogues."""
    request = dict(zip(ASKED, call.split()[1:]))
    restaurants: dict[str, dict[str, str]] = {}
    for fact in facts:
        restaurants.setdefault(fact.subject, {})[fact.relation] = fact.value
    matches = []
    for subject, values in restaurants.items():
        if len(request) == len(ASKED) and all(values.get(relation) == value for relation, value in request.items()):
            matches += [Fact(subject, relation, value) for relation, value in values.items()]
    return matches


# ---------------------------------------------------------------------------------------------------------------------
# Generated dialogues

VALUES = {
    "R_cuisine": ("italian", "french", "indian", "thai"),
    "R_location": ("paris", "rome", "london"),
    "R_number": ("two", "four", "six"),
    "R_price": ("cheap", "moderate", "expensive"),
}
MADE = (1, 5)
"""Tasks that can be generated: 1 ends with a call, 5 goes on with its results."""
_ASK = {
    "R_cuisine": "any preference on a type of cuisine",
    "R_location": "where should it be",
    "R_number": "how many people would be in your party",
    "R_price": "which price range are you looking for",
}
_TELL = {
    "R_cuisine": ("i love {} food", "{} cuisine please"),
    "R_location": ("in {}", "{} please"),
    "R_number": ("for {} people", "we will be {}"),
    "R_price": ("in a {} price range", "something {}"),
}


def made_facts() -> list[Fact]:
    """Restaurants that do not exist: two for each cuisine, town and price."""
    dice, facts = random.Random("restaurants"), []
    for cuisine in VALUES["R_cuisine"]:
        for town in VALUES["R_location"]:
            for price in VALUES["R_price"]:
                number = dice.choice(VALUES["R_number"])
                for stars in dice.sample(range(1, 9), 2):
                    name = f"resto_{town}_{price}_{cuisine}_{stars}stars"
                    values = {"R_phone": f"{name}_phone", "R_cuisine": cuisine, "R_location": town}
                    values |= {"R_number": number, "R_price": price, "R_rating": str(stars)}
                    facts += [Fact(name, relation, value) for relation, value in values.items()]
    return facts


def made(task: int, count: int, dice: random.Random) -> list[Dialog]:
    """Dialogues like those of the published tasks."""
    if task not in MADE:
        raise ValueError(f"dialogues of task {task} are not generated: {' or '.join(map(str, MADE))} is, or name data")
    facts = made_facts()
    return [list(_dialog(task, facts, dice, f"generated dialogue {number}")) for number in range(1, count + 1)]


def _dialog(task: int, facts: list[Fact], dice: random.Random, place: str) -> Iterator[Turn]:
    restaurant = dice.choice(facts).subject
    values = {fact.relation: fact.value for fact in facts if fact.subject == restaurant}
    mentioned = [relation for relation in ASKED if dice.random() < 0.5]
    first = " ".join(
        ["can you book a table", *(dice.choice(_TELL[stated][:1]).format(values[stated]) for stated in mentioned)]
    )
    yield Turn(dice.choice(("hi", "hello", "good morning")), "hello what can i help you with today", place)
    yield Turn(first, "i'm on it", place)
    reply = SILENCE
    for relation in ASKED:
        if relation not in mentioned:
            yield Turn(reply, _ASK[relation], place)
            reply = dice.choice(_TELL[relation]).format(values[relation])
    yield Turn(reply, "ok let me look into some options for you", place)
    call = " ".join([CALL, *(values[relation] for relation in ASKED)])
    yield Turn(SILENCE, call, place)
    if task == 1:
        return
    matches = options(facts, call)
    yield from (Turn(" ".join(fact), "", place) for fact in matches)
    ratings = {fact.subject: int(fact.value) for fact in matches if fact.relation == "R_rating"}
    reply = SILENCE
    for name in sorted(ratings, key=lambda name: -ratings[name]):
        yield Turn(reply, f"what do you think of this option: {name}", place)
        if dice.random() < 0.5:
            break
        reply = "do you have something else"
    yield Turn("let's do it", "great let me do the reservation", place)
    yield Turn("what is the phone number", f"here it is {name}_phone", place)
    yield Turn("thank you", "you're welcome", place)


def made_candidates() -> list[str]:
    """All that the agent of a generated dialogue may say."""
    facts = made_facts()
    names = list(dict.fromkeys(fact.subject for fact in facts))
    calls: dict[str, None] = {}
    for name in names:
        values = {fact.relation: fact.value for fact in facts if fact.subject == name}
        calls[" ".join([CALL, *(values[relation] for relation in ASKED)])] = None
    fixed = ["hello what can i help you with today", "i'm on it", "ok let me look into some options for you"]
    fixed += [*_ASK.values(), "great let me do the reservation", "you're welcome"]
    offers = [f"what do you think of this option: {name}" for name in names]
    return [*fixed, *calls, *offers, *(f"here it is {name}_phone" for name in names)]
