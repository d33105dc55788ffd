"""Pictures and their classes: written digits as they are, scattered over canvases, or distorted.

The digits are MNIST's (or any set in its format, as Fashion-MNIST), or drawn where there are none. ``kind`` says how
they are shown:

===========  ==========================================================================================================
plain        the pictures as they are
translated   a digit anywhere on a canvas
cluttered    the same among pieces of other digits (Mnih et al. 2014, arXiv:1406.6247)
two          two digits beside each other; the class is the number they make, 0 to 99
sum          the same; the class is their sum, 0 to 18 (Ba et al. 2015, arXiv:1412.7755)
house        house numbers: real numbers and boxes, generated backgrounds (:mod:`regard.data.house_numbers`)
distorted    turned, scaled, moved, in perspective or pulled (Jaderberg et al. 2015, arXiv:1506.02025)
addition     two distorted digits in two channels; the class is their sum, 0 to 18
npz          pictures in a file with the arrays X_train, y_train and so on
folder       pictures in a folder for each class
===========  ==========================================================================================================

A batch has ``image`` (B, C, H, W) from 0 to 1, ``label`` (B,), and where it applies ``digits`` (B, 2), both digits, and
``centre`` (B, 2), where the digit is, x and y from −1 to 1. With ``ordered`` the digits are read one by one: ``target``
(B, S) has them from left to right, for house numbers with the class 10, *end*, after the last, and then −1.

Canvases are new in every epoch of training; those of validation and test are the same always, whatever the size of the
batches.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard._lazy import nearest
from regard._settings import at_least
from regard.data import house_numbers
from regard.data import images as files
from regard.data.canvases import DISTORTIONS, Addends, Distorted, Pairs, Plain, Plan, Scattered, drawn
from regard.data.download import locate
from regard.data.house_numbers import HouseNumbers, Numbers
from regard.data.images import Pictures
from regard.tasks.task import SPLITS, VISION, Batch, Loader, Rows, Task, check_split, generated

KINDS = ("plain", "translated", "cluttered", "two", "sum", "house", "distorted", "addition", "npz", "folder")
PAIRS = ("two", "sum")
DRAWN, END = "drawn", "end"
HOUSE = 54
"""Pixels of a house number, as in the paper."""
Canvas = Plain | Scattered | Pairs | Distorted | Addends | HouseNumbers


@dataclass(frozen=True)
class Config:
    """Which pictures, and what becomes of them."""

    kind: str = "plain"
    data: str = DRAWN
    """A folder or file, the name of a known data set, or ``drawn``: digits that are generated."""
    size: int = 0
    """Height and width of a picture; 0 is the usual one: 28, 60 for canvases, as in the paper for distortions."""
    height: int = 0
    """Height of a canvas with two digits, if it is not its width."""
    ordered: bool = False
    """Are the digits of a pair classes of their own, to be read one after the other? House numbers always are."""
    numbers: str = DRAWN
    """Annotations of house numbers: a file or folder, the name of a known data set, or ``drawn``: generated."""
    most: int = 5
    """Digits of the longest house number."""
    clutter: int = 4
    """Pieces of other digits on a cluttered canvas."""
    piece: int = 8
    """Height and width of such a piece."""
    distortion: str = "RTS"
    """R, RTS, P, E or T; of distorted digits and addends."""
    binarize: bool = False
    """Sample pixels, 1 with the probability of their brightness; in training anew each time."""
    colour: bool = False
    """Does a folder hold pictures in colour?"""
    batch: int = 128
    valid: int = 5000
    """Training pictures that are held out for validation, where the data has none."""
    examples: int = 0
    """Use no more training pictures than these; 0 is all."""
    drawn: int = 20000
    """Generated digits to train on; a tenth as many each to validate and to test."""
    data_seed: int = 0
    """Seed of everything that is generated."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind cannot be {self.kind!r}: {nearest(self.kind, KINDS)}")
        if self.distortion not in DISTORTIONS:
            raise ValueError(f"distortion cannot be {self.distortion!r}: {nearest(self.distortion, DISTORTIONS)}")
        at_least(self, "piece", "batch", "valid", "most", size=0, height=0, clutter=0, examples=0, drawn=10)
        if self.height and self.kind not in PAIRS:
            raise ValueError(f"height = {self.height}: pictures of the kind {self.kind!r} are squares; give their size")
        if self.ordered and self.kind not in ("two", "house"):
            raise ValueError(f"ordered: pictures of the kind {self.kind!r} have one class; two and house have digits")
        if self.binarize and self.kind == "house":
            raise ValueError("binarize: house numbers are not light ink on dark paper")
        if self.kind == "folder" and not self.size:
            raise ValueError("pictures of a folder are scaled to one size: say which, size = 32 for instance")


