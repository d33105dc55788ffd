"""Generated scenes: coloured shapes on a canvas, with every true caption, label and answer.

A scene has one to three objects, or up to eight, (circle, square, triangle or cross in one of six colours) in different
cells of a 4 × 4 grid, no two of them of the same shape and colour. For each there is a box, so that it can be measured
whether a system looks where the object is. What can be said of a scene:

    captions     a red circle · a red circle left of a blue square · … and above a green cross
    labels       red circle, blue square: a set
    questions    is there a red circle? · what colour is the square? · what shape is just left of the red circle?

Captions begin with any of the objects, so that the order of words does not give away where to look; all true ones are
listed, as references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, permutations, product
from typing import NamedTuple

import numpy as np

SHAPES = ("circle", "square", "triangle", "cross")
COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (40, 80, 220),
    "yellow": (235, 205, 40),
    "purple": (150, 50, 190),
    "cyan": (40, 190, 210),
}
RELATIONS = ("left of", "right of", "above", "below")
GRID = 4
"""Cells a side, one object at most in each."""
MOST = 8
"""Objects of the fullest scene."""

Box = tuple[float, float, float, float]


class Thing(NamedTuple):
    """An object of a scene. ``box`` is left, top, right and bottom as shares of the canvas."""

    shape: str
    colour: str
    row: int
    column: int
    box: Box

    @property
    def name(self) -> str:
        """``red circle``."""
        return f"{self.colour} {self.shape}"


class Question(NamedTuple):
    """``kind`` is ``exist``, ``colour``, ``shape`` or ``relation``; ``about`` are the numbers of the objects that must
    be looked at, in this order."""

    text: str
    answer: str
    kind: str
    about: tuple[int, ...] = ()


class Scene(NamedTuple):
    """Pixels (3, size, size), bytes, and the objects on them."""

    image: np.ndarray
    things: tuple[Thing, ...]


def draw(random: np.random.Generator, size: int = 48, most: int = 3, least: int = 1) -> Scene:
    """A new scene of ``least`` to ``most`` objects on ``size`` × ``size`` pixels."""
    check(size, most, least)
    count = int(random.integers(least, most + 1))
    kinds = random.choice(len(SHAPES) * len(COLOURS), count, replace=False)
    cells = random.choice(GRID * GRID, count, replace=False)
    cell = size // GRID
    image = np.empty((3, size, size), np.float32)
    image[:] = random.uniform(200, 250)  # paper of some grey
    things = []
    for kind, place in zip(kinds.tolist(), cells.tolist()):
        shape, colour = SHAPES[kind % len(SHAPES)], list(COLOURS)[kind // len(SHAPES)]
        row, column = divmod(place, GRID)
        side = int(random.integers(cell - cell // 4, cell + 1))
        top, left = (int(random.integers(first * cell, (first + 1) * cell - side + 1)) for first in (row, column))
        paint = np.asarray(COLOURS[colour], np.float32) + random.uniform(-20, 20, 3).astype(np.float32)
        spot = image[:, top : top + side, left : left + side]
        np.copyto(spot, paint[:, None, None], where=stencil(shape, side))
        box = (left / size, top / size, (left + side) / size, (top + side) / size)
        things.append(Thing(shape, colour, row, column, box))
    image += random.standard_normal(image.shape, np.float32) * 6
    return Scene(image.clip(0, 255).astype(np.uint8), tuple(things))


def check(size: int, most: int, least: int = 1) -> None:
    """Can such scenes be drawn?"""
    if size < 8 * GRID:
        raise ValueError(f"a scene has at least {8 * GRID} pixels a side, not {size}")
    if not 1 <= least <= most <= MOST:
        raise ValueError(f"a scene has 1 to {MOST} objects, not {least} to {most}")


@cache
def stencil(shape: str, side: int) -> np.ndarray:
    """(side, side): where a shape is."""
    y, x = np.mgrid[:side, :side].astype(np.float64) + 0.5
    middle = side / 2
    if shape == "circle":
        mask = (x - middle) ** 2 + (y - middle) ** 2 <= middle**2
    elif shape == "square":
        mask = np.ones((side, side), bool)
    elif shape == "triangle":
        mask = np.abs(x - middle) <= y / 2
    else:
        mask = (np.abs(x - middle) < side / 6) | (np.abs(y - middle) < side / 6)
    mask.flags.writeable = False
    return mask


def relations(one: Thing, other: Thing) -> list[str]:
    """Where ``one`` is, seen from ``other``: along the axis on which they are further apart, or along both."""
    across, down = one.column - other.column, one.row - other.row
    names = []
    if abs(across) >= abs(down):
        names.append("left of" if across < 0 else "right of")
    if abs(down) >= abs(across):
        names.append("above" if down < 0 else "below")
    return names


def neighbour(things: Sequence[Thing], number: int, relation: str) -> int | None:
    """The number of the object in the cell next to that of object ``number``, on the side that a relation names."""
    down, across = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}[relation]
    cell = (things[number].row + down, things[number].column + across)
    return next((n for n, other in enumerate(things) if (other.row, other.column) == cell), None)


def captions(things: Sequence[Thing]) -> list[str]:
    """All true captions: any object first, then where it lies, seen from the others."""
    texts = []
    for first, *others in permutations(things):
        for chosen in product(*(relations(first, other) for other in others)):
            clauses = [f"{relation} a {other.name}" for relation, other in zip(chosen, others)]
            texts.append(" ".join([f"a {first.name}", " and ".join(clauses)]).strip())
    return texts


def mentioned(words: Sequence[str], things: Sequence[Thing]) -> list[tuple[int, int]]:
    """Which words name which objects: (number of the word, number of the object) for each shape that stands after the
    colour that it has in the scene."""
    names = {(thing.colour, thing.shape): number for number, thing in enumerate(things)}
    pairs = pairwise(words)
    return [(place, names[pair]) for place, pair in enumerate(pairs, 1) if pair in names]


def labels(things: Sequence[Thing]) -> list[str]:
    """The objects as a set, by name."""
    return sorted(thing.name for thing in things)


def questions(things: Sequence[Thing], random: np.random.Generator) -> list[Question]:
    """The questions about a scene: whether an object is there, as often with the answer no; the colour or the shape of
    an object that is the only one of its shape or colour; the colour and the shape of the object in the cell next to
    another. For these the other must be found first: more objects lie further to the same side."""
    pool = []
    for number, thing in enumerate(things):
        pool.append(Question(f"is there a {thing.name}?", "yes", "exist", (number,)))
        absent = _absent(things, random)
        pool.append(Question(f"is there a {absent}?", "no", "exist"))
        if sum(other.shape == thing.shape for other in things) == 1:
            pool.append(Question(f"what colour is the {thing.shape}?", thing.colour, "colour", (number,)))
        if sum(other.colour == thing.colour for other in things) == 1:
            pool.append(Question(f"what shape is {thing.colour}?", thing.shape, "shape", (number,)))
        for relation in RELATIONS:
            beside = neighbour(things, number, relation)
            if beside is not None:
                text = f"just {relation} the {thing.name}?"
                other = things[beside]
                pool.append(Question(f"what colour is {text}", other.colour, "relation", (number, beside)))
                pool.append(Question(f"what shape is {text}", other.shape, "relation", (number, beside)))
    return pool


def _absent(things: Sequence[Thing], random: np.random.Generator) -> str:
    """The name of an object that is not there; two in three have the colour or the shape of one that is."""
    present = {thing.name for thing in things}
    thing = things[int(random.integers(len(things)))]
    same = int(random.integers(3))
    colours = [thing.colour] if same == 0 else list(COLOURS)
    shapes = [thing.shape] if same == 1 else list(SHAPES)
    options = [name for colour, shape in product(colours, shapes) if (name := f"{colour} {shape}") not in present]
    if not options:  # every shape of that colour is there
        options = [name for colour, shape in product(COLOURS, SHAPES) if (name := f"{colour} {shape}") not in present]
    return options[int(random.integers(len(options)))]


def vocabulary() -> list[str]:
    """Every word of a caption."""
    words = {word for relation in RELATIONS for word in relation.split()}
    return ["a", "and", *sorted(words), *COLOURS, *SHAPES]


def asked() -> list[str]:
    """Every word of a question."""
    words = {word for relation in RELATIONS for word in relation.split()}
    return [*["a", "colour", "is", "just", "shape", "the", "there", "what"], *sorted(words), *COLOURS, *SHAPES]


def answers() -> list[str]:
    """Every answer to a question."""
    return ["yes", "no", *COLOURS, *SHAPES]
