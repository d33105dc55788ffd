"""Small worlds that write stories in bAbI's format (Weston et al. 2015, arXiv:1502.05698): tasks 1, 2, 3, 6, 15, 16.

People walk between rooms and carry things; animals fear each other; animals of one kind have one colour. The text is
like that of the real files, so that one reader serves both, and each answer follows from the sentences before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

PEOPLE = ("Mary", "John", "Daniel", "Sandra")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
MOVES = ("went to", "went back to", "moved to", "journeyed to", "travelled to")
TAKES = ("got the {}", "took the {}", "grabbed the {}", "picked up the {}")
DROPS = ("dropped the {}", "left the {}", "put down the {}", "discarded the {}")
NAMES = ("Bernhard", "Brian", "Greg", "Julius", "Lily")
KINDS = ("frog", "lion", "rhino", "swan")
COLOURS = ("gray", "green", "white", "yellow")
BEASTS = {"cat": "cats", "mouse": "mice", "sheep": "sheep", "wolf": "wolves"}
WOMEN = ("Emily", "Gertrude", "Jessica", "Winona")


class _House:
    """People who walk, take and drop, and the lines of their story."""

    def __init__(self, dice: random.Random, things: bool):
        self.dice, self.things = dice, things
        self.lines: list[str] = []
        self.at: dict[str, tuple[str, int]] = {}  # person → place, line
        self.holder: dict[str, str] = {}  # thing → person who has it
        self.touched: dict[str, int] = {}  # thing → line of the last taking or dropping
        # Where a thing has been: the place, the line that tells so, and who had it there.
        self.path: dict[str, list[tuple[str, int, str]]] = {thing: [] for thing in THINGS}

    def say(self, text: str) -> int:
        """Write a line; its number."""
        self.lines.append(f"{len(self.lines) + 1} {text}")
        return len(self.lines)

    def happen(self) -> None:
        person = self.dice.choice(PEOPLE)
        carried = [thing for thing, holder in self.holder.items() if holder == person]
        free = [thing for thing in THINGS if thing not in self.holder and self._within_reach(thing, person)]
        kind = self.dice.random()
        if self.things and person in self.at and carried and kind < 0.2:
            thing = self.dice.choice(carried)
            del self.holder[thing]
            self.touched[thing] = self.say(f"{person} {self.dice.choice(DROPS).format(thing)}{self._maybe_there()}.")
        elif self.things and person in self.at and free and kind < 0.5:
            thing = self.dice.choice(free)
            self.holder[thing] = person
            self.touched[thing] = self.say(f"{person} {self.dice.choice(TAKES).format(thing)}{self._maybe_there()}.")
            self.path[thing][-1:] = [(*self.at[person], person)]  # found where another had left it
        else:
            self._move(person, carried)

    def _move(self, person: str, carried: list[str]) -> None:
        place = self.dice.choice([place for place in PLACES if place != self.at.get(person, ("", 0))[0]])
        self.at[person] = place, self.say(f"{person} {self.dice.choice(MOVES)} the {place}.")
        for thing in carried:
            self.path[thing].append((*self.at[person], person))

    def carried(self, thing: str) -> bool:
        """Was its last way that of one person?"""
        return len(self.path[thing]) > 1 and self.path[thing][-1][2] == self.path[thing][-2][2]

    def _within_reach(self, thing: str, person: str) -> bool:
        """Nobody knows where a thing is before it was first taken, so it may be anywhere."""
        return not self.path[thing] or (person in self.at and self.path[thing][-1][0] == self.at[person][0])

    def _maybe_there(self) -> str:
        return self.dice.choice(("", " there"))

    def ask(self, question: str, answer: str, *support: int) -> None:
        self.say(f"{question}\t{answer}\t{' '.join(map(str, support))}")


def _where_is_she(dice: random.Random) -> list[str]:
    house = _House(dice, things=False)
    for _ in range(5):
        house.happen()
        house.happen()
        person = dice.choice(list(house.at))
        house.ask(f"Where is {person}?", house.at[person][0], house.at[person][1])
    return house.lines


def _where_is_it(dice: random.Random) -> list[str]:
    house = _House(dice, things=True)
    for _ in range(5):
        for _ in range(dice.randint(1, 4)):
            house.happen()
        while not house.touched:
            house.happen()
        thing = dice.choice(list(house.touched))
        place, line, _ = house.path[thing][-1]
        house.ask(f"Where is the {thing}?", place, house.touched[thing], line)
    return house.lines


def _where_was_it(dice: random.Random) -> list[str]:
    house = _House(dice, things=True)
    for _ in range(5):
        for _ in range(dice.randint(2, 8)):
            house.happen()
        while not (carried := [thing for thing in THINGS if house.carried(thing)]):
            house.happen()
        thing = dice.choice(carried)
        (before, first, _), (place, second, _) = house.path[thing][-2:]
        house.ask(f"Where was the {thing} before the {place}?", before, house.touched[thing], second, first)
    return house.lines


def _is_she_there(dice: random.Random) -> list[str]:
    house = _House(dice, things=False)
    for _ in range(5):
        house.happen()
        house.happen()
        person = dice.choice(list(house.at))
        place, line = house.at[person]
        right = dice.random() < 0.5
        room = place if right else dice.choice([other for other in PLACES if other != place])
        house.ask(f"Is {person} in the {room}?", "yes" if right else "no", line)
    return house.lines


def _afraid(dice: random.Random) -> list[str]:
    lines: list[str] = []
    feared = {beast: dice.choice([other for other in BEASTS if other != beast]) for beast in BEASTS}
    kinds = {woman: dice.choice(list(BEASTS)) for woman in WOMEN}
    facts: list[tuple[str, str]] = [("fear", beast) for beast in BEASTS] + [("kind", woman) for woman in WOMEN]
    dice.shuffle(facts)
    where: dict[str, int] = {}
    for kind, who in facts:
        where[who] = len(lines) + 1
        fear = f"{BEASTS[who].capitalize()} are afraid of {BEASTS[feared[who]]}." if kind == "fear" else ""
        lines.append(f"{len(lines) + 1} {fear or f'{who} is a {kinds[who]}.'}")
    for _ in range(4):
        woman = dice.choice(WOMEN)
        beast = kinds[woman]
        question = f"What is {woman.lower()} afraid of?\t{feared[beast]}\t{where[woman]} {where[beast]}"
        lines.append(f"{len(lines) + 1} {question}")
    return lines


def _colour(dice: random.Random) -> list[str]:
    names = dice.sample(NAMES, len(NAMES))
    subject, twin = names[:2]
    kinds = {name: dice.choice(KINDS) for name in names}
    kinds[twin] = kinds[subject]
    colours = dict(zip(KINDS, dice.sample(COLOURS, len(COLOURS))))
    facts = [f"{name} is a {kinds[name]}." for name in names]
    facts += [f"{name} is {colours[kinds[name]]}." for name in names if name != subject]
    dice.shuffle(facts)
    number = {fact: place for place, fact in enumerate(facts, 1)}
    lines = [f"{place} {fact}" for fact, place in number.items()]
    kind, colour = kinds[subject], colours[kinds[subject]]
    chain = f"{subject} is a {kind}.", f"{twin} is a {kind}.", f"{twin} is {colour}."
    support = " ".join(str(number[fact]) for fact in chain)
    lines.append(f"{len(lines) + 1} What color is {subject}?\t{colour}\t{support}")
    return lines


WORLDS: dict[int, tuple[str, Callable[[random.Random], list[str]]]] = {
    1: ("single-supporting-fact", _where_is_she),
    2: ("two-supporting-facts", _where_is_it),
    3: ("three-supporting-facts", _where_was_it),
    6: ("yes-no-questions", _is_she_there),
    15: ("basic-deduction", _afraid),
    16: ("basic-induction", _colour),
}


def generate(task: int, questions: int, dice: random.Random) -> Iterator[str]:
    """Lines of bAbI's format with at least N questions."""
    if task not in WORLDS:
        raise ValueError(f"task {task} cannot be generated, only {', '.join(map(str, WORLDS))}; others need the data")
    count = 0
    while count < questions:
        lines = WORLDS[task][1](dice)
        count += sum("\t" in line for line in lines)
        yield from lines