class Digits(Task):
    """Pictures in, classes out; see the module's docstring. What is known without the data: ``sizes``, ``classes``."""

    kind: ClassVar[str] = "digits"
    family: ClassVar[str] = VISION
    unit: ClassVar[str] = "images"
    settings: ClassVar[type] = Config
    learned_from = ("kind", "size", "height", "ordered", "most", "colour", "distortion")

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self._cached_plan = lru_cache(maxsize=4)(self._plan)

    def learn(self) -> dict[str, Any]:
        return {"sizes": self._measure(), "classes": self._names()}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        return {"sizes": dict(facts["sizes"]), "classes": list(facts["classes"])}

    @cached_property
    def pictures(self) -> dict[str, Pictures]:
        """The digits before any change, by split."""
        config = self.config
        where = self.data or config.data
        if str(where) == DRAWN:
            splits = self._draw()
        else:
            try:
                place = locate(where)
            except ValueError as error:
                raise ValueError(f"{error}; digits can also be made: data={DRAWN}") from None
            try:
                splits = self._read(place)
            except ValueError as error:
                if config.kind == "folder" or (not any(place.glob("*/*.png")) and not any(place.glob("*/*.jpg"))):
                    raise
                hint = "pictures in a folder for each class are read with kind=folder size=28, or another size"
                raise ValueError(f"{error}; {hint}") from None
            splits = files.kept_apart(splits, config.valid)
        if config.examples:
            splits["train"] = splits["train"].part(slice(config.examples))
        for split, part in splits.items():
            if not len(part):
                raise ValueError(f"{where}: no picture is in the split {split!r}")
        return splits

    def _read(self, place: Path) -> dict[str, Pictures]:
        """The pictures on disk, by split."""
        if self.config.kind == "npz":
            return files.read_npz(place)
        if self.config.kind == "folder":
            return files.read_image_folder(
                place, self.config.size, 3 if self.config.colour else 1, self.config.data_seed
            )
        return files.read_idx_folder(place)

    @cached_property
    def house_numbers(self) -> dict[str, Numbers]:
        """The house numbers of the kind ``house``, by split."""
        config = self.config
        if config.numbers == DRAWN:
            splits = {}
            for number, split in enumerate(SPLITS):
                random = np.random.default_rng([config.data_seed, number, 3])
                splits[split] = house_numbers.made(random, self.pictures[split].label, config.most)
            return splits
        try:
            place = locate(config.numbers)
        except ValueError as error:
            raise ValueError(f"{error}; house numbers can also be made: numbers={DRAWN}") from None
        splits = house_numbers.read(place, config.most)
        train, valid = splits["train"], min(config.valid, len(splits["train"].digits) // 2)
        if not valid:
            raise ValueError(f"{place}: one number cannot be split into training and validation")
        return {"train": train.part(slice(valid, None)), "valid": train.part(slice(valid)), "test": splits["test"]}

    def _draw(self) -> dict[str, Pictures]:
        counts = {"train": self.config.drawn, "valid": self.config.drawn // 10, "test": self.config.drawn // 10}
        splits = {}
        for number, (split, count) in enumerate(counts.items()):
            images, labels = drawn(np.random.default_rng([self.config.data_seed, number]), count)
            splits[split] = Pictures(images[:, None], labels, [str(digit) for digit in range(10)])
        return splits

    @property
    def size(self) -> int:
        """Width of a picture, and its height where no other is given."""
        config = self.config
        if config.size:
            return config.size
        if config.kind == "house":
            return HOUSE
        if config.kind in ("plain", "npz"):
            return self.pictures["train"].image.shape[-1]
        return DISTORTIONS[config.distortion] if config.kind in ("distorted", "addition") else 60

    def canvas(self, split: str) -> Canvas:
        """How the digits of a split are painted."""
        config, digits, size = self.config, self._part(split), self.size
        digit = digits.image.shape[-1]
        if config.kind == "house":
            return HouseNumbers(size, self.house_numbers[split], digits.label, split == "train")
        room = 2 * digit if config.kind in PAIRS else digit
        if config.height and config.height < digit:
            raise ValueError(f"height = {config.height}: digits have {digit} × {digit} pixels")
        if size < room and config.kind not in ("distorted", "addition"):
            raise ValueError(f"size = {size}: {room} pixels are needed for digits of {digit} × {digit}")
        if config.kind == "cluttered" and config.piece > digit:
            raise ValueError(f"piece = {config.piece}: digits have only {digit} × {digit} pixels")
        if config.kind in ("translated", "cluttered"):
            clutter = config.clutter if config.kind == "cluttered" else 0
            return Scattered(size, digit, len(digits), clutter, config.piece if clutter else 1)
        if config.kind in PAIRS:
            return Pairs(size, digit, len(digits), config.height)
        if config.kind in ("distorted", "addition"):
            if config.distortion == "T" and size < digit:
                raise ValueError(f"size = {size}: digits of {digit} × {digit} pixels cannot be moved on it")
            distorted = Distorted(size, digit, config.distortion)
            return distorted if config.kind == "distorted" else Addends(distorted, len(digits))
        return Plain(size)

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know: channels, height and width of an image, and the number of classes."""
        return dict(self.known["sizes"])

    @property
    def classes(self) -> list[str]:
        """What the classes are called."""
        return list(self.known["classes"])

    def _measure(self) -> dict[str, int]:
        size, classes = self.size, len(self._names())
        channels = 2 if self.config.kind == "addition" else self.pictures["train"].image.shape[1]
        self.canvas("train")  # an error should come now
        sizes = {"channels": channels, "height": self.config.height or size, "width": size, "classes": classes}
        if self.ordered:
            ends = self.config.kind == "house"
            sizes |= {"objects": self.config.most + 1 if ends else 2, "end": ends}
        return sizes

    @property
    def ordered(self) -> bool:
        """Are there several digits to be read one after the other?"""
        return self.config.ordered or self.config.kind == "house"

    def _names(self) -> list[str]:
        if self.ordered:
            return [*(str(digit) for digit in range(10)), *([END] if self.config.kind == "house" else [])]
        if self.config.kind in ("two", "sum", "addition"):
            return [str(number) for number in range(100 if self.config.kind == "two" else 19)]
        return self.pictures["train"].classes

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        rows = Rows(self.count(split), self.config.batch, seed, shuffle)

        def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
            return self.make(split, rows(epoch, number), random)

        settings = {name: value for name, value in dataclasses.asdict(self.config).items() if self._matters(name)}
        identity = {"split": split, "content": self._content(split), **settings}
        return generated(make, len(rows), seed=(SPLITS.index(split), seed), fresh=shuffle, identity=identity)

    def count(self, split: str) -> int:
        """The pictures of a split."""
        check_split(split)
        return len(self.house_numbers[split].digits) if self.config.kind == "house" else len(self._part(split))

    def make(self, split: str, rows: np.ndarray, random: np.random.Generator | None = None) -> Batch:
        """A batch of some digits of a split, in this order; ``random`` is for training alone."""
        canvas, part = self.canvas(split), self._part(split)
        if split == "train":
            plan = self._drawn_plan(canvas, random or np.random.default_rng(self.config.data_seed), len(rows))
        else:
            plan = {name: numbers[rows] for name, numbers in self._cached_plan(split).items()}
        image = canvas.paint(part.image, rows, plan)
        if self.config.binarize:
            image = (image > plan["noise"].reshape(image.shape) / np.float32(255)).astype(np.float32)
        if isinstance(canvas, HouseNumbers):
            return {"image": torch.from_numpy(image), "target": _ended(canvas.numbers.digits[rows])}
        batch = {"image": torch.from_numpy(image), "label": torch.from_numpy(part.label[rows])}
        if isinstance(canvas, Pairs | Addends):
            digits = torch.stack([batch["label"], torch.from_numpy(part.label[plan["second"]])], 1)
            label = digits @ torch.tensor([10, 1]) if self.config.kind == "two" else digits.sum(1)
            batch |= {"label": label, "digits": digits, **({"target": digits} if self.config.ordered else {})}
        elif isinstance(canvas, Scattered):
            batch["centre"] = torch.from_numpy(canvas.centre(plan))
        return batch

    def _plan(self, split: str) -> Plan:
        """The random choices for a whole split that stays the same."""
        random = np.random.default_rng([self.config.data_seed, SPLITS.index(split), 7])
        return self._drawn_plan(self.canvas(split), random, self.count(split))

    def _drawn_plan(self, canvas: Canvas, random: np.random.Generator, n: int) -> Plan:
        plan = canvas.plan(random, n)
        if self.config.binarize:
            sizes = self.sizes
            pixels = sizes["channels"] * sizes["height"] * sizes["width"]
            plan["noise"] = random.integers(0, 255, (n, pixels), np.uint8)
        return plan

    def named(self, batch: Batch, row: int = 0) -> str:
        """What a picture of a batch is: its class, or its digits."""
        if not self.ordered:
            return self.classes[int(batch["label"][row])]
        return self.spelled(batch["target"][row].tolist())

    def spelled(self, digits: Sequence[int]) -> str:
        """Digits that were read one after the other, up to the end."""
        return "".join(str(digit) for digit in digits if 0 <= digit < 10)

    def prepare(self, path: Path) -> torch.Tensor:
        """An image file as these pictures are: (C, H, W), dark paper and light ink."""
        sizes = self.sizes
        pixels = files.read_image(path, sizes["height"], sizes["width"], sizes["channels"])
        return torch.from_numpy(pixels).float() / 255

    def _part(self, split: str) -> Pictures:
        return self.pictures[check_split(split)]

    def _matters(self, name: str) -> bool:
        """Does a setting change the batches of this kind?"""
        only = {"data": (), "numbers": (), "height": PAIRS, "ordered": PAIRS, "most": ("house",)}
        return self.config.kind in only.get(name, KINDS)

    def _content(self, split: str) -> int:
        part = self._part(split)
        if self.config.kind == "house":
            return zlib.crc32(self.house_numbers[split].boxes.tobytes(), zlib.crc32(part.label.tobytes()))
        return zlib.crc32(part.label.tobytes(), zlib.crc32(np.ascontiguousarray(part.image[:64]).tobytes()))


def _ended(digits: np.ndarray) -> torch.Tensor:
    """Digits (n, most) with the class of the end after the last: (n, most + 1)."""
    extended = np.pad(digits, ((0, 0), (0, 1)), constant_values=-1)
    extended[np.arange(len(extended)), (digits >= 0).sum(1)] = 10
    return torch.from_numpy(extended)
