"""Photographs of dishes in, recipes out: first the ingredients, then title and directions.

``data`` is a folder of recipes as JSON lines (:mod:`regard.data.recipes`), of which some have a photograph, or
``dishes``: coloured food on a bowl or a plate, generated (:mod:`regard.data.dishes`), new in every epoch of training.
Recipes are divided by title; those that are held out have a photograph. Of the others, which train, also those without
one are used (``texts``).

A batch has ``target`` (B, T + 1) from bos to eos and ``target_lengths`` (B,), the number of tokens to predict;
``ingredients`` (B, K), numbers of those that the writer may look at, and ``ingredient_lengths`` (B,); ``labels``
(B, ingredients), 1 for those that are right; ``features`` or ``image`` (:mod:`regard.tasks._images`), ``has_image``
(B,), whether there is one, and ``shown`` (B,), whether the writer sees it. In training images and ingredients are
hidden from the writer at random, so that it can write with either.

Text is in lower case; the end of a line is a word. The name of an ingredient is the one or two words that are left
without its amount, if enough recipes have it; a word that is seen less than ``min_count`` times is unknown.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import torch

from regard._lazy import nearest
from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, dishes, recipes
from regard.data.dishes import Dish
from regard.data.photographs import Photograph
from regard.data.recipes import Names, Recipe
from regard.data.tokens import UNKNOWN, Ragged
from regard.decode.written import Written
from regard.metrics import recipes as metrics
from regard.metrics import sets as set_metrics
from regard.questions import Image, Input, Number, Text
from regard.tasks._batches import pad
from regard.tasks._images import ImageConfig, ImageTask, Item
from regard.tasks._words import Vocabulary, by_length
from regard.tasks.task import Batch, Loader, check_split, drawn

DISHES = "dishes"
SEEN = ("both", "image", "ingredients")
END = "\n"
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]|\n")
_CLOSED = frozenset(".,;:!?)%°")
_OPEN = frozenset("(/")


def split(recipe: str) -> list[str]:
    """The words of a recipe, punctuation and ends of lines among them."""
    return _WORD.findall(recipe.lower())


@dataclass(frozen=True)
class Config(ImageConfig):
    """Which recipes, and what becomes of them."""

    data: str = DISHES
    """A folder, the name of a known data set, or ``dishes``: recipes that are generated."""
    foods: int = 4
    """The most foods of a generated dish."""
    pictured: float = 0.75
    """The share of generated dishes of training that have an image."""
    texts: bool = True
    """Train also on recipes without a photograph."""
    min_count: int = 3
    """How often a word must occur to be known."""
    min_recipes: int = 20
    """How many recipes must have an ingredient for it to be known."""
    max_length: int = 150
    """Tokens of the longest recipe, its end included; longer ones are cut for training."""
    hide_image: float = 0.25
    """The share of recipes of training whose image the writer does not see."""
    hide_ingredients: float = 0.25
    """The share whose ingredients it does not see."""
    sees: str = "both"
    """What the writer sees at all, in training and after: ``both``, ``image`` or ``ingredients``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "min_count", "min_recipes", max_length=2)
        for name in ("pictured", "hide_image", "hide_ingredients"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}, a share, is between 0 and 1, not {getattr(self, name)}")
        if self.sees not in SEEN:
            raise ValueError(f"sees cannot be {self.sees!r}: {nearest(self.sees, SEEN)}")
        dishes.check(self.pixels, self.foods)


@dataclass(frozen=True, eq=False)
class Meal(Item):
    """A dish, with an image or without; its ingredients are None until they are known, and ``found`` if the system
    found them."""

    ingredients: tuple[str, ...] | None = None
    found: bool = False

    @property
    def pictured(self) -> bool:
        """Is there an image?"""
        return self.pixels is not None or self.photograph is not None or self.features is not None


