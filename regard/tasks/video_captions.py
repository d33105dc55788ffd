"""Clips of video in, captions out: features of frames, pictures of frames, or generated clips.

``data`` is a folder in the format of MSVD or one with ``captions.tsv`` (:mod:`regard.data.clips`), or ``moves``:
coloured shapes that move, generated (:mod:`regard.data.moves`), new ones in every epoch of training. MSVD as it is read
here has one file of captions and no split of its own: clips are held out, one in ten for validation and one in five for
test, all clips of a video together.

A batch has ``target`` (B, T + 1) from bos to eos and ``target_lengths`` (B,), the number of tokens to predict;
``frame_lengths`` (B,), the number of frames; and ``features`` (B, F, width), of a frozen network, or of generated clips
``clip`` (B, F, 3, size, size) from 0 to 1. An item is a clip with one of its captions; captions of a batch are of like
length. In evaluation a clip has all its captions as references.

A question is a test clip by its number, or a file: an ``.npz`` with ``features`` (frames, width) as the system was
trained on, or, where the system was trained on pictures, one with ``images`` (frames, height, width, 3) of bytes or a
folder with a picture for each frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard._lazy import nearest
from regard._settings import at_least
from regard.axes import Axis, Frames
from regard.data import SPLITS, clips, moves, photographs
from regard.data.download import locate
from regard.data.features import Store
from regard.data.lines import BadLines
from regard.data.photographs import FITS, Photograph
from regard.data.tokens import Ragged
from regard.decode.written import Written
from regard.metrics import pointing
from regard.questions import Clip, Input, Number
from regard.tasks._captions import Described, measured, targets
from regard.tasks._images import no_split, readable
from regard.tasks._words import Vocabulary
from regard.tasks.task import VISION, Batch, check_split

MOVES = "moves"
THUMBNAIL = 96
"""Height and width of the frames in a picture of attention."""


@dataclass(frozen=True)
class Config:
    """Which clips, and what becomes of them and of their captions."""

    data: str = MOVES
    """A folder, the name of a known data set, or ``moves``: clips that are generated."""
    batch: int = 64
    frames: int = 26
    """The most frames of a clip; of a longer one this many are taken, evenly spaced."""
    min_count: int = 3
    """How often a word must occur to be known."""
    max_length: int = 20
    """Tokens of the longest caption, its end included; longer ones are cut for training."""
    stage: int = 7
    """Of the backbone, for pictures of frames; features of its cells are averaged."""
    size: int = 224
    """Height and width to which pictures of frames are brought."""
    fit: str = "squash"
    """How they become square: ``squash`` or ``crop``."""
    store: str = ""
    """Where features of pictures are kept; in the cache if empty."""
    pixels: int = 32
    """Height and width of a generated clip."""
    length: int = 12
    """Frames of a generated clip."""
    events: int = 2
    """The most events of a generated clip."""
    train_size: int = 4000
    """Generated clips of an epoch."""
    valid_size: int = 300
    test_size: int = 300
    skip_bad: bool = False
    """Count and leave out captions without a clip, and clips with a frame that cannot be read."""
    data_seed: int = 0
    """Seed of generated clips."""

    def __post_init__(self) -> None:
        at_least(self, "batch", "frames", "min_count", "train_size", "valid_size", "test_size", max_length=2)
        if self.fit not in FITS:
            raise ValueError(f"fit cannot be {self.fit!r}: {nearest(self.fit, FITS)}")
        moves.check(self.pixels, self.length, self.events)


@dataclass(frozen=True, eq=False)
class Item:
    """A clip: the features (F, width) of its frames, or its pixels (F, 3, size, size), bytes; and the pictures of its
    frames, if there are any."""

    features: np.ndarray | None = None
    pixels: np.ndarray | None = None
    photographs: tuple[Photograph, ...] = ()

    def __len__(self) -> int:
        return len(self.pixels if self.features is None else self.features)  # type: ignore[arg-type]


class VideoCaptions(Described):
    """Clips in, captions out; see the module's docstring. What is known without the data: ``words``, the ``width`` of a
    frame's features, and whether a backbone makes them of pictures (``pictured``)."""

    family: ClassVar[str] = VISION
    settings: ClassVar[type] = Config
    things = ("clips", "clips")
    learned_from = ("min_count", "stage")
    title = "Say what happens in a clip"
    verb = "Watch"
    asks: Mapping[str, Input] = {
        "clip": Clip(default=b"", title="Your clip", about="An .npz file with features or images. It is not kept."),
        "example": Number(0, 9999, default=0, title="Or a test clip", about="Used while there is none of yours."),
    }
    perplexities: Mapping[str, Any] = {"perplexity": lambda batch: batch}
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        self._readable: dict[str, list[clips.Clip]] = {}
        super().__init__(config, data, known=known)
        self._cached_features = lru_cache(maxsize=len(SPLITS))(self._computed)
        self._cached_clip = lru_cache(maxsize=512)(self._drawn)

    def learn(self) -> dict[str, Any]:
        if self.generated:
            return {"words": moves.vocabulary(), "width": 0, "pictured": True}
        train = self._part("train")
        first = train[0].features
        words = Vocabulary.seen((caption for clip in train for caption in clip.captions), self.config.min_count)
        width = self.store.width if first is None else first.shape[1]
        return {"words": words, "width": width, "pictured": first is None}

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: words, the width of a frame's features (0 of generated clips), the longest
        caption."""
        return {"vocab": len(self.words), "features": self.known["width"], "longest": self.config.max_length}

    # -----------------------------------------------------------------------------------------------------------------
    # Clips and their captions

    @property
    def generated(self) -> bool:
        """Are the clips generated?"""
        return str(self.data or self.config.data) == MOVES

    @property
    def store(self) -> Store:
        """Where the features of pictures are kept."""
        config = self.config
        folder = Path(config.store).expanduser() if config.store else None
        return Store(config.stage, config.size, config.fit, folder)

    @cached_property
    def bad(self) -> BadLines:
        """The captions that were left out."""
        return BadLines(self.config.skip_bad)

    @cached_property
    def _clips(self) -> clips.Splits:
        try:
            place = locate(self.data or self.config.data)
        except ValueError as error:
            raise ValueError(f"{error}; clips can also be generated: data={MOVES}") from None
        return clips.read(place, self.bad)

    def _part(self, split: str) -> list[clips.Clip]:
        if check_split(split) not in self._clips:
            raise ValueError(f"{self.data or self.config.data}: {no_split('clips', split, self._clips)}")
        if not self.config.skip_bad:
            return self._clips[split]
        if split not in self._readable:
            self._readable[split] = readable(self.store, self._clips[split], self._frames, self.bad)
        return self._readable[split]

    def features(self, split: str) -> list[np.ndarray]:
        """The features (F, width) of the frames of each clip of a split."""
        return self._cached_features(check_split(split))

    def _computed(self, split: str) -> list[np.ndarray]:
        part = self._part(split)
        if not self.known["pictured"]:
            stored = [clip.features for clip in part if clip.features is not None]
            return [features[clips.spaced(len(features), self.config.frames)] for features in stored]
        frames = [self._frames(clip) for clip in part]
        features = self.store.features([photograph for pictures in frames for photograph in pictures])
        lengths = [len(pictures) for pictures in frames]
        ends = np.cumsum(lengths).tolist()
        return [features[np.arange(end - length, end)].mean(1).numpy() for length, end in zip(lengths, ends)]

    def _frames(self, clip: clips.Clip) -> tuple[Photograph, ...]:
        chosen = clips.spaced(len(clip.photographs), self.config.frames)
        return tuple(clip.photographs[number] for number in chosen)

    def clip(self, split: str, row: int, seed: int = 0, epoch: int = 0) -> moves.Clip:
        """A generated clip; the same for the same numbers."""
        return self._cached_clip(check_split(split), seed, epoch, row)

    def _drawn(self, split: str, seed: int, epoch: int, row: int) -> moves.Clip:
        key = [self.config.data_seed, SPLITS.index(split), seed, epoch, row]
        return moves.draw(np.random.default_rng(key), self.config.pixels, self.config.length, self.config.events)

    def references(self, split: str, rows: Sequence[int]) -> list[list[str]]:
        """The captions of some clips of a split; of generated ones of ``train`` those of the first epoch."""
        if self.generated:
            return [[moves.caption(self.clip(split, row).events)] for row in rows]
        return [self._part(split)[row].captions for row in rows]

    # -----------------------------------------------------------------------------------------------------------------
    # Items

    def count(self, split: str) -> int:
        """The clips of a split."""
        return getattr(self.config, f"{check_split(split)}_size") if self.generated else len(self._part(split))

    def item(self, split: str, number: int) -> Item:
        count = self.count(split)
        if not 0 <= number < count:
            raise ValueError(f"there is no clip {number} in {split}: they are 0 to {count - 1}")
        if self.generated:
            return Item(pixels=self.clip(split, number).frames)
        return Item(self.features(split)[number], photographs=self._frames(self._part(split)[number]))

    def read(self, question: Any) -> Item:
        return self._uploaded(question.clip) if question.clip else self.item(self.shown, question.example)

    def _uploaded(self, source: Path | bytes) -> Item:
        """A clip from a file."""
        name = "the clip" if isinstance(source, bytes) else str(source)
        if isinstance(source, Path) and source.is_dir():
            return self._from_folder(source)
        pixels = clips.pixels(source) if self.known["pictured"] else None
        if pixels is None:
            if self.generated:
                raise ValueError(f"{name}: there is no array called 'images' in it, which this system looks at")
            features = clips.features(source)
            if features.shape[1] != self.known["width"]:
                raise ValueError(f"{name}: {features.shape[1]} features a frame, but {self.known['width']} are wanted")
            return Item(features[clips.spaced(len(features), self.config.frames)])
        pixels = pixels[clips.spaced(len(pixels), self.config.frames)]
        size = self.config.pixels if self.generated else self.config.size
        pixels = np.stack([photographs.resized(frame, size, fit=self.config.fit) for frame in pixels])
        return Item(pixels=pixels) if self.generated else Item(self.store.compute(pixels).mean(1).numpy(), pixels)

    def _from_folder(self, folder: Path) -> Item:
        """A clip from a folder with a picture for each frame."""
        if not self.known["pictured"]:
            needed = f"an .npz or .npy file with {self.known['width']} features a frame is wanted"
            raise ValueError(f"{folder}: a folder of pictures, but {needed}")
        pictures = clips.frames_of(folder)
        chosen = [pictures[number] for number in clips.spaced(len(pictures), self.config.frames)]
        size = self.config.pixels if self.generated else self.config.size
        pixels = np.stack([photographs.read(picture, size, fit=self.config.fit) for picture in chosen])
        if self.generated:
            return Item(pixels=pixels)
        return Item(self.store.compute(pixels).mean(1).numpy(), photographs=tuple(chosen))

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[Sequence[int], Batch]]:
        for first in range(0, len(items), self.config.batch):
            rows = range(first, min(first + self.config.batch, len(items)))
            yield rows, self._batch([items[row] for row in rows])

    def _batch(self, items: Sequence[Item]) -> Batch:
        if self.generated:
            frames, lengths = clips.pad(item.pixels for item in items if item.pixels is not None)
            return {"clip": torch.from_numpy(frames) / 255, "frame_lengths": torch.from_numpy(lengths)}
        features, lengths = clips.pad(item.features for item in items if item.features is not None)
        return {"features": torch.from_numpy(features), "frame_lengths": torch.from_numpy(lengths)}

    def axes(self, item: Item) -> dict[str, Axis]:
        visible = item.pixels is not None or item.photographs
        return {"frames": Frames.numbered(len(item), (lambda: _shown(item)) if visible else None)}

    def origin(self) -> str:
        return "generated clips" if self.generated else super().origin()

    # -----------------------------------------------------------------------------------------------------------------
    # Words

    def measure(self, split: str, found: Sequence[Written]) -> dict[str, float]:
        """Of the first clips of a split: BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D of captions beside all references, in
        percent; how much the weights of words over the frames differ (``variation``, ``entropy``). Of generated clips
        also, in percent, how often a caption is ``true``, a direction of a thing that was named right is right
        (``direction``), two such things come in the right ``order``, and a word looks most at a frame of its own event
        (``pointing``; ``chance`` is that of a random frame). For a direction the frame after it counts too, whose
        difference from the one before is the end of the movement."""
        references = self.references(split, range(len(found)))
        values, self.signatures = measured(found, references)
        if self.generated:
            values["true"] = 100 * float(np.mean([answer.text == right for answer, (right,) in zip(found, references)]))
            values |= self._move_scores(split, found)
        return values

    def _move_scores(self, split: str, answers: Sequence[Written]) -> dict[str, float]:
        maps, spans, directions, orders = [], [], [], []
        for row, written in enumerate(answers):
            events, words = self.clip(split, row).events, list(written.words.labels)
            named = []
            for place, number in moves.mentioned(words, events):
                event, last = events[number], events[number].last
                if words[place] in moves.DIRECTIONS:
                    directions.append(words[place] == event.direction)
                    last = min(last + 1, self.config.length - 1)
                else:
                    named.append(number)
                if written.weights is not None:
                    maps.append(written.weights[place].numpy())
                    spans.append((event.first, last))
            if len(set(named)) == len(named) == 2:
                orders.append(named == sorted(named))
        values = {}
        for name, right in {"direction": directions, "order": orders}.items():
            if right:
                values[name] = 100 * float(np.mean(right))
        if maps:
            hits, chance = pointing.within(maps, spans)
            values |= {"pointing": 100 * hits, "chance": 100 * chance}
        return values

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def captions_of(self, split: str) -> list[list[str]]:
        return [clip.captions for clip in self._part(split)]

    def seen(self, split: str) -> tuple[Callable[[np.ndarray], Batch], str]:
        features = self.features(split)
        description = f"up to {max(map(len, features))} frames of {self.known['width']} features"
        description += f"; {self.bad}" if self.bad.total else ""
        return lambda owners: self._batch([Item(features[owner]) for owner in owners]), description

    def made(self, split: str, seed: int, epoch: int, rows: Sequence[int]) -> Batch:
        drawn = [self.clip(split, row, seed, epoch) for row in rows]
        framed = [self._vocabulary.framed(moves.caption(clip.events), self.config.max_length) for clip in drawn]
        frames = self._batch([Item(pixels=clip.frames) for clip in drawn])
        return {**frames, **targets(Ragged.of(framed), np.arange(len(drawn)))}


def _shown(item: Item) -> np.ndarray:
    """Frames from 0 to 1, small."""
    if item.pixels is None:
        frames = [photographs.read(picture, THUMBNAIL, fit="squash") for picture in item.photographs]
    else:
        small = min(THUMBNAIL, item.pixels.shape[-1])
        frames = [photographs.resized(frame, small, fit="squash") for frame in item.pixels]
    return np.stack(frames) / np.float32(255)
