"""Words of any script, as patterns for Python's ``re``, whose ``\\w`` knows neither vowel signs nor Chinese words.

Vowel signs, accents and joiners belong to the letter before them. Scripts that put no space between words are read
character by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from itertools import chain, groupby

UNSPACED_BLOCKS = [  # Thai and Lao, Myanmar, Khmer, kana, Han
    ("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u30ff"),
    ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"),
]  # fmt: skip
JOINER = "\u200d"
_BLOCKS = "".join(f"{first}-{last}" for first, last in UNSPACED_BLOCKS)


def _marks() -> str:
    """All combining marks and the skin tones of emoji, as what stands between brackets."""
    blocks = range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x12000)  # but for Han and Hangul
    marks = (code for code in chain(*blocks) if unicodedata.category(chr(code))[0] == "M")
    runs = ([code for _, code in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0]))
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "🏻-🏿"


_MARKS = _marks()
_LETTER, _CLINGS = rf"[^\W{_BLOCKS}]", rf"[{_MARKS}\u200c{JOINER}]"
LETTERS = rf"{_LETTER}+(?:{_CLINGS}{_LETTER}*)*"
"""A run of letters, digits and underscores of a script with spaces."""
BARE_LETTERS = LETTERS.replace(r"[^\W", r"[^\W_")
"""The same without underscores."""
UNSPACED = rf"[{_BLOCKS}][{_MARKS}]*"
"""A character of a script without spaces."""
SIGN = rf"[^\w\s][{_MARKS}]*(?:{JOINER}[^\w\s][{_MARKS}]*)*"
"""Punctuation, or an emoji with all that is joined to it."""
_BETWEEN = re.compile(rf"(?<=[{_BLOCKS}]) (?=[{_BLOCKS}])")
_CHARACTERS = re.compile(UNSPACED)


def closed(text: str) -> str:
    """Without the blanks between characters of scripts that have none."""
    return _BETWEEN.sub("", text)


def divided(run: str, vocabulary: Container[str], longest: int = 8) -> list[str]:
    """A run of characters of scripts without spaces, as the longest words of ``vocabulary``, else single characters."""
    characters, words = _CHARACTERS.findall(run), list[str]()
    while characters:
        sizes = range(min(longest, len(characters)), 1, -1)
        size = next((size for size in sizes if "".join(characters[:size]) in vocabulary), 1)
        words.append("".join(characters[:size]))
        del characters[:size]
    return words
