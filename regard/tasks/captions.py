"""Images in, captions out: photographs with captions, or generated scenes.

``data`` is a folder in the format of Flickr8k or COCO or one with ``captions.tsv`` (:mod:`regard.data.captions`), or
``scenes``: coloured shapes that are made (:mod:`regard.data.scenes`), new ones in every epoch of training.

A batch has ``target`` (B, T + 1) from bos to eos and ``target_lengths`` (B,), the number of tokens to predict. Beside
them it has, of photographs, ``features`` (B, cells, width), which a frozen backbone gave and
:mod:`regard.data.features` keeps; of scenes ``image`` (B, 3, size, size) from 0 to 1, for a small encoder that is
trained along. An item is an image with one of its captions; captions of a batch of photographs are of like length. In
evaluation an image has all its captions as references.

Captions are lower case without punctuation, as they are compared; a word that is seen less than ``min_count`` times is
unknown.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard._lazy import nearest
from regard.data import SPLITS, captions, photographs, scenes
from regard.data.captions import Captioned
from regard.data.download import locate
from regard.data.features import Features, Store
from regard.data.photographs import FITS, Source
from regard.data.scenes import Scene
from regard.data.text import BadLines
from regard.data.tokens import BOS, EOS, SPECIAL, UNKNOWN, Ragged
from regard.metrics import captions as metrics
from regard.tasks._batches import pad
from regard.tasks.task import Batch, Loader, Task, check_split, loader_of

SCENES = "scenes"


@dataclass(frozen=True)
class Config:
    """Which images, and what becomes of them."""

    data: str = SCENES
    """A folder, the name of a known data set, or ``scenes``: images that are made."""
    batch: int = 64
    min_count: int = 5
    """How often a word must occur to be known."""
    max_length: int = 30
    """Tokens of the longest caption, its end included; longer ones are cut for training."""
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
    """Count and leave out captions without an image and images without a caption."""
    data_seed: int = 0
    """Of scenes."""

    def __post_init__(self) -> None:
        least = {"batch": 1, "min_count": 1, "max_length": 2, "train_size": 1, "valid_size": 1, "test_size": 1}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise ValueError(f"{name} = {getattr(self, name)}: it must be at least {number}")
        if self.fit not in FITS:
            raise ValueError(f"fit cannot be {self.fit!r}: {nearest(self.fit, FITS)}")
        scenes.check(self.pixels, self.objects)


class Captions(Task):
    """Images in, captions out; see the module's docstring. What is known without the data: ``words``."""

    kind: ClassVar[str] = "captions"
    unit: ClassVar[str] = "tokens"
    settings: ClassVar[type] = Config
    learned_from = ("min_count",)

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.words: list[str] = [*SPECIAL, *self.known["words"]]
        """What each token stands for."""
        self._ids = {word: number for number, word in enumerate(self.words) if number > UNKNOWN}
        self.signatures: dict[str, str] = {}
        """sacrebleu's signatures of the last :meth:`compare`."""
        self._features = lru_cache(maxsize=len(SPLITS))(self._of_photographs)
        self._encoded = lru_cache(maxsize=len(SPLITS))(self._encode_all)
        self._scene = lru_cache(maxsize=4096)(self._draw)

    @property
    def generated(self) -> bool:
        """Are the images scenes?"""
        return str(self.data or self.config.data) == SCENES

    def learn(self) -> dict[str, Any]:
        if self.generated:
            return {"words": scenes.vocabulary()}
        counts = Counter(
            word for each in self._part("train") for caption in each.captions for word in metrics.words(caption)
        )
        return {"words": sorted(word for word, count in counts.items() if count >= self.config.min_count)}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: words, the width of a place's features (0 of scenes), the longest caption."""
        features = 0 if self.generated else self.store.width
        return {"vocab": len(self.words), "features": features, "longest": self.config.max_length}

    @property
    def store(self) -> Store:
        """Where the features of photographs are kept."""
        config = self.config
        folder = Path(config.store).expanduser() if config.store else None
        return Store(config.stage, config.size, config.fit, folder)

    # -----------------------------------------------------------------------------------------------------------------
    # Images and what is said of them

    @cached_property
    def _photographs(self) -> captions.Splits:
        try:
            place = locate(self.data or self.config.data)
        except ValueError as error:
            raise ValueError(f"{error}; images can also be made: data={SCENES}") from None
        return captions.read(place, BadLines(self.config.skip_bad))

    def _part(self, split: str) -> list[Captioned]:
        if split not in self._photographs:
            there = ", ".join(self._photographs)
            raise ValueError(f"{self.data or self.config.data}: there are no images for {split!r}, only for {there}")
        return self._photographs[split]

    def _of_photographs(self, split: str) -> Features:
        return self.store.features([each.photograph for each in self._part(split)])

    def _draw(self, split: str, seed: int, epoch: int, number: int) -> tuple[Scene, list[str], int]:
        """A scene, its captions, and the number of one of them, by chance."""
        random = np.random.default_rng([self.config.data_seed, SPLITS.index(split), seed, epoch, number])
        scene = scenes.draw(random, self.config.pixels, self.config.objects)
        said = scenes.captions(scene.things)
        return scene, said, int(random.integers(len(said)))

    def count(self, split: str) -> int:
        """The images of a split."""
        return getattr(self.config, f"{split}_size") if self.generated else len(self._part(check_split(split)))

    def references(self, split: str, rows: Sequence[int]) -> list[list[str]]:
        """The captions of some images of a split; of scenes of ``train`` those of the first epoch."""
        if self.generated:
            return [self._scene(check_split(split), 0, 0, row)[1] for row in rows]
        return [self._part(check_split(split))[row].captions for row in rows]

    def scene(self, split: str, row: int) -> Scene | None:
        """What is on an image, if that is known."""
        return self._scene(check_split(split), 0, 0, row)[0] if self.generated else None

    def images(self, split: str, rows: Sequence[int]) -> Batch:
        """Some images of a split without captions, as a system takes them."""
        if self.generated:
            return _pixels([self._scene(check_split(split), 0, 0, row)[0] for row in rows])
        return {"features": self._features(check_split(split))[list(rows)]}

    def pixels(self, split: str, row: int) -> np.ndarray:
        """An image of a split as it is drawn, (3, height, width) from 0 to 1."""
        if self.generated:
            return self._scene(check_split(split), 0, 0, row)[0].image / np.float32(255)
        photograph = self._part(check_split(split))[row].photograph
        return photographs.read(photograph, self.config.size, fit=self.config.fit) / np.float32(255)

    def prepare(self, source: Source) -> Batch:
        """A photograph, a batch of one, as a system takes it; one trained on scenes sees it small."""
        if self.generated:
            pixels = photographs.read(source, self.config.pixels, fit=self.config.fit)
            return {"image": torch.from_numpy(pixels)[None].float() / 255}
        pixels = photographs.read(source, self.config.size, fit=self.config.fit)
        return {"features": self.store.compute(pixels[None])}

    # -----------------------------------------------------------------------------------------------------------------
    # Words

    def encode(self, caption: str) -> list[int]:
        """The ids of a caption, without bos and eos."""
        return [self._ids.get(word, UNKNOWN) for word in metrics.words(caption)]

    def decode(self, ids: Sequence[int]) -> str:
        """The caption of ids."""
        return " ".join(self.words[number] for number in ids)

    def compare(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D of captions beside all references, in percent."""
        values, self.signatures = metrics.scores(texts, references)
        return values

    def _framed(self, caption: str) -> list[int]:
        return [BOS, *self.encode(caption)[: self.config.max_length - 1], EOS]

    def _encode_all(self, split: str) -> tuple[Ragged, np.ndarray]:
        """Every caption of a split from bos to eos, and the number of its image."""
        part = self._part(split)
        rows = [self._framed(caption) for each in part for caption in each.captions]
        return Ragged.of(rows), np.repeat(np.arange(len(part)), [len(each.captions) for each in part])

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        settings = {name: value for name, value in dataclasses.asdict(self.config).items() if name not in _PLACES}
        identity = {"split": split, "seed": seed, "shuffle": shuffle, **settings}
        size = self.config.batch
        if self.generated:
            number = self.count(split)

            def make(epoch: int, k: int) -> Batch:
                rows = range(k * size, min((k + 1) * size, number))
                return self._batch_of_scenes(split, seed if shuffle else 0, epoch if shuffle else 0, rows)

            return loader_of(make, -(-number // size), identity, f"{number:,} scenes an epoch")
        ids, owners = self._encoded(split)
        features = self._features(split)
        plan = lru_cache(maxsize=1)(lambda epoch: _plan(ids.lengths, size, (seed, epoch) if shuffle else None))

        def take(epoch: int, k: int) -> Batch:
            rows = plan(epoch)[k]
            target, lengths = pad(ids, rows)
            return {"features": features[owners[rows]], "target": target, "target_lengths": lengths - 1}

        identity["content"] = zlib.crc32(ids.ids.tobytes())
        unknown = 100 * float((ids.ids == UNKNOWN).mean())
        report = (
            f"{len(features):,} images, {len(owners):,} captions, {len(self.words):,} words, {unknown:.1f} % unknown; "
            f"{features.shape[1]} places of {features.shape[2]} features"
        )
        return loader_of(take, len(plan(0)), identity, report)

    def _batch_of_scenes(self, split: str, seed: int, epoch: int, rows: Sequence[int]) -> Batch:
        drawn = [self._scene(split, seed, epoch, row) for row in rows]
        ids = Ragged.of([self._framed(said[chosen]) for _, said, chosen in drawn])
        target, lengths = pad(ids, np.arange(len(drawn)))
        return {**_pixels([scene for scene, _, _ in drawn]), "target": target, "target_lengths": lengths - 1}


_PLACES = ("data", "store", "skip_bad")


def _pixels(found: Sequence[Scene]) -> Batch:
    return {"image": torch.from_numpy(np.stack([scene.image for scene in found])).float() / 255}


def _plan(lengths: np.ndarray, size: int, seed: tuple[int, int] | None) -> list[np.ndarray]:
    """The rows of each batch, of like length: in random order, with equal lengths mixed, if there is a ``seed``."""
    random = None if seed is None else np.random.default_rng(seed)
    tie = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    order = np.lexsort((tie, lengths))
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    return batches if random is None else [batches[number] for number in random.permutation(len(batches))]
