"""Lines of text files: plain or gzipped, bounded in length, in clean Unicode, with their numbers for errors."""

from __future__ import annotations

import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import IO

from regard.data import untrusted

LONGEST = 1 << 20
"""Bytes. No sentence is longer, and a file without line ends must not fill the memory."""

ENDLESS = 1 << 30
"""Bytes. A longer line is not even skipped: a small compressed file can hold one that takes hours to pass."""

DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a damaged file raises."""


@dataclass
class BadLines:
    """What happens to a line that cannot be used: an error, or with ``skip`` a tally."""

    skip: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, file: Path | str, line: int, what: str, number: int = 1) -> None:
        """Note ``number`` bad lines of a kind; the first of them is ``file``:``line``, or the
        whole file if the line is 0."""
        place = f"{file}:{line}" if line else str(file)
        if not self.skip:
            raise ValueError(f"{place}: {what}. Mend it, or leave such lines out with --skip-bad")
        self.counts[kind] = self.counts.get(kind, 0) + number
        self.first.setdefault(kind, place)

    @property
    def total(self) -> int:
        """The number of lines that were left out."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        kinds = [f"{number:,} {kind} (first: {self.first[kind]})" for kind, number in self.counts.items()]
        return f"left out {self.total:,} bad lines: " + ", ".join(kinds) if kinds else "no bad lines"


def clean(text: str) -> str:
    """Single spaces, and composed characters, so that é is é however it was typed. Half characters become ``?``."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
        if len(text) >= LONG_RUN:
            text = _RUN.sub(lambda run: _ordered(run[0]), text)
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


LONG_RUN = 256
_RUN = re.compile(rf"[\u0300-\U0010ffff]{{{LONG_RUN},}}")  # every combining mark is among these


def _ordered(text: str) -> str:
    """The text with its combining marks in canonical order. unicodedata orders them by insertion, a pair at a time,
    which takes minutes for a line of a megabyte.
    """
    characters = chain.from_iterable(unicodedata.normalize("NFD", character) for character in text)
    runs = groupby(characters, key=lambda character: unicodedata.combining(character) > 0)
    return "".join(chain.from_iterable(sorted(run, key=unicodedata.combining) for _, run in runs))


def open_bytes(path: Path) -> IO[bytes]:
    """A file as bytes, decompressed if it is gzipped."""
    untrusted.regular(path)
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), 1 << 20)
    return io.BufferedReader(io.FileIO(path), 1 << 20)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1, without their ends."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}:{number}: not UTF-8 text ({error.reason}); save it as UTF-8") from None
            yield number, line.rstrip("\r\n")


def count_lines(stream: IO[bytes]) -> int:
    """The number of lines that follow, the last with or without its line end."""
    lines, last = 0, b"\n"
    while block := stream.read(1 << 20):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def columns_of(cells: Sequence[str]) -> str:
    """How many columns a line has, in words."""
    return "1 column" if len(cells) == 1 else f"{len(cells)} columns"


def counted(path: Path) -> int:
    """The lines of a file."""
    try:
        with open_bytes(path) as stream:
            return count_lines(stream)
    except DAMAGE as error:
        raise ValueError(f"{path}: damaged or cut off ({error})") from None


def rest_of_line(stream: IO[bytes]) -> int:
    """Read to the end of a line that was read in part; returns the number of bytes."""
    read = 0
    while text := stream.readline(LONGEST):
        read += len(text)
        if text.endswith(b"\n"):
            break
        if read > ENDLESS:
            raise EOFError(f"a line of more than {ENDLESS:,} bytes: this is no text")
    return read


def is_utf8(text: bytes) -> bool:
    """Can it be decoded?"""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
