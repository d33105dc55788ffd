"""Canvases with digits on them. All chance is drawn first, then a whole batch is painted at once.

A canvas is two functions: ``plan(random, n)`` draws the numbers that n pictures need, arrays with n rows by name, and
``paint(digits, chosen, plan)`` makes n pictures (n, C, size, size), float32 from 0 to 1, of the chosen digits. So the
plan of a test set can be drawn as a whole, and the test is the same whatever the size of a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from regard.kernels import _pool

PIXEL = 4.0  # nanoseconds of one thread

Plan = dict[str, np.ndarray]
DISTORTIONS = {"R": 28, "RTS": 42, "P": 28, "E": 28, "T": 60}
"""How digits are distorted in Jaderberg et al. 2015 (arXiv:1506.02025, appendix A.4), and the canvas that they get."""


def unit(pixels: np.ndarray) -> np.ndarray:
    """Bytes as numbers from 0 to 1."""
    return pixels.astype(np.float32) / np.float32(255) if pixels.dtype == np.uint8 else pixels


def _run(name: str, n: int, pixels: int, *arrays: Any) -> None:
    """A loop of :mod:`regard.data._canvas_loops` over n pictures, on all threads."""
    from regard.data import _canvas_loops

    _pool.run(getattr(_canvas_loops, name), n, PIXEL * n * pixels, *arrays)


@dataclass(frozen=True)
class Plain:
    """The pictures as they are, in the middle of the canvas if that is larger."""

    size: int

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        return {}

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        images = unit(digits[chosen])
        height, width = images.shape[-2:]
        if (height, width) == (self.size, self.size):
            return images
        canvas = np.zeros((*images.shape[:2], self.size, self.size), np.float32)
        top, left = (self.size - height) // 2, (self.size - width) // 2
        canvas[..., top : top + height, left : left + width] = images
        return canvas


@dataclass(frozen=True)
class Scattered:
    """A digit anywhere, over ``clutter`` pieces of others: Mnih et al. 2014 and their ``mnist-cluttered``.

    Each piece is a square cut from anywhere in any digit and put anywhere. What overlaps is added up to at most 1.
    """

    size: int
    digit: int
    pool: int
    clutter: int = 0
    piece: int = 8

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        shape = (n, self.clutter)
        return {
            "corner": random.integers(0, self.size - self.digit + 1, (n, 2)),
            "which": random.integers(0, self.pool, shape),
            "source": random.integers(0, self.digit - self.piece + 1, (*shape, 2)),
            "target": random.integers(0, self.size - self.piece + 1, (*shape, 2)),
        }

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        canvas = np.zeros((len(chosen), self.size, self.size), np.float32)
        for number in range(self.clutter):
            which, source, target = (plan[name][:, number] for name in ("which", "source", "target"))
            _paste(digits, which, source, target, self.piece, canvas)
        _paste(digits, chosen, np.zeros_like(plan["corner"]), plan["corner"], self.digit, canvas)
        return canvas[:, None]

    def centre(self, plan: Plan) -> np.ndarray:
        """(n, 2): the middle of the digit as x and y, from −1 to 1 between the edges of the canvas."""
        middle = (plan["corner"] + self.digit / 2) / self.size
        return (2 * middle[:, ::-1] - 1).astype(np.float32)


@dataclass(frozen=True)
class Pairs:
    """Two digits beside each other, anywhere: the left one is chosen, the right one drawn.

    ``size`` is the width of the canvas, ``height`` its height, the same if it is 0.
    """

    size: int
    digit: int
    pool: int
    height: int = 0

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        across = np.sort(random.integers(0, self.size - 2 * self.digit + 1, (n, 2)), axis=1)
        down = random.integers(0, (self.height or self.size) - self.digit + 1, (n, 2))
        return {
            "second": random.integers(0, self.pool, n),
            "corner": np.stack([down, across + np.array([0, self.digit])], axis=-1),  # (n, which, row and column)
        }

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        canvas = np.zeros((len(chosen), self.height or self.size, self.size), np.float32)
        for number, which in enumerate((chosen, plan["second"])):
            corner = plan["corner"][:, number]
            _paste(digits, which, np.zeros_like(corner), corner, self.digit, canvas)
        return canvas[:, None]


@dataclass(frozen=True)
class Distorted:
    """A digit rotated (R), also scaled and moved (RTS), moved (T), in perspective (P) or pulled like rubber (E).

    R turns by up to 90°; RTS by up to 45°, scales by 0.7 to 1.2 and puts the digit anywhere; P scales by 0.75 to 1
    and moves the corners by normal numbers of 5 pixels; E moves a grid of 4 × 4 points by normal numbers of 1.5 pixels
    and bends the rest as a thin plate. T moves by whole pixels.
    """

    size: int
    digit: int
    how: str

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        if self.how == "E":
            return {"pull": random.normal(0, 1.5, (n, 16, 2)).astype(np.float32)}
        middle = np.full((n, 2), self.size / 2)
        if self.how == "P":
            reach = random.uniform(0.75, 1.0, (n, 1, 1)) * self.digit / 2
            corners = middle[:, None] + reach * _CORNERS + random.normal(0, 5, (n, 4, 2))
            return {"matrix": _homography(corners, self.digit / 2 * (1 + _CORNERS)).astype(np.float32)}
        angle, scale = np.zeros(n), np.ones(n)
        if self.how == "R":
            angle = random.uniform(-90, 90, n)
        elif self.how == "RTS":
            angle, scale = random.uniform(-45, 45, n), random.uniform(0.7, 1.2, n)
        if self.how == "T":
            middle = random.integers(0, self.size - self.digit + 1, (n, 2)) + self.digit / 2
        elif self.how == "RTS":
            margin = np.minimum(scale[:, None] * self.digit, self.size) / 2
            middle = margin + random.random((n, 2)) * (self.size - 2 * margin)
        return {"matrix": _turned(np.deg2rad(angle), scale, middle, self.digit / 2).astype(np.float32)}

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        canvas = np.empty((len(chosen), self.size, self.size), np.float32)
        if self.how == "E":
            rest, basis = _rubber(self.size, self.digit)
            _run("bend", len(chosen), self.size**2, digits[:, 0], chosen, rest + basis @ plan["pull"], canvas)
        else:
            projected(digits, chosen, plan["matrix"], canvas)
        return canvas[:, None]


@dataclass(frozen=True)
class Addends:
    """Two digits in two channels, each distorted for itself: Jaderberg et al. 2015, appendix A.4 (MNIST addition)."""

    each: Distorted
    pool: int

    def plan(self, random: np.random.Generator, n: int) -> Plan:
        first, second = self.each.plan(random, n), self.each.plan(random, n)
        renamed = {f"second_{name}": numbers for name, numbers in second.items()}
        return {"second": random.integers(0, self.pool, n), **first, **renamed}

    def paint(self, digits: np.ndarray, chosen: np.ndarray, plan: Plan) -> np.ndarray:
        other = {name.removeprefix("second_"): rows for name, rows in plan.items() if name.startswith("second_")}
        channels = self.each.paint(digits, chosen, plan), self.each.paint(digits, plan["second"], other)
        return np.concatenate(channels, axis=1)


def projected(digits: np.ndarray, which: np.ndarray, matrix: np.ndarray, canvas: np.ndarray) -> None:
    """Paint some digits (n,) over a canvas (n, height, width), each pixel from where its matrix (n, 3, 3) says."""
    matrix = np.ascontiguousarray(matrix, np.float32)
    _run("project", len(which), canvas[0].size, digits[:, 0], np.ascontiguousarray(which), matrix, canvas)


def _paste(
    digits: np.ndarray, which: np.ndarray, source: np.ndarray, target: np.ndarray, side: int, canvas: np.ndarray
) -> None:
    _run("paste", len(canvas), side**2, digits[:, 0], *map(np.ascontiguousarray, (which, source, target)), side, canvas)


_CORNERS = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]], float)


def _turned(angle: np.ndarray, scale: np.ndarray, middle: np.ndarray, centre: float) -> np.ndarray:
    """(n, 3, 3): canvas → digit, undoing a turn and a scaling round ``middle`` (n, 2), x and y."""
    cosine, sine = np.cos(angle) / scale, np.sin(angle) / scale
    matrix = np.zeros((len(angle), 3, 3))
    matrix[:, 0, 0], matrix[:, 0, 1] = cosine, sine
    matrix[:, 1, 0], matrix[:, 1, 1] = -sine, cosine
    matrix[:, :2, 2] = centre - (matrix[:, :2, :2] @ middle[:, :, None])[..., 0]
    matrix[:, 2, 2] = 1
    return matrix


def _homography(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(n, 3, 3): the perspective that maps four points (n, 4, 2) to four others (4, 2); the identity where none
    does."""
    n = len(source)
    (x, y), (u, v) = source.transpose(2, 0, 1), target.T
    zero, one = np.zeros_like(x), np.ones_like(x)
    system = np.concatenate(
        [
            np.stack([x, y, one, zero, zero, zero, -u * x, -u * y], -1),
            np.stack([zero, zero, zero, x, y, one, -v * x, -v * y], -1),
        ],
        axis=1,
    )
    right = np.broadcast_to(np.concatenate([u, v])[:, None], (n, 8, 1))
    flat = np.abs(np.linalg.det(system)) < 1e-6  # three corners in a line
    system[flat] = np.eye(8)
    solved = np.linalg.solve(system, right)[..., 0]
    matrix = np.concatenate([solved, np.ones((n, 1))], -1).reshape(n, 3, 3)
    matrix[flat] = np.eye(3)
    return matrix


