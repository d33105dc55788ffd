"""Recipes as they lie on disk, and the names of ingredients without amounts.

A folder has one or more files ``*.jsonl`` with a JSON object a line::

    {"title": "Apple pie", "ingredients": ["900 g apples", "2 eggs", …], "directions": ["Peel the apples.", …],
     "image": "apple-pie.jpg"}

``image``, the name of a photograph in the folder, in one of its folders or in one of its zip archives, may be missing
or null. A recipe without ingredients or directions, with a photograph that is not there, or that is not JSON is named
with file and line.

:func:`read` gives the recipes, :func:`divided` their splits, and :class:`Names` turns ``2 cloves of garlic, minced``
into ``garlic``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.lines import BadLines, clean, numbered_lines
from regard.data.photographs import Album, Photograph


class Recipe(NamedTuple):
    """A recipe: its ingredients as they are written, with amounts, and its directions, one step each."""

    title: str
    ingredients: list[str]
    directions: list[str]
    photograph: Photograph | None = None

    @property
    def text(self) -> str:
        """Title and directions, a line each."""
        return "\n".join([self.title, *self.directions])


Splits = dict[str, list[Recipe]]


def read(folder: Path, bad: BadLines | None = None) -> list[Recipe]:
    """All recipes of a folder, or of one file, in their order."""
    bad = bad or BadLines()
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else [folder]
    if not files:
        raise ValueError(f"{folder}: no file of recipes, *.jsonl with a JSON object a line, is in it")
    home = files[0].parent
    folders = sorted(path for path in home.iterdir() if path.is_dir())
    album = Album(home, [home, *folders, *sorted(home.glob("*.zip"))])
    recipes = []
    for path in files:
        for number, line in numbered_lines(path):
            if not line.strip():
                continue
            recipe = _parsed(line, path, number, album, bad)
            if recipe is not None:
                recipes.append(recipe)
    if not recipes:
        raise ValueError(f"{folder}: no recipe is in it")
    return recipes


def _parsed(line: str, path: Path, number: int, album: Album, bad: BadLines) -> Recipe | None:
    try:
        entry = json.loads(line)
    except RecursionError:
        bad.add("unreadable", path, number, "not JSON (brackets are nested too deeply)")
        return None
    except ValueError as error:
        bad.add("unreadable", path, number, f"not JSON ({error})")
        return None
    title = entry.get("title") if isinstance(entry, dict) else None
    if not isinstance(title, str) or not clean(title):
        bad.add("unreadable", path, number, "not a JSON object with a title")
        return None
    lists = {}
    for name in ("ingredients", "directions"):
        lists[name] = _texts(entry.get(name))
        if not lists[name]:
            bad.add(f"without {name}", path, number, f"{title[:40]!r} has no {name}, a list of texts")
            return None
    image = entry.get("image")
    photograph = None
    if image:
        photograph = album.find(image) if isinstance(image, str) else None
        if photograph is None:
            places = ", ".join(str(place) for place in album.places)
            bad.add("without an image", path, number, f"the photograph {str(image)[:80]!r} is not in {places}")
            return None
    return Recipe(clean(title), lists["ingredients"], lists["directions"], photograph)


def _texts(value: Any) -> list[str]:
    """The texts of a list that are not empty; none if it is no such list."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return []
    return [text for entry in value if (text := clean(entry))]


def divided(recipes: Sequence[Recipe]) -> Splits:
    """Of the recipes with a photograph, by their titles alone, one in six is for validation and one in four for test;
    all others are for training, except those with the title of one that is held out. Recipes that share a photograph
    stay together."""
    keys = _shared(recipes)
    titles = {key for key, recipe in zip(keys, recipes) if recipe.photograph is not None}
    if len(titles) < 3:
        raise ValueError(
            f"{len(titles)} recipes with a photograph of their own are too few to train, validate and test"
        )
    order = sorted(titles)
    test, valid = len(order) // 4 or 1, len(order) // 6 or 1
    split_of = {key: "test" if n < test else "valid" if n < test + valid else "train" for n, key in enumerate(order)}
    splits: Splits = {"train": [], "valid": [], "test": []}
    for key, recipe in zip(keys, recipes):
        split = split_of.get(key, "train")
        if split == "train" or recipe.photograph is not None:
            splits[split].append(recipe)
    return splits


def _shared(recipes: Sequence[Recipe]) -> list[bytes]:
    """The key of each title, the same for all titles that are joined by photographs."""
    keys = [_key(recipe) for recipe in recipes]
    joined: dict[bytes, bytes] = {}

    def root(key: bytes) -> bytes:
        while key in joined:
            key = joined[key]
        return key

    first: dict[Photograph, bytes] = {}
    for key, recipe in zip(keys, recipes):
        if recipe.photograph is not None:
            low, *high = sorted({root(key), root(first.setdefault(recipe.photograph, key))})
            joined |= dict.fromkeys(high, low)
    return [root(key) for key in keys]


