"""Pairs of sentences on disk: two line-aligned files, tab-separated columns, or JSON lines, each plain or gzipped.

Everything is read in chunks from a position that can be written down, so that a file may be larger than memory and a
loader can go on where it stopped. A bad line names its file and number, or is counted and left out.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, Protocol

from regard.data.lines import DAMAGE, LONGEST, BadLines, clean, count_lines, counted, is_utf8, open_bytes, rest_of_line

CHUNK = 16 << 20
"""Bytes of text read, encoded and bucketed together."""


class Pairs(NamedTuple):
    """Sentences side by side, and the line that each pair stood on."""

    source: list[str]
    target: list[str]
    lines: list[int]


class Position(NamedTuple):
    """Where to read on: lines read so far, and the byte reached in each file (after decompression)."""

    line: int = 0
    offsets: tuple[int, ...] = ()


_START = Position()


class Corpus(Protocol):
    """Pairs that can be read in chunks."""

    @property
    def size(self) -> int:
        """About how many bytes of text there are."""

    def place(self, side: int) -> Path | str:
        """The name of what holds the source (0) or target (1), for messages."""

    def chunks(self, bad: BadLines, start: Position = ..., size: int = ...) -> Iterator[tuple[Pairs, Position]]:
        """Pairs from ``start`` on, about ``size`` (else CHUNK) bytes at a time, each with the position after them."""


@dataclass(frozen=True)
class Listed:
    """Pairs in memory; ``places`` are named in messages."""

    pairs: Pairs
    places: tuple[Path | str, Path | str]

    @property
    def size(self) -> int:
        return 0

    def place(self, side: int) -> Path | str:
        return self.places[side]

    def chunks(self, bad: BadLines, start: Position = _START, size: int = 0) -> Iterator[tuple[Pairs, Position]]:
        yield self.pairs, Position(len(self.pairs.lines))


class _Unreadable(Exception):
    """A line that holds no pair, and why."""


@dataclass(frozen=True)
class Files:
    """Pairs in one file or two. A subclass says how a line of each becomes a pair."""

    files: tuple[Path, ...]
    held: int = -1
    """Pairs whose source has a :func:`key` up to this one are not read: they are held out."""

    def parse(self, raw: list[bytes]) -> tuple[str, str]:
        raise NotImplementedError

    @property
    def size(self) -> int:
        return sum(path.stat().st_size * (4 if path.suffix == ".gz" else 1) for path in self.files)

    def place(self, side: int) -> Path:
        return self.files[min(side, len(self.files) - 1)]

    def lines(self) -> int:
        """Lines of the first file, good and bad."""
        return counted(self.files[0])

    def chunks(self, bad: BadLines, start: Position = _START, size: int = 0) -> Iterator[tuple[Pairs, Position]]:
        with ExitStack() as stack:
            streams = [stack.enter_context(open_bytes(path)) for path in self.files]
            for stream, offset in zip(streams, start.offsets):
                stream.seek(offset)
            position, more = start, True
            while more:
                pairs, position, more = self._read(streams, position, size or CHUNK, bad)
                if pairs.lines:
                    yield pairs, position

    def sample(self, blocks: int = 16, size: int = 1 << 20) -> Iterator[Pairs]:
        """Text from all over the files, without reading all of it. The two sides need not belong together."""
        if self.size <= blocks * size:
            yield from (pairs for pairs, _ in self.chunks(BadLines(skip=True)))
            return
        with ExitStack() as stack:
            streams = [stack.enter_context(open_bytes(path)) for path in self.files]
            for block in range(blocks):
                try:
                    for path, stream in zip(self.files, streams):
                        length = path.stat().st_size * (3 if path.suffix == ".gz" else 1)
                        stream.seek(max(length * block // blocks, stream.tell()))
                        if block:
                            rest_of_line(stream)
                except DAMAGE as error:
                    raise ValueError(f"{path}: damaged or cut off ({error})") from None
                yield self._read(streams, Position(), size, BadLines(skip=True))[0]

    def _read(
        self, streams: Sequence[IO[bytes]], start: Position, size: int, bad: BadLines
    ) -> tuple[Pairs, Position, bool]:
        pairs = Pairs([], [], [])
        line, offsets = start.line, list(start.offsets) or [0] * len(streams)
        room, more = size, True
        try:
            while room > 0:
                raw = [stream.readline(LONGEST) for stream in streams]
                if not all(raw):
                    more = False
                    if any(raw):
                        self._unequal(streams, raw, line, bad)
                    break
                line += 1
                cut = [side for side, text in enumerate(raw) if len(text) == LONGEST and not text.endswith(b"\n")]
                for side, text in enumerate(raw):
                    length = len(text) + (rest_of_line(streams[side]) if side in cut else 0)
                    offsets[side] += length
                    room -= length
                if cut:
                    bad.add("too long", self.place(cut[0]), line, f"a line of more than {LONGEST:,} bytes")
                    continue
                if line == 1:
                    raw = [text.removeprefix(b"\xef\xbb\xbf") for text in raw]
                    if isinstance(self, Tabs) and self.header:
                        continue
                try:
                    source, target = self.parse(raw)
                except UnicodeDecodeError as error:
                    side = next(side for side, text in enumerate(raw) if not is_utf8(text))
                    bad.add("unreadable", self.place(side), line, f"not UTF-8 text ({error.reason})")
                    continue
                except _Unreadable as error:
                    bad.add("unreadable", self.place(0), line, str(error))
                    continue
                if not (source and target):
                    side = 1 if source else 0
                    half = len(self.files) == 1 and (source or target)
                    what = f"the {('source', 'target')[side]} is empty" if half else "an empty line"
                    bad.add("empty", self.place(side), line, what)
                elif self.held < 0 or key(source) > self.held:
                    pairs.source.append(source)
                    pairs.target.append(target)
                    pairs.lines.append(line)
        except DAMAGE as error:
            names = " or ".join(str(path) for path in self.files)
            raise ValueError(f"{names}: damaged or cut off after line {line} ({error})") from None
        return pairs, Position(line, tuple(offsets)), more

    def _unequal(self, streams: Sequence[IO[bytes]], raw: list[bytes], line: int, bad: BadLines) -> None:
        """One file has ended and the other goes on."""
        short = 1 if raw[0] else 0
        further = count_lines(streams[1 - short])
        # The line at hand counts too, unless it was so long that the count began in the middle of it.
        further = further + 1 if raw[1 - short].endswith(b"\n") else max(further, 1)
        long = self.files[1 - short]
        what = f"{self.files[short].name} ends after {line:,} lines, but {long.name} has {line + further:,}"
        bad.add("without a partner", long, line + 1, what, further)


@dataclass(frozen=True)
class Parallel(Files):
    """``train.en`` and ``train.de``: line n of one is the translation of line n of the other."""

    def parse(self, raw: list[bytes]) -> tuple[str, str]:
        return clean(raw[0].decode()), clean(raw[1].decode())

    def check(self) -> None:
        """Both files must have as many lines. For files that are streamed, where the end comes late."""
        counts = [counted(path) for path in self.files]
        if counts[0] != counts[1]:
            (fewer, short), (more, long) = sorted(zip(counts, self.files))
            BadLines().add(
                "", long, fewer + 1, f"{short.name} ends after {fewer:,} lines, but {long.name} has {more:,}"
            )


@dataclass(frozen=True)
class Tabs(Files):
    """``spa.txt`` as Tatoeba has it: source, tab, target; further columns are ignored. With a ``header`` the first line
    names the columns."""

    columns: tuple[int, int] = (1, 2)
    header: bool = False

    def parse(self, raw: list[bytes]) -> tuple[str, str]:
        cells = raw[0].decode().rstrip("\r\n").split("\t")
        if cells == [""]:
            return "", ""
        if len(cells) < max(self.columns):
            raise _Unreadable(f"{len(cells)} tab-separated column(s), but columns {self.columns} are wanted")
        source, target = self.columns
        return clean(cells[source - 1]), clean(cells[target - 1])


@dataclass(frozen=True)
class JsonLines(Files):
    """One JSON object a line: ``{"en": "…", "de": "…"}``, also inside ``"translation"``, or
    ``"source"``/``"target"``.
    """

    languages: tuple[str, str] = ("source", "target")
    FALLBACK: ClassVar[tuple[str, str]] = ("source", "target")

    def parse(self, raw: list[bytes]) -> tuple[str, str]:
        if not raw[0].strip():
            return "", ""
        text = raw[0].decode()
        try:
            value = json.loads(text)
        except RecursionError:
            raise _Unreadable("not JSON (brackets are nested too deeply)") from None
        except ValueError as error:  # also a number of thousands of digits
            raise _Unreadable(f"not JSON ({error})") from None
        if isinstance(value, dict) and isinstance(value.get("translation"), dict):
            value = value["translation"]
        for names in (self.languages, self.FALLBACK):
            if isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names):
                return clean(value[names[0]]), clean(value[names[1]])
        source, target = self.languages
        raise _Unreadable(f"no JSON object with the texts {source!r} and {target!r}")


class _Bare(dict[int, int | None]):
    """A table for str.translate that drops punctuation and learns each character once."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)).startswith("P") else code
        return self[code]


