"""House numbers: real numbers with their real boxes, drawn with other digits on backgrounds that are made.

The annotations are those of SVHN (Netzer et al. 2011, *Reading Digits in Natural Images with Unsupervised Feature
Learning*), without its pictures: a JSON file, gzipped or not, ``{"train": […], "test": […]}``, whose items are
``[name, width, height, [[digit, left, top, right, bottom], …]]``; the digit 0 is written 10, as SVHN does. Where there
are none, numbers are made up.

As in Goodfellow et al. 2014 (arXiv:1312.6082), which DRAM follows, the picture is cut to the box round all digits, 30 %
larger, and scaled to a square. In training the cut is moved at random.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data import untrusted
from regard.data.canvases import Plan, projected, unit

MARGIN, MOVED, STRETCHED = 0.3, 0.08, 1.5
NAME = "annotations.json.gz"


class Numbers(NamedTuple):
    """House numbers.

    Attributes:
        digits: (n, most), −1 after the last.
        boxes: (n, most, 4), left, top, right and bottom of each digit, as shares of the cut: 0 is its left or upper
            edge, 1 its right or lower one.
    """

    digits: np.ndarray
    boxes: np.ndarray

    def part(self, rows: slice) -> Numbers:
        """The numbers of some rows."""
        return Numbers(self.digits[rows], self.boxes[rows])


def read(path: Path, most: int) -> dict[str, Numbers]:
    """The numbers of an annotation file, or of the folder that holds one, by its splits; those of more than ``most``
    digits are left out."""
    path = path / NAME if path.is_dir() else path
    try:
        annotations = json.loads(untrusted.read(path))
        if not isinstance(annotations, dict) or not {"train", "test"} <= annotations.keys():
            raise ValueError('it must be {"train": […], "test": […]}')
        return {split: _numbers(annotations[split], most, split) for split in ("train", "test")}
    except FileNotFoundError:
        raise ValueError(f"no data at {path}: the annotations of house numbers are wanted") from None
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not annotations of house numbers: {error}") from None


def _numbers(items: list, most: int, split: str) -> Numbers:
    if not isinstance(items, list):
        raise ValueError(f"{split}: a list of numbers was expected, not {json.dumps(items)[:80]}")
    digits, boxes = [], []
    for row, item in enumerate(items):
        try:
            _, _, _, parts = item
            rows = np.array([[float(value) for value in part] for part in parts])
            if rows.shape[1] != 5 or not np.isfinite(rows).all():
                raise ValueError
            if not ((rows[:, 3] > rows[:, 1]) & (rows[:, 4] > rows[:, 2])).all():
                raise ValueError
            classes = rows[:, 0].astype(int) % 10
        except (ValueError, TypeError, IndexError, OverflowError):
            excerpt = json.dumps(item)[:80]
            raise ValueError(f"{split}, item {row}: not [name, width, height, boxes], but {excerpt}") from None
        if len(rows) <= most:
            order = np.argsort(rows[:, 1], kind="stable")
            digits.append(np.pad(classes[order], (0, most - len(rows)), constant_values=-1))
            boxes.append(np.pad(_cut(rows[order, 1:]), ((0, most - len(rows)), (0, 0))))
    if not digits:
        raise ValueError(f"{split}: no number has {most} digits or fewer")
    return Numbers(np.stack(digits), np.stack(boxes).astype(np.float32))


def _cut(boxes: np.ndarray) -> np.ndarray:
    """Boxes (…, 4) as shares of the one round all of them, larger by the margin."""
    low, high = boxes[:, :2].min(0), boxes[:, 2:].max(0)
    size = (high - low) * (1 + MARGIN)
    corner = (low + high - size) / 2
    return (boxes - np.tile(corner, 2)) / np.tile(size, 2)


def made(random: np.random.Generator, labels: np.ndarray, most: int) -> Numbers:
    """n generated numbers of one to ``most`` digits, drawn from ``labels`` (n,), in rows that rise or fall a little."""
    n = len(labels)
    digits, boxes = np.full((n, most), -1), np.zeros((n, most, 4), np.float32)
    for row, length in enumerate(random.integers(1, most + 1, n)):
        digits[row, :length] = random.choice(labels, length)
        wide, slope = random.uniform(0.45, 0.7, length), random.normal(0, 0.08)
        left = np.cumsum(wide) - wide
        top = slope * np.arange(length) + random.normal(0, 0.03, length)
        boxes[row, :length] = _cut(np.stack([left, top, left + 0.92 * wide, top + 1], 1))
    return Numbers(digits, boxes)


@dataclass(frozen=True, eq=False)
class HouseNumbers:
    """A canvas: numbers by their rows, painted in ``size`` × ``size`` pixels with digits of the right classes.

    Attributes:
        numbers: what is painted.
        labels: which digit each of the pictures is.
        moves: is the cut moved at random?
    """

    size: int
    numbers: Numbers
    labels: np.ndarray
    moves: bool

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        most = self.numbers.digits.shape[1]
        paper, light = random.uniform(0.1, 0.9, n), random.random(n) < 0.5
        # Ink is at least 0.3 brighter or darker than the paper.
        bright = np.where(paper + 0.3 > 0.95, False, np.where(paper - 0.3 < 0.05, True, light))
        reach = random.random(n)
        ink = np.where(bright, paper + 0.3 + reach * (0.7 - paper), paper - 0.3 - reach * (paper - 0.3))
        return {
            "which": random.random((n, most)),
            "moved": random.uniform(-MOVED, MOVED, (n, 2)) if self.moves else np.zeros((n, 2)),
            "paper": np.stack([paper, random.normal(0, 0.1, n), random.normal(0, 0.1, n)], 1),
            "ink": ink.clip(0, 1),
            "noise": random.integers(0, 2**31, n),
        }

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        """Pictures (n, 1, size, size) of the numbers of some rows (n,)."""
        size, count = self.size, len(chosen)
        names, boxes = self.numbers.digits[chosen], self.numbers.boxes[chosen] + np.tile(plan["moved"], 2)[:, None]
        order = np.argsort(self.labels, kind="stable")
        starts = np.searchsorted(self.labels[order], np.arange(11))
        mask = np.zeros((count, size, size), np.float32)
        for place in range(names.shape[1]):
            rows = np.flatnonzero(names[:, place] >= 0)
            if not len(rows):
                continue
            name = names[rows, place]
            pool = starts[name + 1] - starts[name]
            if (pool == 0).any():
                raise ValueError(f"no picture shows the digit {name[pool == 0][0]}, which a house number needs")
            which = order[starts[name] + (plan["which"][rows, place] * pool).astype(int)]
            layer = np.empty((len(rows), size, size), np.float32)
            projected(digits, which, _onto(boxes[rows, place] * size, _ink(digits[which, 0])), layer)
            mask[rows] = np.maximum(mask[rows], layer)
        base, right, down = (plan["paper"][:, part, None, None] for part in range(3))
        steps = np.linspace(-1, 1, size)
        paper = base + right * steps + down * steps[:, None]
        speckle = [np.random.default_rng(int(seed)).normal(0, 0.04, (size, size)) for seed in plan["noise"]]
        picture = paper + mask * (plan["ink"][:, None, None] - paper) + np.stack(speckle)
        return picture.clip(0, 1).astype(np.float32)[:, None]


def _ink(digits: np.ndarray) -> np.ndarray:
    """(n, 4): left, top, right and bottom of what is drawn on pictures (n, height, width)."""
    dark = np.asarray(unit(digits) > 0.3)
    sides = []
    for axis in (1, 2):  # columns, rows
        lines = np.asarray(dark.any(axis))
        sides.append((lines.argmax(1), lines.shape[1] - lines[:, ::-1].argmax(1)))
    (left, right), (top, bottom) = sides
    return np.stack([left, top, right, bottom], 1).astype(float)


def _onto(box: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """(n, 3, 3): canvas → digit, so that the ink (n, 4) fills the box (n, 4).

    A narrow digit, such as a 1, would become a block in a wide box: it is not made wider than ``STRETCHED`` times what
    its height says, and stands in the middle.
    """
    matrix, box = np.zeros((len(box), 3, 3)), box.copy()
    tall = (box[:, 3] - box[:, 1]) / (ink[:, 3] - ink[:, 1])
    wide = np.minimum(box[:, 2] - box[:, 0], STRETCHED * tall * (ink[:, 2] - ink[:, 0]))
    box[:, 0] = (box[:, 0] + box[:, 2] - wide) / 2
    box[:, 2] = box[:, 0] + wide
    for axis in (0, 1):
        scale = (ink[:, axis + 2] - ink[:, axis]) / np.maximum(box[:, axis + 2] - box[:, axis], 1e-3)
        matrix[:, axis, axis] = scale
        matrix[:, axis, 2] = ink[:, axis] - scale * box[:, axis]
    matrix[:, 2, 2] = 1
    return matrix
