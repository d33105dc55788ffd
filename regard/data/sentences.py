"""Sentences, or pairs of them, with a label: one a line, in the formats in which such sets are published.

* ``1 a stirring , funny film``: label, space, sentence (SST, TREC, MR as Kim 2014 and Harvard NLP keep them).
* four columns without a heading: where it is from, label, mark, sentence (CoLA).
* columns with a heading that names them: ``sentence`` and ``label``; ``sentence_A``, ``sentence_B`` and
  ``entailment_judgment`` (SICK); ``Quality``, ``#1 String`` and ``#2 String`` (MRPC); ``text_a``, ``text_b`` …
* two or three columns without a heading: label, sentence, and a second sentence.

Files are plain or gzipped. An error names file and line.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from regard.data import untrusted
from regard.data.lines import clean, columns_of

_FIRST = ("sentence", "sentence1", "sentence_a", "#1 string", "text", "text_a", "premise", "question")
_SECOND = ("sentence2", "sentence_b", "#2 string", "text_b", "hypothesis")
_LABEL = ("label", "entailment_judgment", "quality", "gold_label", "class")


class Labelled(NamedTuple):
    """A sentence with its label; ``second`` is empty unless it is a pair, ``place`` says where it stands."""

    text: str
    label: str
    second: str = ""
    place: str = ""


class _Columns(NamedTuple):
    """How many columns a line has, and which hold what, from 0; ``second`` is −1 if there is none."""

    number: int
    label: int
    text: int
    second: int = -1


def read(path: Path) -> list[Labelled]:
    """The sentences of a file, in their order."""
    lines = untrusted.read(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    columns: _Columns | None = None
    sentences = []
    for number, raw in enumerate(lines, 1):
        if b"\0" in raw:
            raise ValueError(f"{path}:{number}: not text; UTF-16 is to be saved as UTF-8 first")
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            line = raw.decode("latin-1").rstrip("\r")  # some of these sets are older than UTF-8
        if not line.strip():
            continue
        if columns is None:
            columns, heading = _layout(line, f"{path}:{number}")
            if heading:
                continue
        sentences.append(_labelled(line, columns, f"{path}:{number}"))
    return sentences


def _labelled(line: str, columns: _Columns, place: str) -> Labelled:
    if columns.number == 1:
        label, blank, text = line.strip().partition(" ")
        if not blank:
            raise ValueError(f"{place}: a line has a label, a space and a sentence, but here is {line[:40]!r}")
        return Labelled(clean(text), label, place=place)
    cells = line.split("\t")
    if len(cells) != columns.number:
        raise ValueError(f"{place}: {columns_of(cells)}, and the first line has {columns.number}")
    second = clean(cells[columns.second]) if columns.second >= 0 else ""
    labelled = Labelled(clean(cells[columns.text]), cells[columns.label].strip(), second, place)
    if not labelled.text or not labelled.label or (columns.second >= 0 and not second):
        what = "label" if not labelled.label else "sentence"
        raise ValueError(f"{place}: the {what} is missing")
    return labelled


def _layout(line: str, place: str) -> tuple[_Columns, bool]:
    """The columns of a file, from its first line, and whether that is a heading."""
    cells = line.split("\t")
    if len(cells) == 1:
        return _Columns(1, 0, 0), False
    names = [cell.strip().lower() for cell in cells]
    where = [
        next((names.index(name) for name in spellings if name in names), -1) for spellings in (_LABEL, _FIRST, _SECOND)
    ]
    if where[0] >= 0 and where[1] >= 0:
        return _Columns(len(cells), *where), True
    if len(cells) == 4 and names[1] in ("0", "1"):  # CoLA
        return _Columns(4, 1, 3), False
    if len(cells) in (2, 3):
        return _Columns(len(cells), 0, 1, 2 if len(cells) == 3 else -1), False
    raise ValueError(
        f"{place}: {len(cells)} columns, of which none is called label and sentence; expected such a heading, or "
        "label, tab, sentence"
    )
