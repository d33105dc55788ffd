"""Text in figures: fonts that can draw it, and lines that fit."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from regard.views.text import ELLIPSIS, cells, shorten

# DejaVu comes with matplotlib; the others are the usual ones on Linux, macOS and Windows.
_FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Nirmala UI",
    "Segoe UI",
    "Noto Emoji",
    "Segoe UI Emoji",
)


@cache
def _installed() -> dict[str, str]:
    """The family names of the fonts that matplotlib knows and their files, the usual ones first."""
    from matplotlib.font_manager import fontManager

    files: dict[str, str] = {}
    for entry in fontManager.ttflist:
        if entry.style == "normal" and not entry.name.startswith((".", "Last Resort")) and "Color" not in entry.name:
            files.setdefault(entry.name, entry.fname)
    return {name: files[name] for name in _FAMILIES if name in files} | files


@cache
def _refresh() -> bool:
    """Tell matplotlib, whose list of fonts is as old as its cache, of fonts that came since."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    listed = {entry.fname for entry in fontManager.ttflist}
    new = [file for file in findSystemFonts() if file not in listed]
    for file in new:
        with suppress(OSError, RuntimeError, ValueError):
            fontManager.addfont(file)
    _installed.cache_clear()
    return bool(new)


@cache
def _characters(file: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(file).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _cover(characters: set[int]) -> tuple[list[str], set[int]]:
    """Families that together draw the characters, and those that none draws."""
    families = []
    for family, file in _installed().items():
        if not characters:
            break
        if covered := characters & _characters(file):
            families.append(family)
            characters = characters - covered
    return families, characters


def drawable(*groups: list[str]) -> tuple[list[str], list[list[str]]]:
    """Fonts that together can draw the texts, and the texts, with boxes for what none can.

    matplotlib falls back from font to font in the order of this list. For a character that none has it would warn at
    every drawing; here all of them are one warning.
    """
    characters = {ord(character) for group in groups for text in group for character in text if character != "\n"}
    families, missing = _cover(characters)
    if missing and _refresh():
        families, missing = _cover(characters)
    shaping = {code for code in missing if chr(code) in "\u200c\u200d\ufe0e\ufe0f"}
    if boxed := sorted(missing - shaping):
        signs = "".join(map(chr, boxed[:20])) + (ELLIPSIS if len(boxed) > 20 else "")
        warnings.warn(f"no installed font has {signs}; they are drawn as boxes", stacklevel=3)
    table = {**dict.fromkeys(missing, "□"), **dict.fromkeys(shaping, "")}
    return families or ["DejaVu Sans"], [[text.translate(table) for text in group] for group in groups]


@contextmanager
def quiet() -> Iterator[None]:
    """Without matplotlib's remark that a fallback font has no such weight, which it repeats for every size."""
    log = logging.getLogger("matplotlib.font_manager")

    def other_remark(record: logging.LogRecord) -> bool:
        return "font weight" not in record.getMessage()

    log.addFilter(other_remark)
    try:
        yield
    finally:
        log.removeFilter(other_remark)


def wrapped(text: str, inches: float, size: float) -> str:
    """The text wrapped at about ``inches``. Bold letters are 0.65 em wide, East Asian ones twice that."""
    most = max(8, int(inches * 72 / (0.65 * size)))
    lines: list[str] = []
    for line in text.split("\n"):
        current = ""
        for word in line.split(" "):
            joined = f"{current} {word}" if current else word
            if cells(joined) <= most:
                current = joined
                continue
            if current:
                lines.append(current)
            while cells(word) > most:
                part = shorten(word, most + 1).removesuffix(ELLIPSIS) or word[0]
                lines.append(part)
                word = word[len(part) :]
            current = word
        lines.append(current)
    return "\n".join(lines)
