"""Films of one thing that moves, with its box in every frame.

Made films: a drawn digit flies over a dark canvas with pieces of other digits, bounces off its edges, and from the
second frame on one side of it is hidden by noise that is new in every frame. Files: ``.npz`` with ``frames``
(T, height, width), bytes, and ``boxes`` (T, 4), left, top, width and height in pixels.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.canvases import drawn

DIGIT, PIECE = 28, 8


class Film(NamedTuple):
    """Frames (T, 1, height, width) from 0 to 1, and boxes (T, 4)."""

    frames: np.ndarray
    boxes: np.ndarray


def made(random: np.random.Generator, length: int, size: int = 64, clutter: int = 8, hidden: float = 0.5) -> Film:
    """A new film of ``length`` frames; ``hidden`` is the share of the digit's box that is covered."""
    digits, _ = drawn(random, 1 + clutter, DIGIT)
    digit, pieces = digits[0] / np.float32(255), digits[1:] / np.float32(255)
    ground = np.zeros((size, size), np.float32)
    for piece in pieces:
        top, left = random.integers(0, DIGIT - PIECE + 1, 2)
        down, across = random.integers(0, size - PIECE + 1, 2)
        spot = ground[down : down + PIECE, across : across + PIECE]
        np.maximum(spot, piece[top : top + PIECE, left : left + PIECE], out=spot)
    covered = np.zeros((DIGIT, DIGIT), bool)
    deep = round(hidden * DIGIT)
    covered[:deep] = True
    covered = np.rot90(covered, int(random.integers(4)))
    room = size - DIGIT
    place, angle = random.uniform(0, room, 2), random.uniform(0, 2 * np.pi)
    speed = random.uniform(1.0, 2.5) * np.array([np.cos(angle), np.sin(angle)])
    frames, boxes = np.empty((length, 1, size, size), np.float32), np.empty((length, 4), np.float32)
    for t in range(length):
        top, left = np.rint(place).astype(int)
        frame = ground.copy()
        spot = frame[top : top + DIGIT, left : left + DIGIT]
        np.maximum(spot, digit, out=spot)
        if t:
            spot[covered] = random.random(int(covered.sum()), np.float32)
        frames[t, 0], boxes[t] = frame, (left, top, DIGIT, DIGIT)
        speed = np.where((place + speed < 0) | (place + speed > room), -speed, speed)
        place = np.clip(place + speed, 0, room)
    return Film(frames, boxes)


def read(path: Path) -> Film:
    """A film from a file, or from the one ``.npz`` file of a folder."""
    if path.is_dir():
        found = sorted(path.glob("*.npz"))
        if len(found) != 1:
            raise ValueError(f"{path}: one .npz file with a film was expected, not {len(found)}")
        path = found[0]
    try:
        with np.load(path, allow_pickle=False) as arrays:
            frames, boxes = arrays["frames"], arrays["boxes"]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a film, which has frames and boxes: {error}") from None
    if frames.ndim != 3 or frames.dtype != np.uint8 or boxes.shape != (len(frames), 4) or len(frames) < 2:
        raise ValueError(
            f"{path}: frames (T, height, width) of bytes and boxes (T, 4), not {frames.shape}, {boxes.shape}"
        )
    boxes = boxes.astype(np.float32)
    if not np.isfinite(boxes).all() or (boxes[:, 2:] <= 0).any():
        raise ValueError(f"{path}: boxes must be finite and not empty")
    return Film(frames[:, None] / np.float32(255), boxes)
