"""Tokens as people see them: controls made visible, and widths in terminal cells. Standard library only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

ELLIPSIS = "…"
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_NAMED = {"": "∅", " ": "␣", "\n": "↵", "\t": "⇥", "\u00a0": "␣"}


def visible(token: str) -> str:
    """The token on one line, with nothing in it that a terminal or a figure would obey instead of show.

    Empty and blank tokens get a sign (``∅``, ``␣``). Control characters, and invisible ones that could turn the
    direction of what follows, are shown by their number: ESC is ``‹1B›``.
    """
    if token and not token.strip(" "):
        return _NAMED[" "] * len(token)
    return _NAMED.get(token) or "".join(map(_visible_character, token))


def _visible_character(character: str) -> str:
    if character in _NAMED and character != " ":
        return _NAMED[character]
    kind = unicodedata.category(character)
    # The joiners shape Persian, Indic scripts and emoji.
    if kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and character not in (_JOINER, "\u200c")):
        return f"‹{ord(character):02X}›"
    return character


def right_to_left(text: str) -> bool:
    """Is the first letter with a direction of its own from a script that runs from right to left?"""
    for character in text:
        direction = unicodedata.bidirectional(character)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


def clusters(text: str) -> list[str]:
    """What a reader counts as one character: a base with its marks, an emoji sequence, a flag."""
    characters: list[str] = []
    for character in text:
        last = characters[-1] if characters else ""
        tone = 0x1F3FB <= ord(character) <= 0x1F3FF
        flag = _regional(character) and len(last) == 1 and _regional(last)
        mark = _zero(character) or unicodedata.category(character) == "Mc"
        if last and (mark or last.endswith(_JOINER) or tone or flag):
            characters[-1] += character
        else:
            characters.append(character)
    return characters


def cells(text: str) -> int:
    """How many cells of a terminal the text takes: 2 for an East Asian wide character, 0 for a combining mark."""
    return sum(map(_cluster_cells, clusters(text)))


def shorten(text: str, width: int) -> str:
    """The text, cut with an ellipsis to at most ``width`` cells."""
    if cells(text) <= width:
        return text
    start, used = "", 0
    for cluster in clusters(text):
        used += _cluster_cells(cluster)
        if used > width - 1:
            break
        start += cluster
    return start + ELLIPSIS if width else ""


def pad(text: str, width: int, side: str = "left") -> str:
    """The text with blanks up to ``width`` cells; ``side`` is where the text goes: left, right or centre."""
    blanks = max(0, width - cells(text))
    before = {"left": 0, "right": blanks, "centre": blanks // 2}[side]
    return " " * before + text + " " * (blanks - before)


def labels(tokens: Iterable[object]) -> list[str]:
    """Each token as text, made visible."""
    return [visible(str(token)) for token in tokens]


def _zero(character: str) -> bool:
    return (
        character == _JOINER
        or unicodedata.category(character) in ("Mn", "Me", "Cf")
        or 0x1160 <= ord(character) <= 0x11FF  # the vowels and finals of a Korean syllable
    )


def _regional(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def _cluster_cells(cluster: str) -> int:
    if _EMOJI_STYLE in cluster or _regional(cluster[0]):
        return 2
    if _zero(cluster[0]):
        return 0
    spacing = sum(unicodedata.category(mark) == "Mc" for mark in cluster[1:])
    return (2 if unicodedata.east_asian_width(cluster[0]) in "WF" else 1) + spacing