@lru_cache(maxsize=4)
def _rubber(size: int, digit: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the pixels of a canvas lie on the digit at rest (size², 2), and how far they follow each pull."""
    steps = (np.arange(size) + 0.5) * digit / size
    rest = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
    return rest.astype(np.float32), _thin_plate(rest, digit)


def _thin_plate(places: np.ndarray, size: int) -> np.ndarray:
    """(P, 16): how far each of ``places`` (P, 2) follows a pull at each point of a 4 × 4 grid over ``size`` pixels.

    A thin plate through the pulls at the points is Σ wᵢ U(|p − pᵢ|) + a + bᵀp with U(r) = r² log r²; w, a and b are
    linear in the pulls, so that one matrix does for all.
    """
    steps = (np.arange(4) + 0.5) * size / 4
    points = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)

    def bending(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        square = ((left[:, None] - right) ** 2).sum(-1)
        return square * np.log(np.maximum(square, 1e-12))

    system = np.zeros((19, 19))
    system[:16, :16] = bending(points, points)
    system[:16, 16], system[16, :16] = 1, 1
    system[:16, 17:], system[17:, :16] = points, points.T
    basis = np.concatenate([bending(places, points), np.ones((len(places), 1)), places], 1)
    return (basis @ np.linalg.inv(system)[:, :16]).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# Digits that are drawn, for want of written ones


def _arc(x: float, y: float, wide: float, high: float, first: float, last: float, points: int = 9) -> list:
    """Points of an ellipse; angles in degrees, 0 to the right, 90 downwards."""
    angles = [math.radians(first + (last - first) * step / (points - 1)) for step in range(points)]
    return [(x + wide * math.cos(angle), y + high * math.sin(angle)) for angle in angles]


STROKES: list[list[list[tuple[float, float]]]] = [
    [_arc(0.5, 0.5, 0.27, 0.38, -90, 270, 15)],
    [[(0.36, 0.26), (0.52, 0.12), (0.52, 0.5), (0.52, 0.88)]],
    [[*_arc(0.5, 0.33, 0.25, 0.21, -170, 35), (0.5, 0.66), (0.25, 0.87), (0.5, 0.87), (0.78, 0.87)]],
    [[*_arc(0.46, 0.31, 0.24, 0.19, -150, 90), *_arc(0.46, 0.69, 0.27, 0.19, -90, 150)]],
    [[(0.62, 0.12), (0.42, 0.36), (0.22, 0.62), (0.5, 0.62), (0.8, 0.62)], [(0.62, 0.36), (0.62, 0.88)]],
    [[(0.74, 0.13), (0.33, 0.13), (0.3, 0.45), *_arc(0.46, 0.64, 0.27, 0.23, -110, 140)]],
    [[(0.64, 0.12), (0.42, 0.3), (0.28, 0.6), *_arc(0.5, 0.67, 0.23, 0.2, 180, -180, 12)]],
    [[(0.22, 0.14), (0.5, 0.14), (0.78, 0.14), (0.62, 0.5), (0.44, 0.88)]],
    [[*_arc(0.5, 0.3, 0.2, 0.18, 90, 450, 11), *_arc(0.5, 0.68, 0.25, 0.2, -90, 270, 11)]],
    [[*_arc(0.5, 0.33, 0.23, 0.2, 0, -360, 12), (0.72, 0.55), (0.6, 0.88)]],
]
"""The lines of each digit in a square of side 1, x to the right and y downwards."""


def drawn(random: np.random.Generator, n: int, size: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """n digits (n, size, size) as bytes, and which they are: bent, slanted, thick or thin, large or small."""
    labels = random.integers(0, 10, n)
    images = np.zeros((n, size, size), np.uint8)
    for digit in range(10):
        rows = np.flatnonzero(labels == digit)
        images[rows] = _strokes(random, STROKES[digit], len(rows), size)
    return images, labels


def _strokes(random: np.random.Generator, strokes: list[list[tuple[float, float]]], n: int, size: int) -> np.ndarray:
    points = np.concatenate([np.array(stroke) for stroke in strokes])
    ends = np.cumsum([len(stroke) for stroke in strokes]) - 1
    first = np.setdiff1d(np.arange(len(points)), ends)  # the segments lead from these to the next
    moved = points - 0.5 + random.normal(0, 0.015, (n, len(points), 2))
    moved += 0.05 * np.sin(2 * np.pi * (points[:, ::-1] + random.random((n, 1, 2)))) * random.normal(0, 1, (n, 1, 2))
    angle = np.deg2rad(random.uniform(-12, 12, n))
    scale = random.uniform(0.6, 0.85, (n, 2, 1))
    slant = random.uniform(-0.25, 0.15, n)
    turn = np.stack([np.cos(angle), -np.sin(angle) + slant, np.sin(angle), np.cos(angle)], -1).reshape(n, 2, 2)
    moved = moved @ (scale * turn).transpose(0, 2, 1)
    moved = (moved + 0.5) * size + random.uniform(-2, 2, (n, 1, 2))
    begin, end = (np.ascontiguousarray(moved[:, which], np.float32) for which in (first, first + 1))
    thick = random.uniform(0.7, 1.5, n).astype(np.float32)
    images = np.zeros((n, size, size), np.uint8)
    _run("ink", n, 10 * begin.shape[1], begin, end, thick, images)
    return images