class Cooking(ImageTask):
    """Photographs in, recipes out; see the module's docstring. What is known without the data: ``words``, the
    ``ingredients``, the most frequent first, and the ``frequent`` ones, the best constant prediction."""

    kind: ClassVar[str] = "writer"
    unit: ClassVar[str] = "tokens"
    settings: ClassVar[type] = Config
    learned_from = ("min_count", "min_recipes", "texts")
    imagined: ClassVar[str] = DISHES
    title = "Write the recipe of a dish"
    verb = "Cook"
    asks: Mapping[str, Input] = {
        "image": Image(default=b"", title="Your dish", about="JPEG, PNG or WebP. It is not kept."),
        "ingredients": Text(
            2000,
            default="",
            title="Ingredients",
            about="With commas between; looked for in the picture if empty. They do without a picture too.",
        ),
        "example": Number(0, 9999, default=0, title="Or a test dish", about="Used while there is nothing of yours."),
    }
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.names = Names(self.known["ingredients"])
        self._vocabulary = Vocabulary(self.known["words"], split)
        self.words = self._vocabulary.words
        """What each token stands for."""
        self._encoded = lru_cache(maxsize=len(SPLITS))(self._encode_all)
        self._cached_dish = lru_cache(maxsize=4096)(self._draw_dish)

    def learn(self) -> dict[str, Any]:
        if self.generated:
            sample = [dishes.draw(np.random.default_rng([7, row]), 24, self.config.foods) for row in range(200)]
            sets = [dish.ingredients for dish in sample]
            return {
                "words": [END, *dishes.vocabulary()],
                "ingredients": dishes.ingredients(),
                "frequent": set_metrics.frequent(set_metrics.ranked(sets), sets),
            }
        train = self._part("train")
        names = Names.learn(train, self.config.min_recipes)
        if not len(names):
            raise ValueError(f"no ingredient is in {self.config.min_recipes} recipes: lower min_recipes")
        words = Vocabulary.seen((recipe.text for recipe in train), self.config.min_count, split)
        frequent = set_metrics.frequent(names.known, [names.of(recipe.ingredients) for recipe in train])
        return {"words": words, "ingredients": names.known, "frequent": frequent}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: words, the width of a place's features (0 of generated dishes), the longest recipe,
        and the known ingredients."""
        return {
            "vocab": len(self.words),
            "features": self.features_width,
            "longest": self.config.max_length,
            "ingredients": len(self.names),
        }

    # -----------------------------------------------------------------------------------------------------------------
    # Recipes

    @cached_property
    def _recipes(self) -> recipes.Splits:
        place = self.home
        try:
            splits = recipes.divided(recipes.read(place, self.bad))
        except ValueError as error:
            raise ValueError(f"{place}: {error}" if str(place) not in str(error) else str(error)) from None
        if not self.config.texts:
            splits["train"] = [recipe for recipe in splits["train"] if recipe.photograph is not None]
        return splits

    def _part(self, split: str) -> list[Recipe]:
        return self.part_of(self._recipes, split)

    def photographs_of(self, split: str) -> list[Photograph]:
        return [recipe.photograph for recipe in self._part(split) if recipe.photograph is not None]

    def _pictures(self, split: str) -> np.ndarray:
        """Which of the photographs of a split belongs to each of its recipes; −1 for none."""
        pictured = np.array([recipe.photograph is not None for recipe in self._part(split)])
        return np.where(pictured, pictured.cumsum() - 1, -1)

    def dish(self, split: str, row: int, seed: int = 0, epoch: int = 0) -> Dish:
        """A generated dish; the same for the same numbers."""
        return self._cached_dish(check_split(split), seed, epoch, row)

    def _draw_dish(self, split: str, seed: int, epoch: int, row: int) -> Dish:
        key = [self.config.data_seed, SPLITS.index(split), seed, epoch, row]
        return dishes.draw(np.random.default_rng(key), self.config.pixels, self.config.foods)

    def right(self, split: str, row: int) -> list[str]:
        """The known ingredients of a recipe of a split."""
        if self.generated:
            return self.names.of(self.dish(split, row).ingredients)
        return self.names.of(self._part(split)[row].ingredients)

    # -----------------------------------------------------------------------------------------------------------------
    # Items

    def count(self, split: str) -> int:
        """The recipes of a split."""
        return getattr(self.config, f"{check_split(split)}_size") if self.generated else len(self._part(split))

    def item(self, split: str, number: int) -> Meal:
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no dish {number} in {split}: they are 0 to {count - 1}")
        if self.generated:
            return Meal(self.dish(split, number).image)
        picture = int(self._pictures(split)[number])
        if picture < 0:
            return Meal(ingredients=tuple(self.right(split, number)))
        return Meal(None, self._part(split)[number].photograph, self.features(split)[[picture]][0])

    def read(self, question: Any) -> Meal:
        """A picture, with ingredients or without; ingredients alone; or a test dish."""
        typed = [part for part in re.split(r"[,\n;]", question.ingredients) if part.strip()]
        if not typed:
            return self.item(self.shown, question.example) if not question.image else self._meal(question.image, None)
        named = tuple(self.names.of(typed))
        if not named:
            most = ", ".join(self.names.known[:8])
            raise ValueError(f"none of {', '.join(typed)[:80]} is an ingredient that is known, such as {most}")
        return self._meal(question.image, named) if question.image else Meal(ingredients=named)

    def _meal(self, image: Any, ingredients: tuple[str, ...] | None) -> Meal:
        picture = self.photograph(image)
        return Meal(picture.pixels, ingredients=ingredients, dimensions=picture.dimensions)

    def completed(self, items: Sequence[Meal], model: Any) -> Sequence[Meal]:
        """Dishes with the ingredients that a system sees in their images, where none are known."""
        meals = list(items)
        incomplete = [row for row, item in enumerate(items) if item.ingredients is None]
        for first in range(0, len(incomplete), self.config.batch):
            rows = incomplete[first : first + self.config.batch]
            batch = self._batch([meals[row] for row in rows])
            device = next(model.parameters()).device
            chosen = _chooser(model)({name: value.to(device) for name, value in batch.items()})
            for row, flags in zip(rows, chosen.tolist(), strict=True):
                names = tuple(name for name, present in zip(self.names.known, flags) if present)
                meals[row] = dataclasses.replace(meals[row], ingredients=names, found=True)
        return meals

    def batch_of(self, items: Sequence[Meal]) -> Batch:
        return self._visible(self._batch(items))

    def _batch(self, items: Sequence[Meal]) -> Batch:
        """Dishes as a system takes them, without what is written of them."""
        real = np.array([item.pictured for item in items])
        images = self.images([item for item in items if item.pictured]) if real.any() else {}
        (kind, values) = next(iter(images.items()), self._no_image())
        filled = values.new_zeros(len(items), *values.shape[1:])
        filled[torch.from_numpy(real)] = values[: int(real.sum())]  # no row of _no_image
        has_image = torch.from_numpy(real)
        names = self._ingredient_batch([item.ingredients for item in items])
        return {kind: filled, "has_image": has_image, "shown": has_image, **names}

    def _no_image(self) -> tuple[str, torch.Tensor]:
        """An image of zeros, for batches without images."""
        if self.generated:
            return "image", torch.zeros(1, 3, self.config.pixels, self.config.pixels)
        return "features", torch.zeros(1, self.store.side**2, self.store.width)

    def _ingredient_batch(self, sets: Sequence[Sequence[str] | None]) -> Batch:
        """Sets of ingredients as numbers, side by side."""
        numbers = [[self.names.number(name) for name in names or ()] for names in sets]
        longest = max(1, *map(len, numbers)) if numbers else 1
        padded = torch.zeros(len(numbers), longest, dtype=torch.long)
        for row, ids in zip(padded, numbers):
            row[: len(ids)] = torch.tensor(ids, dtype=torch.long)
        return {"ingredients": padded, "ingredient_lengths": torch.tensor([len(ids) for ids in numbers])}

    def _visible(self, batch: Batch) -> Batch:
        """A batch without the inputs that the writer never sees (``sees``)."""
        if self.config.sees == "image":
            return without_ingredients(batch)
        return without_image(batch) if self.config.sees == "ingredients" else batch

    def axes(self, item: Meal) -> dict[str, Axis]:
        axes = {"places": self.places(item)} if item.pictured and self.config.sees != "ingredients" else {}
        if item.ingredients and self.config.sees != "image":
            axes["ingredients"] = Axis(item.ingredients)
        return axes

    def remarks(self, item: Meal) -> list[str]:
        names = ", ".join(item.ingredients or ()) or "none that are known"
        return [f"Ingredients{', seen in the picture' if item.found else ''}: {names}."]

    def origin(self) -> str:
        return "generated dishes" if self.generated else super().origin()

    # -----------------------------------------------------------------------------------------------------------------
    # Words

    def tokens(self) -> dict[str, Any]:
        return {"target": self.words, "ingredient": list(self.names.known)}

    def write(self, tokens: Sequence[int], item: Any = None) -> Words:
        """The recipe of ids: a label for the title and for each step of the directions."""
        lines: list[list[str]] = [[]]
        groups = []
        for word in self._vocabulary.decode(tokens):
            if word == END:
                groups.append(-1)
                lines += [[]] if lines[-1] else []
            else:
                lines[-1].append(word)
                groups.append(len(lines) - 1)
        labels = [_joined(words) for words in lines if words]
        steps = " ".join(f"{number}. {step}" for number, step in enumerate(labels[1:], 1))
        return Words(labels, groups, ": ".join(filter(None, [*labels[:1], steps])))

    def fields(self, item: Meal, words: Words) -> dict[str, Any]:
        title, *directions = list(words.labels) or [""]
        return {"title": title, "ingredients": list(item.ingredients or ()), "directions": directions}

    perplexities: Mapping[str, Callable[[Batch], Batch]] = {
        "perplexity": lambda batch: batch,
        "perplexity_image": lambda batch: without_ingredients(batch),
        "perplexity_ingredients": lambda batch: without_image(batch),
        "perplexity_neither": lambda batch: without_image(without_ingredients(batch)),
    }

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """Of the first recipes of a split, in percent: ``f1`` (over all together) and ``iou`` of the ingredients that
        were found in their images, the F1 of always naming the most frequent of training (``f1_frequent``), and how
        many of the ingredients the directions use (``mentioned``)."""
        right = [self.right(split, row) for row in range(len(found))]
        ingredients = [answer.item.ingredients for answer in found]
        values = set_metrics.overlap(ingredients, right)
        values["f1_frequent"] = set_metrics.overlap([self.known["frequent"]] * len(right), right)["f1"]
        values["mentioned"] = metrics.mentioned([answer.text for answer in found], ingredients)
        return values

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity = self.identity(split, seed, shuffle)
        size = self.config.batch
        if self.generated:

            def make(rows: range, epoch: int, k: int) -> Batch:
                served = [self.dish(split, row, seed if shuffle else 0, epoch if shuffle else 0) for row in rows]
                framed = [self._vocabulary.framed(dish.text, self.config.max_length) for dish in served]
                random = np.random.default_rng([seed, epoch, k]) if shuffle else None
                pictured = np.ones(len(served)) if random is None else random.random(len(served)) < self.config.pictured
                meals = [Meal(dish.image if has_image else None) for dish, has_image in zip(served, pictured)]
                sets = [self.names.of(dish.ingredients) for dish in served]
                return self._full_batch(meals, sets, Ragged.of(framed), np.arange(len(served)), random)

            number = self.count(split)
            return drawn(make, number, size, identity, f"{number:,} dishes an epoch")
        ids, sets = self._encoded(split)
        features, pictures = self.features(split), self._pictures(split)

        def take(rows: np.ndarray, epoch: int, k: int) -> Batch:
            random = np.random.default_rng([seed, epoch, k]) if shuffle else None
            meals = [Meal(features=features[[pictures[row]]][0] if pictures[row] >= 0 else None) for row in rows]
            return self._full_batch(meals, [sets[row] for row in rows], ids, rows, random)

        identity["content"] = zlib.crc32(ids.ids.tobytes())
        unknown = 100 * float((ids.ids == UNKNOWN).mean())
        report = (
            f"{len(sets):,} recipes, {len(features):,} with a photograph, {len(self.names):,} ingredients, "
            f"{len(self.words):,} words, {unknown:.1f} % unknown" + (f"; {self.bad}" if self.bad.total else "")
        )
        return by_length(ids.lengths, size, take, seed=seed, shuffle=shuffle, identity=identity, report=report)

    def _full_batch(
        self,
        meals: Sequence[Meal],
        sets: Sequence[Sequence[str]],
        ids: Ragged,
        rows: np.ndarray,
        random: np.random.Generator | None,
    ) -> Batch:
        """Dishes with their recipes; in training some of what the writer sees is hidden at random."""
        target, lengths = pad(ids, rows)
        batch = self._batch([dataclasses.replace(meal, ingredients=tuple(names)) for meal, names in zip(meals, sets)])
        labels = torch.zeros(len(meals), len(self.names))
        for row, names in zip(labels, sets):
            row[[self.names.number(name) for name in names]] = 1
        batch |= {"labels": labels, "target": target, "target_lengths": lengths - 1}
        if random is not None:
            image, ingredients = (torch.from_numpy(random.random(len(meals))) for _ in range(2))
            batch["shown"] = batch["has_image"] & (image >= self.config.hide_image)
            batch["ingredient_lengths"] = torch.where(
                ingredients < self.config.hide_ingredients, 0, batch["ingredient_lengths"]
            )
        return self._visible(batch)

    def _encode_all(self, split: str) -> tuple[Ragged, list[list[str]]]:
        """Every recipe of a split from bos to eos, and its known ingredients."""
        part = self._part(split)
        rows = [self._vocabulary.framed(recipe.text, self.config.max_length) for recipe in part]
        return Ragged.of(rows), [self.names.of(recipe.ingredients) for recipe in part]


def without_image(batch: Batch) -> Batch:
    """A batch of which the writer sees no image."""
    return {**batch, "shown": torch.zeros_like(batch["has_image"])}


def without_ingredients(batch: Batch) -> Batch:
    """A batch of which the writer sees no ingredients."""
    return {**batch, "ingredient_lengths": torch.zeros_like(batch["ingredient_lengths"])}


def _chooser(model: Any) -> Callable[[Batch], torch.Tensor]:
    """The method that predicts ingredients: of the system, or of the first in an ensemble."""
    return model.choose if hasattr(model, "choose") else model.models[0].choose


def _joined(words: Sequence[str]) -> str:
    """Words with blanks between, but for those around punctuation."""
    text = ""
    for word in words:
        tight = not text or word in _CLOSED or text[-1] in _OPEN or word == "/"
        text += word if tight else f" {word}"
    return text
