"""Images in, sets of labels out: food on a plate, the nouns of captions, the objects of generated scenes.

``data`` is a folder with ``labels.json`` (:mod:`regard.data.image_sets`); a folder of photographs with captions
(:mod:`regard.data.captions`), whose labels are the ``most_frequent`` nouns of the captions; or ``scenes``: coloured
shapes that are generated (:mod:`regard.data.scenes`), new ones in every epoch of training, whose labels are their
objects (``red circle``).

A batch has ``labels`` (B, C), 0 or 1, beside ``features`` or ``image`` (:mod:`regard.tasks._images`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from regard._settings import at_least
from regard.data import captions, image_sets, scenes
from regard.data.captions import Captioned
from regard.data.image_sets import LABELS, Nouns
from regard.data.photographs import Photograph
from regard.metrics import pointing
from regard.metrics import sets as metrics
from regard.tasks._images import ImageConfig, ImageTask, pixels_of
from regard.tasks.task import Batch, Loader, Rows, drawn, loader_of


@dataclass(frozen=True)
class Config(ImageConfig):
    """Which images, and which labels."""

    most_frequent: int = 100
    """How many nouns are labels, where labels come from captions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "most_frequent")


class ImageSets(ImageTask):
    """Images in, sets out; see the module's docstring. What is known without the data: ``labels``, the ``frequent``
    ones, the best constant prediction, the largest set, ``most``, and the forms of ``nouns``."""

    kind: ClassVar[str] = "classifier"
    unit: ClassVar[str] = "images"
    settings: ClassVar[type] = Config
    learned_from = ("most_frequent",)
    title = "Say what there is on a picture"
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.classes = list(self.known["labels"])
        self._numbers = {label: number for number, label in enumerate(self.classes)}
        self._nouns = Nouns(self.known["nouns"], self.classes)

    def learn(self) -> dict[str, Any]:
        if self.generated:
            names = [f"{colour} {shape}" for colour in scenes.COLOURS for shape in scenes.SHAPES]
            return {"labels": names, "frequent": names[:1], "most": self.config.objects, "nouns": []}
        train = self._part("train")
        if self._captioned:
            nouns = Nouns.learn([entry.captions for entry in train], self.config.most_frequent)
            labels, sets = nouns.known, [nouns.of(entry.captions) for entry in train]
        else:
            nouns, sets = Nouns([], []), [entry.labels for entry in train]
            labels = metrics.ranked(sets)
        if not labels:
            raise ValueError(f"{self.data or self.config.data}: no label is in it")
        most = max(map(len, sets))
        return {"labels": labels, "frequent": metrics.frequent(labels, sets), "most": most, "nouns": nouns.forms}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: labels, the width of a place's features (0 of scenes), the largest set."""
        return {"classes": len(self.classes), "features": self.features_width, "most": self.known["most"]}

    # -----------------------------------------------------------------------------------------------------------------
    # Images and their labels

    @cached_property
    def _photographs(self) -> Mapping[str, list[Any]]:
        home = self.home
        return image_sets.read(home, self.bad) if (home / LABELS).exists() else captions.read(home, self.bad)

    @property
    def _captioned(self) -> bool:
        return isinstance(self._photographs["train"][0], Captioned)

    def _part(self, split: str) -> list[Any]:
        return self.part_of(self._photographs, split)

    def photographs_of(self, split: str) -> list[Photograph]:
        return [entry.photograph for entry in self._part(split)]

    def right(self, split: str, rows: Sequence[int]) -> list[list[str]]:
        """The known labels of some images of a split; of scenes of ``train`` those of the first epoch."""
        if self.generated:
            return [scenes.labels(self.scene(split, row).things) for row in rows]
        part = self._part(split)
        if self._captioned:
            return [self._nouns.of(part[row].captions) for row in rows]
        return [[label for label in part[row].labels if label in self._numbers] for row in rows]

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def _marked(self, sets: Sequence[Sequence[str]]) -> torch.Tensor:
        """(B, C): 1 for the labels of each set."""
        labels = torch.zeros(len(sets), len(self.classes))
        for row, names in zip(labels, sets):
            row[[self._numbers[name] for name in names]] = 1
        return labels

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        identity = self.identity(split, seed, shuffle)
        size, number = self.config.batch, self.count(split)
        if self.generated:

            def make(rows: range, epoch: int, k: int) -> Batch:
                images = [self.scene(split, row, *((seed, epoch) if shuffle else (0, 0))) for row in rows]
                labels = self._marked([scenes.labels(scene.things) for scene in images])
                return {**pixels_of([scene.image for scene in images]), "labels": labels}

            return drawn(make, number, size, identity, f"{number:,} scenes an epoch")
        labels, features = self._marked(self.right(split, range(number))), self.features(split)
        rows = Rows(number, size, seed, shuffle)

        def take(epoch: int, k: int) -> Batch:
            chosen = rows(epoch, k)
            return {"features": features[chosen], "labels": labels[torch.from_numpy(chosen)]}

        identity["content"] = zlib.crc32(labels.numpy().tobytes())
        report = f"{number:,} images, {len(self.classes):,} labels, {float(labels.sum(-1).mean()):.1f} on an image" + (
            f"; {self.bad}" if self.bad.total else ""
        )
        return loader_of(take, len(rows), identity, report)

    # -----------------------------------------------------------------------------------------------------------------
    # Metrics

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Of the sets for the first images of a split, in percent: ``f1`` over all labels together, ``f1_class``, the
        mean over labels, ``iou``, the mean over images; the ``f1_frequent`` of always naming the most frequent labels
        of training; and ``size_error``, by how many labels a set is too large or too small. Of scenes also how often a
        label that is right points at its object (``pointing``; ``chance`` is that of a random cell)."""
        right = self.right(split, range(len(found)))
        predicted = [answer.labels for answer in found]
        values = metrics.overlap(predicted, right)
        values["f1_class"] = metrics.per_class(predicted, right)
        values["f1_frequent"] = metrics.overlap([self.known["frequent"]] * len(right), right)["f1"]
        values["size_error"] = metrics.cardinality_error(predicted, right)
        return values | (self._pointing(split, found) if self.generated else {})

    def _pointing(self, split: str, answers: Sequence[Any]) -> dict[str, float]:
        """How often the last attention, the mean of its heads, points at the object of a right label."""
        maps, boxes = [], []
        for row, answer in enumerate(answers):
            boxes_of = {thing.name: thing.box for thing in self.scene(split, row).things}
            maps_of_last = list(answer.weights.values())[-1:]
            for place, label in enumerate(answer.labels):
                if maps_of_last and label in boxes_of:
                    maps.append(maps_of_last[0].reshape(-1, *maps_of_last[0].shape[-2:]).mean(0)[place].numpy())
                    boxes.append(boxes_of[label])
        if not maps:
            return {}
        hits, chance = pointing.pointing_game(np.stack(maps), boxes)
        return {"pointing": 100 * hits, "chance": 100 * chance}
