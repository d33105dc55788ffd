"""Pairs of sentences on disk: two line-aligned files, tab-separated columns, or JSON lines, each plain or gzipped.

Everything is read in chunks from a position that can be written down, so that a file may be larger than memory and a
loader can go on where it stopped. A bad line names its file and number, or is counted and left out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, Protocol

from regard.data import untrusted

LONGEST = 1 << 20
"""Bytes. No sentence is longer, and a file without line ends must not fill the memory."""

ENDLESS = 1 << 30
"""Bytes. A longer line is not even skipped: a small compressed file can hold one that takes hours to pass."""

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

    def lines(self) -> int:
        """Lines of the first file, good and bad."""
        return _counted(self.files[0])

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
                            _rest_of_line(stream)
                except _DAMAGE as error:
                    raise ValueError(f"{path}: damaged or cut off ({error})") from None
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
                    if isinstance(self, Tabs) and self.header:
                        continue
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
        counts = [_counted(path) for path in self.files]
        if counts[0] != counts[1]:
            (few, short), (many, long) = sorted(zip(counts, self.files))
            BadLines().add("", long, few + 1, f"{short.name} ends after {few:,} lines, but {long.name} has {many:,}")


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
            found = json.loads(text)
        except RecursionError:
            raise _Unreadable("not JSON (brackets are nested too deeply)") from None
        except ValueError as error:  # also a number of thousands of digits
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
    return open(path, "rb", buffering=1 << 20)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1, without their ends."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}:{number}: not UTF-8 text ({error.reason})") from None
            yield number, line.rstrip("\r\n")


def count_lines(stream: IO[bytes]) -> int:
    """How many lines follow, the last with or without its line end."""
    lines, last = 0, b"\n"
    while block := stream.read(1 << 20):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def _counted(path: Path) -> int:
    try:
        with open_bytes(path) as stream:
            return count_lines(stream)
    except _DAMAGE as error:
        raise ValueError(f"{path}: damaged or cut off ({error})") from None


def _rest_of_line(stream: IO[bytes]) -> int:
    read = 0
    while text := stream.readline(LONGEST):
        read += len(text)
        if text.endswith(b"\n"):
            break
        if read > ENDLESS:
            raise EOFError(f"a line of more than {ENDLESS:,} bytes: this is no text")
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


_NOTES = ("about", "licence", "license", "notice", "readme")
THREE_LETTERS = {
    **{"ar": "ara", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa", "fi": "fin"},
    **{"fr": "fra", "he": "heb", "hu": "hun", "it": "ita", "ja": "jpn", "ko": "kor", "nl": "nld", "pl": "pol"},
    **{"pt": "por", "ro": "ron", "ru": "rus", "sv": "swe", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "cmn"},
}
"""ISO 639-3 codes, which Tatoeba's files are named after."""
_CODES = {*THREE_LETTERS, *THREE_LETTERS.values()}


def spellings(language: str) -> set[str]:
    """What a language may be called in the name or the first line of a file: ``es``, ``spa``."""
    short = language.lower()
    return {short, THREE_LETTERS.get(short, short), *(two for two, three in THREE_LETTERS.items() if three == short)}


ROLES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def find(
    path: Path,
    source: str,
    target: str,
    columns: tuple[int, int] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Files]:
    """The corpora in a folder (or one file) by role: ``train``, and ``valid`` and ``test`` where they are.

    A corpus is ``NAME.en`` beside ``NAME.de``, or ``NAME.jsonl``, or tab-separated ``NAME.tsv`` or ``NAME.txt``; each
    may end in ``.gz``. A name that starts with train, val or dev, or test has that role; a single corpus, or the only
    one that is named after one of the languages, is ``train``. ``names`` says which corpus has a role, for all other
    cases. ``columns`` are those of source and target in tab-separated files; None finds them, see :func:`_tabs`.
    """
    if not (path.is_file() or path.is_dir()):
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
    if "train" not in roles:
        either = spellings(source) | spellings(target)
        named = {name: corpus for name, corpus in left.items() if name.lower() in either}
        for only in (left, named):
            if len(only) == 1:
                roles["train"] = next(iter(only.values()))
    if "train" not in roles:
        _explain_half(path, source, target)
        raise ValueError(
            f"{path}: no text to train on. Looked for train.{source} beside train.{target}, train.jsonl, train.tsv, or "
            f"one file of source, tab, target; each may end in .gz. Found: {', '.join(sorted(found)) or 'nothing'}"
        )
    for role, corpus in roles.items():
        if empty := [file for file in corpus.files if file.stat().st_size == 0]:
            told = " and ".join(str(file) for file in empty)
            raise ValueError(f"{told}: empty, but it is the text for {role}; a sentence is a line of it")
    return {role: roles[role] for role in ROLES if role in roles}


def _explain_half(path: Path, source: str, target: str) -> None:
    """Half of a pair of files is a frequent mistake."""
    if not path.is_dir():
        return
    there = {file.name.removesuffix(".gz") for file in path.iterdir()}
    for have, lack in ((source, target), (target, source)):
        for name in sorted(there):
            stem, _, ending = name.rpartition(".")
            if stem.startswith("train") and ending == have and f"{stem}.{lack}" not in there:
                raise ValueError(f"{path}: {name} is there, but not {stem}.{lack}: each language has a file of its own")


def _corpora(path: Path, source: str, target: str, columns: tuple[int, int] | None) -> dict[str, Files]:
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
            found.setdefault(stem, _tabs(file, stem, source, target, columns))
    if path.is_file() and not found:
        found[path.name] = _tabs(path, path.stem, source, target, columns)
    return found


def _tabs(file: Path, stem: str, source: str, target: str, columns: tuple[int, int] | None) -> Tabs:
    """A tab-separated file, whose columns are those that were asked for, or those of the languages that its first line
    or its name tells; else the first is the source and the second the target."""
    with open_bytes(file) as stream:
        first = stream.readline(LONGEST).decode(errors="replace").removeprefix("\ufeff").rstrip("\r\n")
    named = [cell.strip().lower() for cell in first.split("\t")]
    places = [next((n for n, cell in enumerate(named, 1) if cell in spellings(code)), 0) for code in (source, target)]
    if all(places):
        if columns is not None and list(columns) != places:
            told = f"columns = {columns[0]},{columns[1]}, but the first line of the file says {source} is column"
            raise ValueError(f"{file}: {told} {places[0]} and {target} column {places[1]}; leave columns out")
        return Tabs((file,), columns=(places[0], places[1]), header=True)
    if len(named) > 1 and all(cell in _CODES for cell in named):
        missing = target if places[0] else source
        raise ValueError(f"{file}: no column is called {missing!r}; its first line names {', '.join(named)}")
    turned = stem.lower() in spellings(source)  # Tatoeba: English, tab, the language that the file is named after
    return Tabs((file,), columns=columns or ((2, 1) if turned else (1, 2)))
