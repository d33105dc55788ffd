"""Generated dishes: coloured food on a bowl or a plate, with its ingredients and how it is made.

    tomato and spinach soup · chop the spinach and the tomato · season with salt · serve in a bowl

Every food is a patch of its colour in the image and is among the ingredients as well. Salt or sugar: only the
ingredients show which; a round bowl or a square plate: only the image. So neither alone is enough to write the whole
recipe. Where tomato meets spinach there is oil, which has no colour: only knowing what goes together finds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FOODS = {
    "tomato": (205, 50, 40),
    "spinach": (40, 130, 50),
    "lemon": (240, 215, 60),
    "beetroot": (130, 30, 90),
    "rice": (245, 245, 235),
    "chocolate": (85, 50, 30),
    "carrot": (240, 130, 30),
    "blueberry": (50, 60, 140),
}
SEASONS = ("salt", "sugar")
VESSELS = {"bowl": "soup", "plate": "salad"}
OIL = frozenset({"tomato", "spinach"})
"""What is fried in oil when it meets."""


class Dish(NamedTuple):
    """Pixels (3, size, size), bytes, and the recipe."""

    image: np.ndarray
    title: str
    ingredients: list[str]
    directions: list[str]

    @property
    def text(self) -> str:
        """Title and directions, a line each."""
        return "\n".join([self.title, *self.directions])


def draw(random: np.random.Generator, size: int = 48, most: int = 4) -> Dish:
    """A new dish of two to ``most`` foods on ``size`` × ``size`` pixels."""
    check(size, most)
    count = int(random.integers(2, most + 1))
    foods = sorted(list(FOODS)[number] for number in random.choice(len(FOODS), count, replace=False))
    season = SEASONS[int(random.integers(len(SEASONS)))]
    vessel = list(VESSELS)[int(random.integers(len(VESSELS)))]
    image = _cooked(foods, vessel, size, random)
    fried = set(foods) >= OIL
    ingredients = [*foods, *(["oil"] if fried else []), season]
    chopped = " and ".join(f"the {food}" for food in foods)
    directions = [f"chop {chopped}", *(["fry it in the oil"] if fried else []), f"season with {season}"]
    directions.append(f"serve {'in' if vessel == 'bowl' else 'on'} a {vessel}")
    return Dish(image, f"{foods[0]} and {foods[1]} {VESSELS[vessel]}", ingredients, directions)


def _cooked(foods: list[str], vessel: str, size: int, random: np.random.Generator) -> np.ndarray:
    """The picture: a dish in the middle, and in each of its parts a patch of a food."""
    image = np.empty((3, size, size), np.float32)
    image[:] = random.uniform(90, 130)
    y, x = (np.mgrid[:size, :size] + 0.5) / size - 0.5
    inside = (x**2 + y**2 < 0.47**2) if vessel == "bowl" else (np.maximum(abs(x), abs(y)) < 0.45)
    image[:, inside] = random.uniform(190, 215)
    cells = random.permutation(4)
    for food, cell in zip(foods, cells.tolist()):
        row, column = divmod(cell, 2)
        down, right = ((index - 0.5) * 0.42 + random.uniform(-0.03, 0.03) for index in (row, column))
        patch = (x - right) ** 2 + (y - down) ** 2 < random.uniform(0.12, 0.16) ** 2
        paint = np.asarray(FOODS[food], np.float32) + random.uniform(-15, 15, 3).astype(np.float32)
        image[:, patch] = paint[:, None]
    image += random.standard_normal(image.shape, np.float32) * 6
    return image.clip(0, 255).astype(np.uint8)


def check(size: int, most: int) -> None:
    """Can such dishes be drawn?"""
    if size < 24:
        raise ValueError(f"a dish has at least 24 pixels a side, not {size}")
    if not 2 <= most <= 4:
        raise ValueError(f"a dish has 2 to 4 foods, not {most}")


def ingredients() -> list[str]:
    """All that dishes are made of."""
    return [*FOODS, "oil", *SEASONS]


def vocabulary() -> list[str]:
    """Every word of a recipe."""
    other = "a and chop fry in it on season serve the with"
    return [*other.split(), *ingredients(), *VESSELS, *VESSELS.values()]
