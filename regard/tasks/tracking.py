"""Tracking an object through a film; see :mod:`regard.data.films`.

A batch has ``frames`` (B, T, 1, height, width) from 0 to 1 and ``boxes`` (B, T, 4), left, top, width and height in
pixels. Generated films are new in every epoch of training; ``data = "made"`` measures films of digits, ``"textured"``
the textured ones. With the film of a file, ``data = "tracking"``, every split is this film. When measured, a tracker
sees only the first box; but one that was trained on the film has learned its features from all boxes, and is measured
fairly on other films only: train on generated films, and measure with ``--data``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from regard._settings import at_least
from regard.data import films
from regard.data.download import locate
from regard.tasks.task import SPLITS, VISION, Batch, Loader, Task, generated

MADE = ("made", "textured")
FAIRLY = "learns from the boxes of this film, on which its validation says little: measure on another with --data"


@dataclass(frozen=True)
class Config:
    """Which films.

    Attributes:
        data: ``made``, ``textured``, or a file or folder.
        size: height and width of generated films.
        length: frames of a film to measure.
        trained: frames of a film to train on.
        clutter: pieces of other digits.
        hidden: share of the digit that is covered.
        batch: films to a batch.
        batches: batches to an epoch of training.
        measured: batches of a validation; a test has twice as many.
    """

    data: str = "made"
    size: int = 64
    length: int = 200
    trained: int = 6
    clutter: int = 8
    hidden: float = 0.5
    batch: int = 16
    batches: int = 100
    measured: int = 1

    def __post_init__(self) -> None:
        at_least(self, "batch", "batches", "measured")
        if (
            min(self.length, self.trained) < 2
            or self.size < films.DIGIT
            or self.clutter < 0
            or not 0 <= self.hidden < 1
        ):
            raise ValueError(f"a film has 2 frames or more of {films.DIGIT} pixels or more; hidden is between 0 and 1")


class Tracking(Task):
    """Films with boxes; see the module's docstring."""

    kind: ClassVar[str] = "tracker"
    family: ClassVar[str] = VISION
    unit: ClassVar[str] = "films"
    settings = Config
    learned_from = ("data", "size")

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)

    def learn(self) -> dict[str, Any]:
        height, width = (self.config.size,) * 2 if self.film is None else self.film.frames.shape[-2:]
        return {"sizes": {"channels": 1, "height": height, "width": width}}

    @cached_property
    def film(self) -> films.Film | None:
        """The film of a file, or None if films are generated."""
        where = self.data or self.config.data
        if str(where) in MADE:
            return None
        return films.read(locate(where))

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.known["sizes"])

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        config = self.config
        textured = str(self.data or config.data) == "textured"

        def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
            if self.film is None:
                length = config.trained if split == "train" else config.length
                chosen = [
                    films.textured(random, length, config.size)
                    if textured
                    else films.made(random, length, config.size, config.clutter, config.hidden)
                    for _ in range(config.batch)
                ]
            elif split == "train":
                chosen = []
                for _ in range(config.batch):
                    first = int(random.integers(0, max(1, len(self.film.boxes) - config.trained)))
                    chosen.append(films.Film(*(part[first : first + config.trained] for part in self.film)))
            else:
                chosen = [self.film]
            frames, boxes = (torch.from_numpy(np.stack(part)) for part in zip(*chosen))
            return {"frames": frames, "boxes": boxes}

        measured = 1 if self.film is not None else config.measured * (2 if split == "test" else 1)
        settings = {name: value for name, value in dataclasses.asdict(config).items() if name != "data"}
        identity = {"split": split, "shuffle": shuffle, **settings}
        length = config.batches if split == "train" else measured
        report = FAIRLY if self.film is not None and split == "train" else ""
        seeds = (SPLITS.index(split), seed)
        return generated(make, length, seed=seeds, fresh=shuffle, identity=identity, report=report)
