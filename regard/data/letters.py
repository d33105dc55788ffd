"""Handwritten lines made from nothing: a stroke font of 26 small letters, drawn with a style for each line and with
jitter.

A letter is one to two strokes through a few points in tenths of the x-height, x to the right and y upwards from the
baseline, joined by Catmull-Rom curves; ``!`` marks a corner. It is drawn at equal distances along the curve, so that
the number of points of a letter hardly depends on the style.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from regard.data.strokes import Line

FONT = {
    "a": "8,8 4,10 1,8 0,4 2,0 5,1 8,8! 8,3 10,0",
    "b": "0,18 0,0! 0,6 3,10 7,9 8,5 6,0 3,0 0,3",
    "c": "8,8 5,10 1,8 0,4 2,0 5,0 8,2",
    "d": "8,8 5,10 1,8 0,4 2,0 5,0 8,5! 8,18! 8,0",
    "e": "0,5 8,5! 7,9 4,10 1,8 0,4 2,0 5,0 8,2",
    "f": "8,16 6,18 3,15 3,0|0,10 6,10",
    "g": "8,8 5,10 1,8 0,4 2,1 5,1 8,8! 8,-4 6,-8 2,-8 0,-6",
    "h": "0,18 0,0! 0,6 3,10 6,9 7,6 7,0",
    "i": "0,10 0,2 2,0|0,14 0,15",
    "j": "3,10 3,-5 1,-8 -2,-7|3,14 3,15",
    "k": "0,18 0,0|6,10 0,4! 6,0",
    "l": "0,18 0,3 1,0 3,0",
    "m": "0,10 0,0! 0,6 2,10 4,9 5,6 5,0! 5,6 7,10 9,9 10,6 10,0",
    "n": "0,10 0,0! 0,6 3,10 6,9 7,6 7,0",
    "o": "5,10 1,8 0,4 2,0 5,0 8,3 8,7 5,10",
    "p": "0,10 0,-8! 0,6 3,10 7,9 8,5 6,0 3,0 0,3",
    "q": "8,8 5,10 1,8 0,4 2,1 5,1 8,8! 8,-8! 11,-5",
    "r": "0,10 0,0! 0,6 3,10 6,9",
    "s": "7,8 4,10 1,8 2,6 6,4 7,2 4,0 0,1",
    "t": "3,16 3,3 5,0 7,1|0,10 6,10",
    "u": "0,10 0,4 2,0 5,0 7,4 7,10! 7,0",
    "v": "0,10 3,0! 6,10",
    "w": "0,10 2,0! 5,8! 8,0! 10,10",
    "x": "0,10 7,0|7,10 0,0",
    "y": "0,10 1,4 3,2 6,4 8,10! 7,0 5,-6 2,-8 0,-7",
    "z": "0,10 7,10! 0,0! 7,0",
}
"""The strokes of each letter, parted by a bar."""
ALPHABET = "".join(FONT)
STEP = 0.33
"""From one point to the next, in x-heights."""
SPACE, GAP = 0.7, 0.4
"""The width of a blank, and between letters, in x-heights."""
UNIT = 40.0
"""An x-height as files have it, where offsets are whole numbers."""
_ONSETS = [*"bcdfghjklmnprstvwyz", "st", "tr", "pl", "gr", "sh", "th", "qu", "ch", "br", "cl", "wh"]
_VOWELS = [*"aeiou", "ea", "ou", "io", "ai"]
_CODAS = ["", "", "n", "r", "s", "t", "l", "d", "m", "x", "ng", "ck", "st"]


@cache
def _controls(letter: str) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The points (P, 2) of each stroke, y downwards, and which of them are corners."""
    strokes = []
    for stroke in FONT[letter].split("|"):
        words = stroke.split()
        points = np.array([[float(number) for number in word.rstrip("!").split(",")] for word in words]) / 10
        strokes.append((points * [1, -1], np.array([word.endswith("!") for word in words])))
    return tuple(strokes)


