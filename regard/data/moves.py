"""Generated clips: coloured shapes that move over a canvas, one after another, with their captions.

    a red circle moves left · a red circle moves left then a blue square moves up

A clip has one or two events. A shape is on the canvas only while it moves, and when that is differs from clip to clip,
so that it can be measured whether a system looks at the right frames for a word. The frames of a shape that moves left
are those of one that moves right in another order: their mean tells neither the direction nor which event came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.data.scenes import COLOURS, SHAPES, stencil

DIRECTIONS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
"""Rows and columns of a step."""
LASTS = 4
"""Frames of an event."""


class Event(NamedTuple):
    """A shape that moves from frame ``first`` to frame ``last``."""

    shape: str
    colour: str
    direction: str
    first: int
    last: int


class Clip(NamedTuple):
    """Frames (F, 3, size, size), bytes, and what happens in them, in its order."""

    frames: np.ndarray
    events: tuple[Event, ...]


def draw(random: np.random.Generator, size: int = 32, frames: int = 12, most: int = 2, least: int = 1) -> Clip:
    """A new clip of ``least`` to ``most`` events in ``frames`` frames of ``size`` × ``size`` pixels."""
    check(size, frames, most, least)
    count = int(random.integers(least, most + 1))
    pixels = np.empty((frames, 3, size, size), np.float32)
    pixels[:] = random.uniform(200, 250)  # paper of some grey
    kinds = random.choice(len(SHAPES) * len(COLOURS), count, replace=False)
    free = frames - count * LASTS
    pauses = np.sort(random.integers(0, free + 1, count))  # frames without an event before each event, in total
    events = []
    for number, (kind, pause) in enumerate(zip(kinds.tolist(), pauses.tolist())):
        shape, colour = SHAPES[kind % len(SHAPES)], list(COLOURS)[kind // len(SHAPES)]
        direction = list(DIRECTIONS)[int(random.integers(len(DIRECTIONS)))]
        first = number * LASTS + pause
        events.append(Event(shape, colour, direction, first, first + LASTS - 1))
        _move(pixels[first : first + LASTS], events[-1], random)
    pixels += random.standard_normal(pixels.shape, np.float32) * 6
    return Clip(pixels.clip(0, 255).astype(np.uint8), tuple(events))


def _move(frames: np.ndarray, event: Event, random: np.random.Generator) -> None:
    """Draw an event into its frames: from one side of the canvas towards the other, a quarter of its width a frame."""
    size = frames.shape[-1]
    side = size // 4
    paint = np.asarray(COLOURS[event.colour], np.float32) + random.uniform(-20, 20, 3).astype(np.float32)
    across = int(random.integers(0, size - side + 1))
    along = np.linspace(0, size - side, len(frames)).round().astype(int)
    down, right = DIRECTIONS[event.direction]
    for frame, place in zip(frames, along if down + right > 0 else along[::-1]):
        top, left = (place, across) if down else (across, place)
        spot = frame[:, top : top + side, left : left + side]
        np.copyto(spot, paint[:, None, None], where=stencil(event.shape, side))


def check(size: int, frames: int, most: int, least: int = 1) -> None:
    """Can such clips be drawn?"""
    if size < 24:
        raise ValueError(f"a clip has at least 24 pixels a side, not {size}")
    if not 1 <= least <= most <= 2:
        raise ValueError(f"a clip has 1 or 2 events, not {least} to {most}")
    if frames < most * LASTS:
        raise ValueError(f"{most} events of {LASTS} frames need {most * LASTS} frames, not {frames}")


def caption(events: Sequence[Event]) -> str:
    """What happens, in its order."""
    return " then ".join(f"a {event.colour} {event.shape} moves {event.direction}" for event in events)


def mentioned(words: Sequence[str], events: Sequence[Event]) -> list[tuple[int, int]]:
    """Which words tell of which events: (number of the word, number of the event) for the shapes and directions of
    each clause whose colour and shape an event has."""
    names = {(event.colour, event.shape): number for number, event in enumerate(events)}
    mentions, current = [], None
    for place, word in enumerate(words):
        if word == "then":
            current = None
        elif place and (words[place - 1], word) in names:
            current = names[words[place - 1], word]
            mentions.append((place, current))
        elif current is not None and word in DIRECTIONS:
            mentions.append((place, current))
    return mentions


def vocabulary() -> list[str]:
    """Every word of a caption."""
    return ["a", "moves", "then", *DIRECTIONS, *COLOURS, *SHAPES]
