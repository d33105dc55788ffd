"""Running text on disk: plain text, Reuters' SGML, or the first column of tab-separated lines, each plain or gzipped.

Text is read in pieces of whole lines (of SGML, whole articles) from a place that can be written down, so that files may
be larger than memory and a reader can go on where it stopped. Without files named after splits, the end of every file
is held out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

from regard.data import untrusted
from regard.data.corpora import ROLES
from regard.data.download import locate
from regard.data.lines import open_bytes

PIECE = 16 << 20
"""Bytes that are read at once."""
LONGEST = 1 << 22
"""Bytes of a line; a longer one is read in parts."""
WORD = 64
"""Bytes in which a word ends, if words have blanks between them."""
BODY = re.compile(r"<BODY>(.*?)(?:\s*Reuters?\s*)?(?:&#3;)?</BODY>", re.DOTALL | re.IGNORECASE)
_COLUMNS = re.compile(rb"\s*[^\t\s][^\t]*\t")
_JOINED = re.compile(r" @([-,.])@ ")
_NOTES = ("_about", "about", "license", "licence", "notice", "readme")


class Place(NamedTuple):
    """Where to read on: the number of a file, and the byte reached in it (after decompression)."""

    file: int = 0
    offset: int = 0


@dataclass(frozen=True)
class TextFile:
    """One file, from the first byte of ``start`` to ``stop``, shares of its length; both move to the next line, or
    article. If plain text has no line end in the next share ``near`` of it, both move to the next blank."""

    path: Path
    start: float = 0.0
    stop: float = 1.0
    near: float = 1.0

    @property
    def kind(self) -> str:
        """``sgm``, ``tabs`` or ``plain``."""
        ending = Path(self.path.name.removesuffix(".gz")).suffix
        if ending in (".sgm", ".sgml"):
            return "sgm"
        return "tabs" if ending == ".tsv" or self._has_columns else "plain"

    @cached_property
    def _has_columns(self) -> bool:
        """Does each of the first lines have text before a tab, and all as many tabs? A paragraph may begin with one."""
        with _opened(self.path) as stream:
            lines = [line for line in islice(iter(lambda: stream.readline(LONGEST), b""), 100) if line.strip()]
        return len({line.count(b"\t") for line in lines}) == 1 and all(_COLUMNS.match(line) for line in lines)

    @cached_property
    def size(self) -> int:
        """Bytes, after decompression."""
        if self.path.suffix != ".gz":
            return untrusted.regular(self.path).stat().st_size
        return len(untrusted.read(self.path))

    def pieces(self, offset: int, most: int) -> Iterator[tuple[str, int]]:
        """Text from a byte on, each piece with the byte after it."""
        kind, (first, last) = self.kind, self._ends
        with _opened(self.path) as stream:
            stream.seek(offset or first)
            place = stream.tell()
            while place < last:
                lines, stop = [], min(last, place + most)
                while place < stop and (line := stream.readline(min(LONGEST, last - place))):
                    line += b"" if line.endswith(b"\n") or place + len(line) == last else _rest_of_character(stream)
                    place += len(line)
                    lines.append(line)
                if kind == "sgm" and lines and not _closes(lines[-1]):
                    lines += self._to_end(stream, kind)
                    place = stream.tell()
                if not lines:
                    return
                yield self._text(b"".join(lines), kind, place), place

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        with _opened(self.path) as stream:
            first, last = (self._next(stream, int(self.size * share)) for share in (self.start, self.stop))
        return first, last

    def _next(self, stream: BufferedReader, place: int) -> int:
        """Where the first line, or article, begins that is not before a place; or the next word."""
        if place in (0, self.size):
            return place
        stream.seek(place - 1)
        near = max(int(self.size * self.near), WORD)
        if self.kind != "plain" or stream.readline(near).endswith(b"\n"):
            stream.seek(place - 1)
            self._to_end(stream, self.kind)
            return stream.tell()
        stream.seek(place)
        while (byte := stream.peek(1)[:1]) and not byte.isspace() and stream.tell() < place + WORD:
            stream.read(1)
        _rest_of_character(stream)
        return stream.tell()

    @staticmethod
    def _to_end(stream: BufferedReader, kind: str) -> list[bytes]:
        """The rest of a line, or of an article."""
        lines = []
        while line := stream.readline(LONGEST):
            lines.append(line)
            if kind != "sgm" or _closes(line):
                break
        return lines

    def _text(self, raw: bytes, kind: str, place: int) -> str:
        try:
            text = raw.decode("latin-1" if kind == "sgm" else "utf-8")  # Reuters has a few bytes beyond ASCII
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            where = f"{self.path}:{line}" if place == len(raw) else f"{self.path}, before byte {place:,}"
            raise ValueError(f"{where}: not UTF-8 text ({error.reason})") from None
        text = text.replace("\r\n", "\n").removeprefix("\ufeff")
        if kind == "sgm":
            bodies = (html.unescape(match[1]) for match in BODY.finditer(text))
            return "".join(" ".join(body.replace("\x03", "").split()) + "\n" for body in bodies)
        if kind == "tabs":
            firsts = [line.partition("\t")[0] for line in text.splitlines()]
            return "".join(f"{line}\n" for line, before in zip(firsts, ["", *firsts]) if line and line != before)
        return _JOINED.sub(r"\1", text)  # WikiText writes 1 @,@ 000 for 1,000


def _opened(path: Path) -> BufferedReader:
    return cast(BufferedReader, open_bytes(path))


def _rest_of_character(stream: BufferedReader) -> bytes:
    """What is left of a character in UTF-8, from within it."""
    rest = b""
    while b"\x80" <= stream.peek(1)[:1] < b"\xc0":
        rest += stream.read(1)
    return rest


def _closes(line: bytes) -> bool:
    return b"</REUTERS>" in line


class Running:
    """The text of a split: files one after another."""

    def __init__(self, files: Sequence[TextFile]):
        self.files = list(files)

    @property
    def size(self) -> int:
        """About how many bytes there are."""
        return sum(int(file.size * (file.stop - file.start)) for file in self.files)

    def pieces(self, place: Place = Place(), most: int = PIECE) -> Iterator[tuple[str, Place]]:  # noqa: B008
        """Text from a place on, each piece with the place after it."""
        for number in range(place.file, len(self.files)):
            offset = place.offset if number == place.file else 0
            for text, after in self.files[number].pieces(offset, most):
                yield text, Place(number, after)


def find(where: str, held: Mapping[str, float]) -> dict[str, Running]:
    """The text of each split in files or folders, several joined by ``+``.

    Where a folder has files named ``train…``, ``valid…`` and ``test…``, those are the splits; elsewhere the last share
    ``held["test"]`` of every file is for testing, ``held["valid"]`` before it for validation.
    """
    splits: dict[str, list[TextFile]] = {split: [] for split in ROLES}
    for name in str(where).split("+"):
        path = locate(name.strip())
        files = [path] if path.is_file() else sorted(file for file in path.iterdir() if _is_text(file))
        if not files:
            raise ValueError(
                f"{path}: there is no text in it; looked for .txt, .text, .tsv and .sgm, or those with .gz"
            )
        by_name = {
            split: [file for file in files if file.name.lower().startswith(starts)] for split, starts in ROLES.items()
        }
        if by_name["train"]:
            for split, paths in by_name.items():
                splits[split] += map(TextFile, paths)
            continue
        cuts = (0.0, 1 - held["valid"] - held["test"], 1 - held["test"], 1.0)
        for split, start, stop in zip(splits, cuts, cuts[1:]):
            splits[split] += [TextFile(file, start, stop, min(held.values()) / 2) for file in files]
    return {split: Running(files) for split, files in splits.items()}


def _is_text(path: Path) -> bool:
    name = path.name.lower().removesuffix(".gz")
    stem, _, ending = name.rpartition(".")
    return path.is_file() and ending in ("txt", "text", "tsv", "sgm", "sgml") and not stem.startswith(_NOTES)