@cache
def _basis(letter: str, stroke: int) -> np.ndarray:
    """(N, P): a stroke's points as sums of its P control points, at equal distances where these are not moved."""
    controls, corners = _controls(letter)[stroke]
    count = len(controls)
    ends = [0, *(i for i in np.flatnonzero(corners).tolist() if 0 < i < count - 1), count - 1]
    share = np.linspace(0, 1, 8, endpoint=False)[:, None]
    curves = []
    for first, last in pairwise(ends):
        piece = np.eye(count)[first : last + 1]
        padded = np.concatenate([2 * piece[:1] - piece[1:2], piece, 2 * piece[-1:] - piece[-2:-1]])
        for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:]):
            quadratic = 2 * b + (c - a) * share + (2 * a - 5 * b + 4 * c - d) * share**2
            curves.append((quadratic + (3 * b - a - 3 * c + d) * share**3) / 2)
    dense = np.concatenate([*curves, np.eye(count)[-1:]])
    along = np.concatenate([[0], np.hypot(*np.diff(dense @ controls, axis=0).T).cumsum()])
    places = np.linspace(0, along[-1], max(2, round(float(along[-1]) / STEP) + 1))
    return np.stack([np.interp(places, along, side) for side in dense.T], 1)


def glyph(letter: str, random: np.random.Generator | None = None, jitter: float = 0.035) -> list[np.ndarray]:
    """The strokes (P, 2) of a letter, in x-heights, y downwards from the baseline; moved about if ``random``."""
    strokes = []
    for number, (points, _) in enumerate(_controls(letter)):
        moved = points if random is None else points + random.normal(0, jitter, points.shape)
        strokes.append(_basis(letter, number) @ moved)
    return strokes


def words(random: np.random.Generator, longest: int) -> str:
    """A line of made-up words of at most ``longest`` characters: syllables, and any letters at random."""
    line: list[str] = []
    target = int(random.integers(max(2, longest // 2), longest + 1))
    while len(" ".join(line)) < target:
        if random.random() < 0.35:
            word = "".join(random.choice(list(ALPHABET), int(random.integers(1, 7))))
        else:
            parts = (_ONSETS, _VOWELS, _CODAS) * int(random.integers(1, 4))
            word = "".join(str(random.choice(part)) for part in parts)
        line.append(word)
    return " ".join(line)[:longest].strip()


def draw(text: str, random: np.random.Generator, name: str = "") -> Line:
    """A text in a style of its own: slant, width, size, gaps, and a baseline that drifts."""
    slant, wide = random.uniform(-0.1, 0.45), random.uniform(0.85, 1.15)
    size, gap, drift = random.uniform(0.9, 1.1), GAP * random.uniform(0.8, 1.2), random.normal(0, 0.008)
    pieces, letters, x = [], [], 0.0
    for place, letter in enumerate(text):
        if letter == " ":
            x += SPACE * random.uniform(0.85, 1.15)
            continue
        if letter not in FONT:
            raise ValueError(f"there is no letter {letter!r} in this font, only {ALPHABET}")
        strokes = glyph(letter, random)
        left, right = min(s[:, 0].min() for s in strokes), max(s[:, 0].max() for s in strokes)
        lift = random.normal(0, 0.03)
        for stroke in strokes:
            down = stroke[:, 1] + lift
            across = (stroke[:, 0] - left + x) * wide - slant * down
            moved = np.stack([across, down + drift * across], 1) * size + random.normal(0, 0.008, stroke.shape)
            up = np.zeros(len(moved))
            up[-1] = 1
            pieces.append(np.concatenate([moved, up[:, None]], 1))
            letters += [place] * len(moved)
        x += right - left + gap
    if not pieces:
        raise ValueError(f"{text!r}: a line has at least one letter")
    points = np.concatenate(pieces)
    points[:, :2] = np.diff(points[:, :2] * UNIT, axis=0, prepend=points[:1, :2] * UNIT)
    return Line(name, text, points.astype(np.float32), np.array(letters))


def templates() -> dict[str, list[list[np.ndarray]]]:
    """For each letter its strokes in several slants and widths, for :func:`regard.metrics.strokes.read`."""
    by_letter = {}
    for letter in ALPHABET:
        shapes = []
        for slant in (0.0, 0.18, 0.36):
            for wide in (0.9, 1.1):
                strokes = glyph(letter)
                moved = [np.stack([wide * s[:, 0] - slant * s[:, 1], s[:, 1]], 1) * UNIT for s in strokes]
                shapes.append(moved)
        by_letter[letter] = shapes
    return by_letter