def _key(recipe: Recipe) -> bytes:
    words = re.findall(r"\w+", recipe.title.lower())
    return hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest()


# ---------------------------------------------------------------------------------------------------------------------
# Ingredients

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NOTE = re.compile(r"\([^)]*\)|\*|https?://\S+")
_DECIMAL = re.compile(r"(?<=\d)[.,/](?=\d)")
_CUT = re.compile(r"[,;:|./]|\s-\s|\b(?:or|for|to|such|with|plus|without|if|from|into|per|about|as|at|in|that)\b")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AMOUNTS = """
    g gr gram grams kg kilo kilos kilogram kilograms mg ml cl dl l liter liters litre litres oz ounce ounces lb lbs
    pound pounds cup cups c tbsp tbsps tbs tbl tablespoon tablespoons tsp tsps teaspoon teaspoons t pinch pinches dash
    dashes clove cloves slice slices can cans jar jars bottle bottles package packages packet packets pack piece pieces
    stick sticks inch inches cm mm handful handfuls bunch bunches glass glasses box boxes sprig sprigs strip strips cube
    cubes head heads stalk stalks rib ribs quart quarts pint pints gallon gal drop drops knob tin tins bag bags sheet
    sheets ball bar batch portion serving servings spoon spoons spoonful spoonfuls touch bit splash part parts half
    halves quarter third fresh freshly ground chopped minced diced sliced grated shredded crushed peeled large small
    medium big sized size thin thick thinly finely coarse coarsely fine roughly dried dry frozen cooked raw optional
    extra virgin whole ripe organic good quality high low fat hot cold warm soft softened melted unsalted salted plain
    all-purpose all purpose self-raising self rising cubed beaten boneless skinless lean stale boiled smoked toasted
    roasted canned powdered granulated cut mixed a an the of and your choice some any more little few one two three four
    five six seven eight nine ten dozen taste preference least enough needed other favorite favourite
    """
_PASSED = frozenset(_AMOUNTS.split())
"""Amounts and preparations: no part of an ingredient's name."""


def plain(line: str) -> list[str]:
    """The words of an ingredient's name, the most telling last: ``2 large Tomatoes (chopped)`` → tomato."""
    line = _DECIMAL.sub(" ", _NOTE.sub(" ", _LINK.sub(r"\1", line)).lower())
    for part in _CUT.split(line):
        words = [singular(word) for word in _WORD.findall(part) if word not in _PASSED]
        words = [word for word in words if word not in _PASSED and len(word) > 2]
        if words:
            return words
    return []


def singular(word: str) -> str:
    """``tomatoes`` → tomato, by its ending."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("leaves"):
        return f"{word[:-3]}f"
    if re.search(r"(?:oes|shes|ches|xes|sses)$", word):
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not re.search(r"(?:ss|us|is)$", word):
        return word[:-1]
    return word


class Names:
    """Names of ingredients, one or two words each."""

    def __init__(self, known: Iterable[str]):
        self.known = list(known)
        self._numbers = {name: number for number, name in enumerate(self.known)}

    def __len__(self) -> int:
        return len(self.known)

    @classmethod
    def learn(cls, recipes: Sequence[Recipe], least: int) -> Names:
        """The names that occur in at least ``least`` recipes, the most frequent first. Two words are one name where
        they occur together as often, as in ``olive oil``."""
        lines = [[plain(line) for line in recipe.ingredients] for recipe in recipes]
        pairs = Counter(
            pair for ingredients in lines for pair in {" ".join(words[-2:]) for words in ingredients if len(words) > 1}
        )
        joined = {pair for pair, count in pairs.items() if count >= least}
        counts: Counter[str] = Counter()
        for ingredients in lines:
            last = {(" ".join(words[-2:]), words[-1]) for words in ingredients if words}
            counts.update({pair if pair in joined else word for pair, word in last})
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return cls(name for name, count in ranked if count >= least)

    def name(self, line: str) -> str | None:
        """The name of the ingredient in a line; None if it is unknown."""
        words = plain(line)
        if (pair := " ".join(words[-2:])) in self._numbers:
            return pair
        return next((word for word in reversed(words) if word in self._numbers), None)

    def of(self, lines: Iterable[str]) -> list[str]:
        """The known ingredients of some lines, each once, the most frequent of all recipes first."""
        names = {name for line in lines if (name := self.name(line)) is not None}
        return sorted(names, key=self._numbers.__getitem__)

    def number(self, name: str) -> int:
        """The place of a name in ``known``."""
        return self._numbers[name]
