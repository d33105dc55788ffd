"""Words with tags: CoNLL's columns and CoNLL-U, plain or gzipped.

CoNLL: a word a line, columns with tabs or blanks between, the word in the first and its tag in the last, or in that of
``column``; an empty line ends a sentence. CoNLL-U: ten columns with tabs; lines of comments, of words that are written
as one (``3-4``) and of words that are not written (``3.1``) are left out. Tags of entities (``B-PER``, also
BIOES and the older ``I-PER`` for every word) become BIO: the first word of an entity ``B-``, the others ``I-``. An
error names file and line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard._lazy import nearest
from regard.data import untrusted
from regard.data.lines import columns_of

UD = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U."""
_ENTITY = re.compile(r"(?:[BIESLUMW]-.+|O)")


class Sentence(NamedTuple):
    """Words, their tags, the line of each, and the file they are from."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lines: tuple[int, ...]
    file: str = ""


def read(path: Path, column: str = "") -> list[Sentence]:
    """The sentences of a file.

    Args:
        column: of CoNLL-U ``upos`` (if empty), ``xpos`` or another; of other files the number of the tag's column from
            1, the last if empty.
    """
    universal = path.name.removesuffix(".gz").endswith(".conllu")
    sentences: list[Sentence] = []
    rows: list[tuple[str, str, int]] = []
    count = 0
    for number, raw in enumerate([*untrusted.read(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), b""], 1):
        place = f"{path}:{number}"
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"{place}: not UTF-8 text ({error.reason})") from None
        if not line.strip() or line.startswith("-DOCSTART-"):
            if rows:
                words, tags, lines = zip(*rows, strict=True)
                sentences.append(Sentence(words, bio(tags), lines, str(path)))
            rows = []
            continue
        if universal and line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else re.split(" +", line.rstrip(" "))
        count = count or len(cells)
        if len(cells) != count or (universal and len(cells) != len(UD)):
            expected = len(UD) if universal else count
            raise ValueError(f"{place}: {columns_of(cells)} instead of {expected}: {line[:60]!r}")
        if universal and not cells[0].isdecimal():
            continue
        columns = (1, _universal(column)) if universal else (0, _number(column, count, place))
        word, tag = (cells[k] for k in columns)
        if not tag:
            raise ValueError(f"{place}: {word!r} has no tag")
        rows.append((word or "_", tag, number))
    _check_entities(sentences)
    return sentences


def _check_entities(sentences: Sequence[Sentence]) -> None:
    """If words outside of entities are O and another tag is an entity's, a tag that is neither must be a mistake."""
    kinds = {tag for sentence in sentences for tag in sentence.tags}
    if "O" not in kinds or not any(tag.startswith(("B-", "I-")) for tag in kinds):
        return
    for sentence in sentences:
        for tag, line in zip(sentence.tags, sentence.lines, strict=True):
            if not _ENTITY.fullmatch(tag):
                expected = "O, or B- or I- and a kind"
                raise ValueError(f"{sentence.file}:{line}: the tag {tag!r} is no entity's, as others are: {expected}")


def _universal(column: str) -> int:
    if column and column not in UD:
        raise ValueError(f"CoNLL-U has no column {column!r}: {nearest(column, UD)}")
    return UD.index(column or "upos")


def _number(column: str, count: int, place: str) -> int:
    if not column:
        if count < 2:
            raise ValueError(f"{place}: a line has a word and its tag, with a tab or blank between, not one column")
        return count - 1
    if not column.isdecimal() or not 1 <= int(column) <= count:
        raise ValueError(f"{place}: column = {column!r}: the number of one of {count} columns, from 1")
    return int(column) - 1


def are_entities(tags: Sequence[str]) -> bool:
    """Are these tags of entities, and not of single words?"""
    return any(tag != "O" for tag in tags) and all(_ENTITY.fullmatch(tag) for tag in tags)


def bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags of entities as BIO; others as they are."""
    if not are_entities(tags):
        return tuple(tags)
    converted: list[str] = []
    open_kind = ""
    for tag in tags:
        mark, _, kind = tag.partition("-")
        if tag == "O":
            converted.append("O")
            open_kind = ""
            continue
        begins = mark in "BSUW" or kind != open_kind
        converted.append(f"{'B' if begins else 'I'}-{kind}")
        open_kind = "" if mark in "ESLUW" else kind
    return tuple(converted)
