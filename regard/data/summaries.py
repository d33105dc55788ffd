"""Texts with what is to be written about them: summaries, headlines, keyphrases, questions in other words.

* JSON lines, or a JSON array, with ``source`` and ``target``, each a text or a list of them, as SciTLDR has them: a
  source in sentences, several references. Other keys are not read.
* tab-separated lines: source, target. A first line ``source``, tab, ``target`` is a heading.
* a JSON array of CANARD (Elgohary, Peskov & Boyd-Graber 2019): ``History``, ``Question``, ``Rewrite``. The source is
  the question, then the title, the section and the last four turns, with | between.
* a folder of Reuters' SGML: bodies with their titles, split as ``LEWISSPLIT`` says. Left out are articles that are
  tables, and those whose title has no word of the body, as Rush et al. 2015 (arXiv:1509.00685) do.
* an archive of abstracts and keyphrases, ``docsutf8/7.txt`` beside ``keys/7.key``, a phrase a line (Inspec).

Files are plain or gzipped. An error names file and line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from regard.data import parts, untrusted
from regard.data.lines import clean, columns_of
from regard.data.running import BODY

ENDINGS = (".jsonl", ".ndjson", ".tsv", ".json", ".zip")
TURNS = 4
"""Turns of a conversation that are read, beside the question."""
_SENTENCE = re.compile(r"(?<=[.!?])(?<![. ][A-Z]\.)\s+(?=[\"'“(]?[A-Z0-9])|(?<= [.!?])\s+|(?<=[。！？।؟])\s*(?=\S)")
_ARTICLE = re.compile(r"<REUTERS\b([^>]*)>(.*?)</REUTERS>", re.DOTALL)
_TITLE = re.compile(r"<TITLE>(.*?)</TITLE>", re.DOTALL)
_LEWIS = re.compile(r'LEWISSPLIT="([A-Z-]+)"')
_TABLE = re.compile(r"\s*(?:shr|qtly|qtrly|oper shr|net\b|blah|\*)", re.IGNORECASE)
_LONG_WORD = re.compile(r"[a-z]{4,}")


class Pair(NamedTuple):
    """A text and what is to be written about it.

    Attributes:
        source: the text.
        targets: references, or phrases.
        lead: what one would write without a system: the first sentence, or the question as it is.
    """

    source: str
    targets: tuple[str, ...]
    lead: str


def read(path: Path, prefix: str = "") -> dict[str, list[Pair]]:
    """The pairs of each split; see :func:`regard.data.parts.split` for what is held out."""
    if path.is_dir() and (articles := [file for file in sorted(path.iterdir()) if _ending(file) in (".sgm", ".sgml")]):
        return _reuters(path, articles)
    files = parts.find(path, prefix, ENDINGS)
    if any(_ending(file) == ".json" for file in files.values()):
        # A conversation is held out as a whole: its questions have their history in common.
        by_split = parts.split(files, _talks, mixed=False)
        return {split: [pair for talk in talks for pair in talk] for split, talks in by_split.items()}
    return parts.split(files, _file)


def lead(text: str) -> str:
    """The first sentence."""
    return _SENTENCE.split(text.strip(), maxsplit=1)[0]


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _file(path: Path) -> list[Pair]:
    ending = _ending(path)
    if ending == ".zip":
        return _archive(path)
    if ending in (".jsonl", ".ndjson"):
        return [_line(line, place) for place, line in _lines(path)]
    lines = list(_lines(path))
    heading = bool(lines) and lines[0][1].lower().split("\t") == ["source", "target"]
    return [_tabs(line, place) for place, line in lines[heading:]]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, raw in enumerate(untrusted.read(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        place = f"{path}:{number}"
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"{place}: not UTF-8 text ({error.reason})") from None
        if line.strip():
            yield place, line


def _line(line: str, place: str) -> Pair:
    return _entry(untrusted.parse_json_line(line, place), place, line)


def _entry(entry: Any, place: str, line: str) -> Pair:
    if not isinstance(entry, dict) or not {"source", "target"} <= entry.keys():
        raise ValueError(f'{place}: a line is {{"source": …, "target": …}}, not {line[:60]!r}')
    source, targets = (_texts(entry[key], f"{place}: {key}") for key in ("source", "target"))
    first = source[0] if len(source) > 1 else lead(source[0])
    return Pair(" ".join(source), targets, first)


def _texts(value: Any, place: str) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in values):
        raise ValueError(f"{place} is a text or a list of texts, not {untrusted.shown(value)}")
    texts = tuple(text for text in map(clean, values) if text)
    if not texts:
        raise ValueError(f"{place} is empty")
    return texts


def _tabs(line: str, place: str) -> Pair:
    cells = [clean(cell) for cell in line.split("\t")]
    if len(cells) != 2:
        raise ValueError(f"{place}: a line is a source, a tab and a target, but here: {columns_of(cells)}")
    for cell, name in zip(cells, ("source", "target"), strict=True):
        if not cell:
            raise ValueError(f"{place}: the {name} is empty")
    return Pair(cells[0], (cells[1],), lead(cells[0]))


def _talks(path: Path) -> list[list[Pair]]:
    """The questions of each conversation; one begins where the history is no longer than before. Of a file in another
    format, each pair by itself."""
    if _ending(path) != ".json":
        return [[pair] for pair in _file(path)]
    data = untrusted.read(path)
    if data.removeprefix(b"\xef\xbb\xbf").startswith(b"{") and b"\n{" in data:  # JSON lines under another name
        return [[_line(line, place)] for place, line in _lines(path)]
    entries = untrusted.parse_json(data, path)
    if not isinstance(entries, list):
        raise ValueError(f"{path}: an array of questions, or of texts, is wanted, not {untrusted.shown(entries)}")
    if entries and isinstance(entries[0], dict) and "source" in entries[0]:
        return [[_entry(entry, f"{path}: entry {number}", str(entry))] for number, entry in enumerate(entries, 1)]
    talks: list[list[Pair]] = []
    longest = 0
    for number, entry in enumerate(entries, 1):
        pair = _turn(entry, f"{path}: entry {number}")
        if len(entry["History"]) <= longest or not talks:
            talks.append([])
        talks[-1].append(pair)
        longest = len(entry["History"])
    return talks


def _turn(entry: Any, place: str) -> Pair:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{place}: an object is wanted, not {untrusted.shown(entry)}")
    for key, kind in (("History", list), ("Question", str), ("Rewrite", str)):
        if not isinstance(entry.get(key), kind):
            raise ValueError(f"{place}: {key} is {untrusted.shown(entry.get(key))}, not a {kind.__name__}")
    (question,) = _texts(entry["Question"], f"{place}: Question")
    history = [clean(turn) for turn in entry["History"] if isinstance(turn, str)]
    topic, turns = history[:2], history[2:]
    return Pair(
        " | ".join([question, *topic, *turns[-TURNS:]]), _texts(entry["Rewrite"], f"{place}: Rewrite"), question
    )


def _archive(path: Path) -> list[Pair]:
    files = untrusted.unzip(path, lambda name: name.endswith((".txt", ".key")))
    texts = {PurePosixPath(name): data.decode("utf-8", "replace") for name, data in files.items()}
    pairs = []
    for name, phrases in sorted(texts.items()):
        if name.suffix != ".key":
            continue
        document = name.parent.parent / "docsutf8" / f"{name.stem}.txt"
        if document not in texts:
            raise ValueError(f"{path}: {name} has no document {document}")
        title, _, rest = texts[document].strip().partition("\n")
        while rest.startswith("\t"):  # a title may go on in the next line
            continuation, _, rest = rest.partition("\n")
            title = f"{title} {continuation}"
        keyphrases = dict.fromkeys(clean(phrase).lower() for phrase in phrases.splitlines() if phrase.strip())
        if not keyphrases or not title.strip():
            raise ValueError(f"{path}: {name}: there is no text, or no phrase")
        pairs.append(Pair(clean(f"{title} . {rest}"), tuple(keyphrases), clean(title)))
    if not pairs:
        raise ValueError(f"{path}: there are no keys/….key beside docsutf8/….txt in it")
    return pairs


def _reuters(folder: Path, files: Sequence[Path]) -> dict[str, list[Pair]]:
    by_split: dict[str, list[Pair]] = {"TRAIN": [], "TEST": []}
    for path in files:
        for attributes, article in _ARTICLE.findall(untrusted.read(path).decode("latin-1")):
            split, title, body = _LEWIS.search(attributes), _TITLE.search(article), BODY.search(article)
            if split is None or split[1] not in by_split or title is None or body is None or _TABLE.match(body[1]):
                continue
            heading, text = clean(html.unescape(title[1])).lower(), clean(html.unescape(body[1]))
            if heading and text and set(_LONG_WORD.findall(heading)) & set(_LONG_WORD.findall(text.lower())):
                by_split[split[1]].append(Pair(text, (heading,), lead(text)))
    if not all(by_split.values()):
        raise ValueError(f"{folder}: there are no articles with a title and a body for training and testing in it")
    train = by_split["TRAIN"]
    cut = len(train) - len(train) // 20
    return {"train": train[:cut], "valid": train[cut:], "test": by_split["TEST"]}
