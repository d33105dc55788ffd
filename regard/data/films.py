"""Films of one thing that moves, with its box in every frame.

Made films: a drawn digit flies over a dark canvas with pieces of other digits, bounces off its edges, and from the
second frame on one side of it is hidden by noise that is new in every frame. Textured films: an oval of 1/f noise moves
before a panned ground of such noise, nearer and farther, while its look and the light slowly change. Files: ``.npz``
with ``frames`` (T, height, width), bytes, and ``boxes`` (T, 4), left, top, width and height in pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data import untrusted
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


def textured(random: np.random.Generator, length: int, size: int = 64) -> Film:
    """A new film of ``length`` frames of a target of a quarter to two fifths of ``size``."""
    margin, skin = size // 4, size // 2
    ground, faces = _noise(random, size + 2 * margin), [_noise(random, skin) for _ in range(2)]
    nearer, across, down, turned, light, slant = _waves(random, length, 6)
    side = random.uniform(0.25, 0.4) * size
    halves = (
        side * np.exp(0.35 * nearer)[:, None] * np.array([random.uniform(1.0, 1.3), 1.0]) / 2
    )  # (T, 2): down, across
    tone, behind = random.uniform(0.3, 0.7, 2)
    fastest = 1.5 * size / 64
    place, angle = random.uniform(side, size - side, 2), random.uniform(0, 2 * np.pi)
    speed = random.uniform(0.2, 1.0) * fastest * np.array([np.sin(angle), np.cos(angle)])
    y, x = np.mgrid[:size, :size] + 0.5
    frames, boxes = np.empty((length, 1, size, size), np.float32), np.empty((length, 4), np.float32)
    for t, half in enumerate(halves):
        speed = speed + 0.1 * fastest * random.standard_normal(2)
        speed *= min(1.0, fastest / max(float(np.linalg.norm(speed)), 1e-9))
        speed = np.where((place + speed < half) | (place + speed > size - half), -speed, speed)
        place = np.clip(place + speed, half, size - half)
        frame = behind + 0.2 * _read(ground, y + margin + margin / 3 * down[t], x + margin + margin / 3 * across[t])
        v, u = (y - place[0]) / half[0], (x - place[1]) / half[1]
        look = np.cos(0.8 * turned[t]) * faces[0] + np.sin(0.8 * turned[t]) * faces[1]
        face = tone + 0.2 * _read(look, (v + 1) * skin / 2, (u + 1) * skin / 2)
        frame += (face - frame) / (1 + np.exp(12 * (np.hypot(u, v) - 1.1)))
        frame *= 2 ** (0.7 * light[t]) * (1 + 0.4 * slant[t] * (x / size - 0.5))
        frame += 0.02 * random.standard_normal(frame.shape)
        frames[t, 0] = np.clip(frame, 0, 1)
        boxes[t] = (place[1] - half[1], place[0] - half[0], 2 * half[1], 2 * half[0])
    return Film(frames, boxes)


def _noise(random: np.random.Generator, side: int) -> np.ndarray:
    """(side, side): noise of unit variance, whose amplitude falls with frequency as in photographs."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    frequency[0, 0] = np.inf
    field = np.fft.irfft2(np.fft.rfft2(random.standard_normal((side, side))) / frequency**1.3, (side, side))
    return np.asarray(field / field.std())


def _waves(random: np.random.Generator, length: int, count: int) -> np.ndarray:
    """(count, length): sines of 60 to 300 frames."""
    period, phase = random.uniform(60, 300, (count, 1)), random.uniform(0, 2 * np.pi, (count, 1))
    return np.asarray(np.sin(2 * np.pi * np.arange(length) / period + phase))


def _read(field: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A field at places from 0 to its height and width, bilinear; its edge goes on outside."""
    high, wide = field.shape
    y, x = np.clip(y - 0.5, 0, high - 1), np.clip(x - 0.5, 0, wide - 1)
    top, left = np.minimum(y.astype(int), high - 2), np.minimum(x.astype(int), wide - 2)
    y, x = y - top, x - left
    upper = (1 - x) * field[top, left] + x * field[top, left + 1]
    lower = (1 - x) * field[top + 1, left] + x * field[top + 1, left + 1]
    return np.asarray((1 - y) * upper + y * lower)


def read(path: Path) -> Film:
    """A film from a file, or from the one ``.npz`` file of a folder."""
    if path.is_dir():
        files = sorted(path.glob("*.npz"))
        if len(files) != 1:
            expected = f"one .npz file with a film, arrays frames and boxes, was expected, not {len(files)}"
            raise ValueError(f"{path}: {expected}")
        path = files[0]
    try:
        members = untrusted.unzip(path, lambda name: name in ("frames.npy", "boxes.npy"))
        frames, boxes = (untrusted.npy(members[f"{name}.npy"], f"{path}, {name}") for name in ("frames", "boxes"))
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: not a film, an .npz file with arrays frames and boxes ({error})") from None
    if frames.ndim != 3 or frames.dtype != np.uint8 or boxes.shape != (len(frames), 4) or len(frames) < 2:
        raise ValueError(
            f"{path}: frames (T, height, width) of bytes and boxes (T, 4), not {frames.shape}, {boxes.shape}"
        )
    boxes = boxes.astype(np.float32)
    if not np.isfinite(boxes).all() or (boxes[:, 2:] <= 0).any():
        raise ValueError(f"{path}: boxes must be finite and not empty")
    return Film(frames[:, None] / np.float32(255), boxes)
