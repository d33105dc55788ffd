"""Pairs of sentences on disk: two line-aligned files, tab-separated columns, or JSON lines, each plain or gzipped.

Everything is read in chunks from a position that can be written down, so that a file may be larger than memory and a
loader can go on where it stopped. A bad line names its file and number, or is counted and left out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, Protocol

LONGEST = 1 << 20
"""Bytes. No sentence is longer, and a file without line ends must not fill the memory."""

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
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass
class BadLines:
    """What happens to a line that cannot be used: an error, or with ``skip`` a tally."""

    skip: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, file: Path | str, line: int, what: str, number: int = 1) -> None:
        """Note ``number`` bad lines of a kind; the first of them is ``file``:``line``."""
        if not self.skip:
            raise ValueError(f"{file}:{line}: {what}. Mend it, or leave such lines out with --skip-bad")
        self.counts[kind] = self.counts.get(kind, 0) + number
        self.first.setdefault(kind, f"{file}:{line}")

    @property
    def total(self) -> int:
        """How many lines were left out."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        kinds = [f"{number:,} {kind} (first: {self.first[kind]})" for kind, number in self.counts.items()]
        return f"left out {self.total:,} bad lines: " + ", ".join(kinds) if kinds else "no bad lines"


class Corpus(Protocol):
    """Pairs that can be read in chunks."""

    @property
    def size(self) -> int:
        """About how much text there is."""

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
                for path, stream in zip(self.files, streams):
                    length = path.stat().st_size * (3 if path.suffix == ".gz" else 1)
                    stream.seek(max(length * block // blocks, stream.tell()))
                    if block:
                        stream.readline()
                yield self._read(streams, Position(), size, BadLines(skip=True))[0]

    def _read(
        self, streams: list[IO[bytes]], start: Position, size: int, bad: BadLines
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
                    length = len(text) + (_rest_of_line(streams[side]) if side in cut else 0)
                    offsets[side] += length
                    room -= length
                if cut:
                    bad.add("too long", self.place(cut[0]), line, f"a line of more than {LONGEST:,} bytes")
                    continue
                if line == 1:
                    raw = [text.removeprefix(b"\xef\xbb\xbf") for text in raw]
                try:
                    source, target = self.parse(raw)
                except UnicodeDecodeError as error:
                    side = next(side for side, text in enumerate(raw) if not _is_utf8(text))
                    bad.add("unreadable", self.place(side), line, f"not UTF-8 text ({error.reason})")
                    continue
                except _Unreadable as error:
                    bad.add("unreadable", self.place(0), line, str(error))
                    continue
                if not (source and target):
                    side = 1 if source else 0
                    one = len(self.files) == 1 and (source or target)
                    what = f"the {('source', 'target')[side]} is empty" if one else "an empty line"
                    bad.add("empty", self.place(side), line, what)
                elif self.held < 0 or key(source) > self.held:
                    pairs.source.append(source)
                    pairs.target.append(target)
                    pairs.lines.append(line)
        except _DAMAGE as error:
            names = " or ".join(str(path) for path in self.files)
            raise ValueError(f"{names}: damaged or cut off after line {line} ({error})") from None
        return pairs, Position(line, tuple(offsets)), more

    def _unequal(self, streams: list[IO[bytes]], raw: list[bytes], line: int, bad: BadLines) -> None:
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
        counts = []
        for path in self.files:
            try:
                with open_bytes(path) as stream:
                    counts.append(count_lines(stream))
            except _DAMAGE as error:
                raise ValueError(f"{path}: damaged or cut off ({error})") from None
        if counts[0] != counts[1]:
            (few, short), (many, long) = sorted(zip(counts, self.files))
            BadLines().add("", long, few + 1, f"{short.name} ends after {few:,} lines, but {long.name} has {many:,}")


@dataclass(frozen=True)
class Tabs(Files):
    """``spa.txt`` as Tatoeba has it: source, tab, target; further columns are ignored."""

    columns: tuple[int, int] = (1, 2)

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
        try:
            found = json.loads(raw[0].decode())
        except json.JSONDecodeError as error:
            raise _Unreadable(f"not JSON ({error})") from None
        if isinstance(found, dict) and isinstance(found.get("translation"), dict):
            found = found["translation"]
        for names in (self.languages, self.FALLBACK):
            if isinstance(found, dict) and all(isinstance(found.get(name), str) for name in names):
                return clean(found[names[0]]), clean(found[names[1]])
        source, target = self.languages
        raise _Unreadable(f"no JSON object with the texts {source!r} and {target!r}")


def clean(text: str) -> str:
    """Single spaces, and composed characters, so that é is é however it was typed. Half characters become ``?``."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.encode(errors="replace").decode())
    return " ".join(text.split())


def open_bytes(path: Path) -> IO[bytes]:
    """A file as bytes, decompressed if it is gzipped."""
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), 1 << 20)
    return open(path, "rb", buffering=1 << 20)


def count_lines(stream: IO[bytes]) -> int:
    """How many lines follow, the last with or without its line end."""
    lines, last = 0, b"\n"
    while block := stream.read(1 << 20):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def _rest_of_line(stream: IO[bytes]) -> int:
    read = 0
    while text := stream.readline(LONGEST):
        read += len(text)
        if text.endswith(b"\n"):
            break
    return read


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


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
    """Split one corpus by source sentence: ``train``, and for each name in ``sizes`` so many sentences of the first
    ``head`` bytes, each with its first translation. No sentence is on two sides, whatever its case and punctuation.

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


_NOTES = ("about", "licence", "license", "notice", "readme")
ROLES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def find(
    path: Path, source: str, target: str, columns: tuple[int, int] = (1, 2), names: Mapping[str, str] | None = None
) -> dict[str, Files]:
    """The corpora in a folder (or one file) by role: ``train``, and ``valid`` and ``test`` where they are.

    A corpus is ``NAME.en`` beside ``NAME.de``, or ``NAME.jsonl``, or tab-separated ``NAME.tsv`` or ``NAME.txt``; each
    may end in ``.gz``. A name that starts with train, val or dev, or test has that role; a single corpus is ``train``
    whatever its name. ``names`` says which corpus has a role, for all other cases.
    """
    if not path.exists():
        raise ValueError(f"{path}: there is no such file or folder")
    found = _corpora(path, source, target, columns)
    wanted = {role: name for role, name in (names or {}).items() if name}
    for role, name in wanted.items():
        if name not in found:
            raise ValueError(f"{path}: no {role} corpus {name!r}; found: {', '.join(sorted(found)) or 'none'}")
    roles = {role: found[name] for role, name in wanted.items()}
    left = {name: corpus for name, corpus in found.items() if corpus not in roles.values()}
    for role, starts in ROLES.items():
        fitting = [name for start in starts for name in sorted(left) if name.lower().startswith(start)]
        if role not in roles and fitting:
            roles[role] = found[fitting[0]]
    if "train" not in roles and len(left) == 1:
        roles["train"] = next(iter(left.values()))
    if "train" not in roles:
        raise ValueError(
            f"{path}: no text to train on. Looked for train.{source} beside train.{target}, train.jsonl, train.tsv, or "
            f"one file of source, tab, target; each may end in .gz. Found: {', '.join(sorted(found)) or 'nothing'}"
        )
    return {role: roles[role] for role in ROLES if role in roles}


def _corpora(path: Path, source: str, target: str, columns: tuple[int, int]) -> dict[str, Files]:
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
    plain = {p.name.removesuffix(".gz"): p for p in reversed(files)}  # where both are there, the uncompressed one
    found: dict[str, Files] = {}
    for name, file in sorted(plain.items()):
        stem, _, ending = name.rpartition(".")
        if stem and ending == source and f"{stem}.{target}" in plain:
            found[stem] = Parallel((file, plain[f"{stem}.{target}"]))
    parallel = bool(found)
    for name, file in sorted(plain.items()):
        stem, _, ending = name.rpartition(".")
        if ending in ("jsonl", "json"):
            found.setdefault(stem, JsonLines((file,), languages=(source, target)))
        elif ending == "tsv" or (ending == "txt" and not parallel and stem.lower() not in _NOTES):
            found.setdefault(stem, Tabs((file,), columns=columns))
    if path.is_file() and not found:
        found[path.name] = Tabs((path,), columns=columns)
    return found
