"""Subtitles: words with their times as lines that can be read, in the formats SRT and WebVTT.

A cue has at most two lines of 42 characters and stays long enough to be read at 21 characters a second. One that would
be gone too early stays longer; if the next words are said meanwhile, they come a little later, and catch up at a pause.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

LINE, LINES, SPEED = 42, 2, 21.0
"""Characters of a line, lines of a cue, characters a second."""
PAUSE, LONGEST, SHORTEST = 1.0, 7.0, 0.5
"""Seconds of silence that end a cue, and of the longest and the shortest cue."""
FORMATS = ("srt", "vtt")


class Timed(Protocol):
    """A word, and the seconds at which it begins and ends."""

    @property
    def word(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


class Cue(NamedTuple):
    """Lines that are shown from one second to another."""

    start: float
    end: float
    lines: tuple[str, ...]


def cues(words: Iterable[Timed]) -> list[Cue]:
    """The cues of words in their order."""
    groups: list[list[Timed]] = []
    for word in words:
        group = groups[-1] if groups else []
        late = bool(group) and (word.start - group[-1].end > PAUSE or word.end - group[0].start > LONGEST)
        if not group or late or wrapped([*(earlier.word for earlier in group), word.word]) is None:
            groups.append([word])
        else:
            group.append(word)
    finished: list[Cue] = []
    for group in groups:
        pieces = [piece for word in group for piece in _pieces(word.word)]
        shown_until = finished[-1].end if finished else 0.0
        for lines in _cut(pieces):
            start = max(group[0].start, shown_until)
            least = max(SHORTEST, sum(map(len, lines)) / SPEED)
            shown_until = max(group[-1].end, start + least)
            finished.append(Cue(start, shown_until, lines))
    return finished


def _pieces(word: str) -> list[str]:
    """A word that no line can hold, cut."""
    return [word[first : first + LINE] for first in range(0, len(word), LINE)]


def _cut(pieces: Sequence[str]) -> list[tuple[str, ...]]:
    """The lines of each cue that is needed: one cue, unless a word had to be cut."""
    blocks, pending = [], []  # type: ignore[var-annotated]
    for piece in pieces:
        if wrapped([*pending, piece]) is None:
            blocks.append(wrapped(pending) or ())
            pending = []
        pending.append(piece)
    return [*blocks, wrapped(pending) or ()]


def wrapped(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words in lines as equal as can be; None if they do not fit."""
    whole = " ".join(words)
    if len(whole) <= LINE:
        return (whole,)
    best = None
    for cut in range(1, len(words)):
        lines = " ".join(words[:cut]), " ".join(words[cut:])
        if max(map(len, lines)) <= LINE and (best is None or max(map(len, lines)) < max(map(len, best))):
            best = lines
    return best


def written(cues: Sequence[Cue], form: str) -> str:
    """Cues as the text of a file."""
    if form not in FORMATS:
        raise ValueError(f"subtitles are written as {' or '.join(FORMATS)}, not as {form!r}")
    parts = ["WEBVTT"] if form == "vtt" else []
    for number, cue in enumerate(cues, 1):
        lines = [html.escape(line, quote=False) for line in cue.lines] if form == "vtt" else list(cue.lines)
        times = f"{_clock(cue.start, form)} --> {_clock(cue.end, form)}"
        parts.append("\n".join([*([str(number)] if form == "srt" else []), times, *lines]))
    return "\n\n".join(parts) + "\n"


def _clock(seconds: float, form: str) -> str:
    thousandths = round(1000 * seconds)
    minutes, rest = divmod(thousandths, 60_000)
    mark = "," if form == "srt" else "."
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
