"""Shared by tasks on images: photographs with features of a backbone, generated scenes, questions with a picture.

A batch has, of photographs, ``features`` (B, cells, width), which a frozen backbone gave and
:mod:`regard.data.features` keeps; of scenes ``image`` (B, 3, size, size) from 0 to 1, for a small encoder that is
trained along.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest
from regard._settings import at_least
from regard.axes import Axis, Places
from regard.data import SPLITS, photographs, scenes
from regard.data.download import locate
from regard.data.features import Features, Store
from regard.data.lines import BadLines
from regard.data.photographs import FITS, Photograph, Source
from regard.data.scenes import Scene
from regard.questions import Image, Input, Number
from regard.tasks.task import VISION, AskedTask, Batch, check_split

SCENES = "scenes"
E = TypeVar("E")


@dataclass(frozen=True)
class ImageConfig:
    """Which images, and what becomes of them."""

    data: str = SCENES
    """A folder, the name of a known data set, or ``scenes``: images that are generated."""
    batch: int = 64
    stage: int = 7
    """Of the backbone, for features of photographs: at 224 pixels stage 5 has 14 × 14 cells, stage 7 has 7 × 7."""
    size: int = 224
    """Height and width to which photographs are brought."""
    fit: str = "squash"
    """How they become square: ``squash`` or ``crop``."""
    store: str = ""
    """Where features are kept; in the cache if empty."""
    pixels: int = 48
    """Height and width of a scene."""
    objects: int = 3
    """The most objects of a scene."""
    train_size: int = 8000
    """Scenes of an epoch."""
    valid_size: int = 500
    test_size: int = 500
    skip_bad: bool = False
    """Count and leave out entries without an image, or with one that cannot be read, and images without an entry."""
    data_seed: int = 0
    """Seed of scenes."""

    def __post_init__(self) -> None:
        at_least(self, "batch", "train_size", "valid_size", "test_size")
        if self.fit not in FITS:
            raise ValueError(f"fit cannot be {self.fit!r}: {nearest(self.fit, FITS)}")
        scenes.check(self.pixels, self.objects)


@dataclass(frozen=True, eq=False)
class Item:
    """An image: its pixels, (3, size, size) bytes, or the photograph to read them from, and its features if they are
    known; width and height of a photograph that was read already, before it became square."""

    pixels: np.ndarray | None = None
    photograph: Photograph | None = None
    features: Tensor | None = None
    dimensions: tuple[int, int] | None = field(default=None, kw_only=True)


class ImageTask(AskedTask):
    """A task on images. A subclass names its photographs, :meth:`photographs_of`, and the questions about them. An
    item is an image alone, unless the subclass overrides it."""

    imagined: ClassVar[str] = SCENES
    """The name of data that are generated."""
    family: ClassVar[str] = VISION
    verb = "Look"
    asks: Mapping[str, Input] = {
        "image": Image(default=b"", title="Your picture", about="JPEG, PNG or WebP. It is not kept."),
        "example": Number(0, 9999, default=0, title="Or a test picture", about="Used while there is none of yours."),
    }
    config: ImageConfig

    def __init__(self, config: Any, data: Any = None, *, known: Any = None):
        self._readable: dict[str, list[Any]] = {}
        self._cached_features = lru_cache(maxsize=len(SPLITS))(self._computed)
        self._cached_scene = lru_cache(maxsize=4096)(self._drawn)
        super().__init__(config, data, known=known)

    @property
    def generated(self) -> bool:
        """Are the images generated?"""
        return str(self.data or self.config.data) == self.imagined

    @property
    def home(self) -> Path:
        """The folder of the data."""
        try:
            return locate(self.data or self.config.data)
        except ValueError as error:
            raise ValueError(f"{error}; data can also be generated: data={self.imagined}") from None

    @cached_property
    def bad(self) -> BadLines:
        """The entries that were left out."""
        return BadLines(self.config.skip_bad)

    def part_of(self, splits: Mapping[str, list[Any]], split: str) -> list[Any]:
        """A split, if it is there; with ``skip_bad`` without the entries whose photograph cannot be read."""
        if check_split(split) not in splits:
            raise ValueError(f"{self.data or self.config.data}: {no_split('images', split, splits)}")
        if not self.config.skip_bad:
            return splits[split]
        if split not in self._readable:
            self._readable[split] = readable(self.store, splits[split], lambda entry: [entry.photograph], self.bad)
        return self._readable[split]

    @property
    def features_width(self) -> int:
        """Of a place; 0 where a batch brings images."""
        return 0 if self.generated else self.store.width

    @property
    def store(self) -> Store:
        """Where the features of photographs are kept."""
        config = self.config
        folder = Path(config.store).expanduser() if config.store else None
        return Store(config.stage, config.size, config.fit, folder)

    @abstractmethod
    def photographs_of(self, split: str) -> Sequence[Photograph]:
        """The photographs of a split."""

    def features(self, split: str) -> Features:
        """The features of the photographs of a split; those that are missing are computed."""
        return self._cached_features(check_split(split))

    def _computed(self, split: str) -> Features:
        return self.store.features(list(self.photographs_of(split)))

    def scene(self, split: str, row: int, seed: int = 0, epoch: int = 0) -> Scene:
        """A generated scene; the same for the same numbers."""
        return self._cached_scene(check_split(split), seed, epoch, row)[0]

    def draws(self, split: str, row: int, seed: int = 0, epoch: int = 0) -> np.random.Generator:
        """A random generator for the text about a scene."""
        return np.random.default_rng([*self._cached_scene(check_split(split), seed, epoch, row)[1], 1])

    def _drawn(self, split: str, seed: int, epoch: int, row: int) -> tuple[Scene, list[int]]:
        key = [self.config.data_seed, SPLITS.index(split), seed, epoch, row]
        return scenes.draw(np.random.default_rng(key), self.config.pixels, self.config.objects), key

    def count(self, split: str) -> int:
        """The images of a split."""
        return getattr(self.config, f"{check_split(split)}_size") if self.generated else len(self.photographs_of(split))

    # Items

    def read(self, question: Any) -> Any:
        return self.image(question)

    def item(self, split: str, number: int) -> Any:
        return self.numbered(split, number)

    def batches(self, items: Sequence[Any]) -> Iterator[tuple[Sequence[int], Batch]]:
        for first in range(0, len(items), self.config.batch):
            rows = range(first, min(first + self.config.batch, len(items)))
            yield rows, self.batch_of([items[row] for row in rows])

    def batch_of(self, items: Sequence[Any]) -> Batch:
        """Items as a system takes them, without their answers."""
        return self.images(items)

    def axes(self, item: Any) -> dict[str, Axis]:
        return {"places": self.places(item)}

    def image(self, question: Any) -> Item:
        """The picture of a question, or a test picture."""
        return self.photograph(question.image) if question.image else self.numbered(self.shown, question.example)

    def photograph(self, source: Source) -> Item:
        """A photograph; one trained on scenes sees it small."""
        size = self.config.pixels if self.generated else self.config.size
        pixels = photographs.read(source, size, fit=self.config.fit)
        return Item(pixels, dimensions=photographs.dimensions(source))

    def numbered(self, split: str, number: int) -> Item:
        """An image of a split."""
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no picture {number} in {split}: they are 0 to {count - 1}")
        if self.generated:
            return Item(self.scene(split, number).image)
        return Item(None, self.photographs_of(split)[number], self.features(split)[[number]][0])

    def images(self, items: Sequence[Item]) -> Batch:
        """Items as a system takes them."""
        if self.generated:
            return pixels_of([self.pixels(item) for item in items])
        features = [
            self.store.compute(self.pixels(item)[None])[0] if item.features is None else item.features for item in items
        ]
        return {"features": torch.stack(features)}

    def pixels(self, item: Item) -> np.ndarray:
        """(3, size, size), bytes."""
        if item.pixels is not None:
            return item.pixels
        assert item.photograph is not None
        return photographs.read(item.photograph, self.config.size, fit=self.config.fit)

    def places(self, item: Item) -> Axis:
        """The axis of an image's cells."""
        return Places(image=lambda: self._displayed(item) / np.float32(255))

    def _displayed(self, item: Item) -> np.ndarray:
        """The pixels in the proportions of the photograph, where squashing has changed them."""
        dimensions = item.dimensions
        if dimensions is None and item.photograph is not None:
            dimensions = photographs.dimensions(item.photograph)
        if dimensions is None or self.config.fit != "squash":
            return self.pixels(item)
        return photographs.unsquashed(self.pixels(item), dimensions)

    def origin(self) -> str:
        return "generated scenes" if self.generated else super().origin()


def readable(
    store: Store, entries: Sequence[E], photographs_of: Callable[[E], Iterable[Photograph | None]], bad: BadLines
) -> list[E]:
    """The entries all of whose photographs can be read; the others are counted."""
    photographs = {photograph for entry in entries for photograph in photographs_of(entry) if photograph is not None}
    broken = store.unreadable(sorted(photographs))
    for photograph, why in broken.items():
        bad.add("that cannot be read", str(photograph), 0, why)
    usable = [entry for entry in entries if broken.keys().isdisjoint(filter(None, photographs_of(entry)))]
    if not usable:
        raise ValueError(f"{next(iter(broken))}: no picture of its split can be read")
    return usable


def no_split(what: str, split: str, available: Iterable[str]) -> str:
    """That there is nothing for a split, and what to do."""
    splits = [name for name in SPLITS if name in set(available)]
    return f"there are no {what} for {split!r}, only for {' and '.join(splits)}: --split {splits[-1]}"


def pixels_of(images: Sequence[np.ndarray]) -> Batch:
    """Bytes as a batch of images."""
    return {"image": torch.from_numpy(np.stack(images)).float() / 255}
