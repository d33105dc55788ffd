"""Images in, captions out: photographs with captions, or generated scenes.

``data`` is a folder in the format of Flickr8k or COCO or one with ``captions.tsv`` (:mod:`regard.data.captions`), or
``scenes``: coloured shapes that are generated (:mod:`regard.data.scenes`), new ones in every epoch of training.

A batch has ``target`` (B, T + 1) from bos to eos and ``target_lengths`` (B,), the number of tokens to predict, beside
``features`` or ``image`` (:mod:`regard.tasks._images`). An item is an image with one of its captions; captions of a
batch of photographs are of like length. In evaluation an image has all its captions as references.

Captions are lower case without punctuation, as they are compared; a word that is seen less than ``min_count`` times is
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from regard._settings import at_least
from regard.data import captions, scenes
from regard.data.captions import Captioned
from regard.data.photographs import Photograph
from regard.data.tokens import Ragged
from regard.decode.written import Written
from regard.metrics import pointing
from regard.tasks._captions import Described, measured, targets
from regard.tasks._images import ImageConfig, ImageTask, pixels_of
from regard.tasks._words import Vocabulary
from regard.tasks.task import Batch, check_split


@dataclass(frozen=True)
class Config(ImageConfig):
    """Which images, and what becomes of their captions."""

    min_count: int = 5
    """How often a word must occur to be known."""
    max_length: int = 30
    """Tokens of the longest caption, its end included; longer ones are cut for training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "min_count", max_length=2)
        if self.objects > 3:
            raise ValueError(f"objects = {self.objects}: of more than 3 there is too much to say in a caption")


class Captions(ImageTask, Described):
    """Images in, captions out; see the module's docstring. What is known without the data: ``words``."""

    settings: ClassVar[type] = Config
    things = ("images", "scenes")
    learned_from = ("min_count",)
    title = "Say what is on a picture"
    config: Config

    def learn(self) -> dict[str, Any]:
        if self.generated:
            return {"words": scenes.vocabulary()}
        texts = (caption for entry in self._part("train") for caption in entry.captions)
        return {"words": Vocabulary.seen(texts, self.config.min_count)}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: words, the width of a place's features (0 of scenes), the longest caption."""
        return {"vocab": len(self.words), "features": self.features_width, "longest": self.config.max_length}

    # -----------------------------------------------------------------------------------------------------------------
    # Images and their captions

    @cached_property
    def _photographs(self) -> captions.Splits:
        return captions.read(self.home, self.bad)

    def _part(self, split: str) -> list[Captioned]:
        return self.part_of(self._photographs, split)

    def photographs_of(self, split: str) -> list[Photograph]:
        return [entry.photograph for entry in self._part(check_split(split))]

    def references(self, split: str, rows: Sequence[int]) -> list[list[str]]:
        """The captions of some images of a split; of scenes of ``train`` those of the first epoch."""
        if self.generated:
            return [scenes.captions(self.scene(split, row).things) for row in rows]
        return [self._part(check_split(split))[row].captions for row in rows]

    # -----------------------------------------------------------------------------------------------------------------
    # Words

    def encode(self, caption: str) -> list[int]:
        """The ids of a caption, without bos and eos."""
        return self._vocabulary.encode(caption)

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """Of the first images of a split: BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D of captions beside all references, in
        percent; how much the maps of words differ (``variation``, ``entropy``); of scenes, in percent, how often a
        caption is true and how often the word for an object points at it (``pointing``; ``chance`` is that of a random
        cell)."""
        references = self.references(split, range(len(found)))
        values, self.signatures = measured(found, references)
        if self.generated:
            values |= self._pointing(split, found)
            values["true"] = 100 * float(np.mean([answer.text in right for answer, right in zip(found, references)]))
        return values

    def _pointing(self, split: str, answers: Sequence[Written]) -> dict[str, float]:
        maps, boxes = [], []
        for row, caption in enumerate(answers):
            things = self.scene(split, row).things
            for place, number in scenes.mentioned(list(caption.words.labels), things):
                if caption.weights is not None:
                    maps.append(caption.weights[place].numpy())
                    boxes.append(things[number].box)
        if not maps:
            return {}
        hits, chance = pointing.pointing_game(np.stack(maps), boxes)
        return {"pointing": 100 * hits, "chance": 100 * chance}

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def captions_of(self, split: str) -> list[list[str]]:
        return [entry.captions for entry in self._part(split)]

    def seen(self, split: str) -> tuple[Callable[[np.ndarray], Batch], str]:
        features = self.features(split)
        description = f"{features.shape[1]} places of {features.shape[2]} features"
        description += f"; {self.bad}" if self.bad.total else ""
        return lambda owners: {"features": features[owners]}, description

    def made(self, split: str, seed: int, epoch: int, rows: Sequence[int]) -> Batch:
        drawn = [self.scene(split, row, seed, epoch) for row in rows]
        framed = []
        for row, scene in zip(rows, drawn):
            texts = scenes.captions(scene.things)
            chosen = texts[int(self.draws(split, row, seed, epoch).integers(len(texts)))]
            framed.append(self._vocabulary.framed(chosen, self.config.max_length))
        return {**pixels_of([scene.image for scene in drawn]), **targets(Ragged.of(framed), np.arange(len(drawn)))}