_bare = _Bare()


def key(sentence: str) -> int:
    """A number that sentences share if they differ only in case, punctuation and spacing."""
    bare = " ".join(sentence.lower().translate(_bare).split()) or sentence
    return int.from_bytes(hashlib.blake2b(bare.encode(), digest_size=8).digest(), "big")


def hold_out(corpus: Files, sizes: Mapping[str, int], bad: BadLines, head: int = sys.maxsize) -> dict[str, Corpus]:
    """Split one corpus by source sentence: ``train``, and for each name in ``sizes`` that number of sentences from the
    first ``head`` bytes, each with its first translation. No sentence is on two sides, whatever its case and marks.

    The split depends on the sentences alone, not on their order or on a seed.
    """
    first: dict[int, tuple[str, str, int]] = {}
    for pairs, _ in corpus.chunks(bad, size=min(head, CHUNK)):
        for source, target, line in zip(*pairs):
            first.setdefault(key(source), (source, target, line))
        head -= CHUNK
        if head <= 0:
            break
    keys = sorted(first)
    if not keys and not bad.total:
        raise ValueError(f"{corpus.place(0)}: there is no sentence in it; a sentence is a line")
    if len(keys) <= len(sizes):
        raise ValueError(
            f"{corpus.place(0)}: {len(keys)} different sentences are too few to hold out "
            f"{' and '.join(sizes)} from; give files of their own"
        )
    split: dict[str, Corpus] = {}
    taken = 0
    for name, size in sizes.items():
        number = min(size, max(1, len(keys) // 10))
        chosen = sorted((first[k] for k in keys[taken : taken + number]), key=lambda pair: pair[2])
        columns = [list(column) for column in zip(*chosen)] or [[], [], []]
        split[name] = Listed(Pairs(*columns), (corpus.place(0), corpus.place(1)))
        taken += number
    return {"train": replace(corpus, held=keys[taken - 1]) if taken else corpus, **split}
