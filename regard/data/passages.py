"""Questions about documents, with the words of both, and as one types them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regard.data.scripts import LETTERS, SIGN, UNSPACED
from regard.data.untrusted import json_objects

_WORD = re.compile(rf"@\w+|\d+(?:[.,]\d+)+|{LETTERS}|{UNSPACED}|{SIGN}")


class Text(NamedTuple):
    """A text and its words: ``raw[places[k][0]:places[k][1]]`` is what ``words[k]`` stands for."""

    raw: str
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, raw: str) -> Text:
        """Letters and digits are words, so is each other sign, and a number such as 1,000.5 is one."""
        matches = list(_WORD.finditer(raw))
        return cls(raw, tuple(match[0] for match in matches), tuple(match.span() for match in matches))

    def piece(self, first: int, last: int) -> str:
        """The text from one word to another, as it is written."""
        return self.raw[self.places[first][0] : self.places[last][1]]


class Question(NamedTuple):
    """A question about a document.

    Attributes:
        document, question: with their words.
        answers: the right ones; none if they are unknown.
        span: the first and the last word of the first of them in the document; −1 if it is not a span.
        names: the words that are entities.
        place: where it stands, for messages.
        history: of a conversation, the questions before it with their answers, the oldest first.
    """

    document: Text
    question: Text
    answers: tuple[str, ...] = ()
    span: tuple[int, int] = (-1, -1)
    names: frozenset[str] = frozenset()
    place: str = ""
    history: tuple[tuple[str, str], ...] = ()


class Typed(NamedTuple):
    """A question as someone typed it."""

    story: str
    question: str
    answer: str | None
    place: str
    history: tuple[tuple[str, str], ...] = ()


def read_typed(lines: Iterable[str], name: str) -> Iterator[Typed]:
    """Questions from JSON lines: ``story``, a text or a list of sentences, ``question`` and, if it is known,
    ``answer``."""
    keys = ("story", "question", "answer")
    empty = True
    for place, entry in json_objects(lines, name, keys, 'a line is {"story": "…", "question": "…"}'):
        empty = False
        story = entry.get("story")
        if isinstance(story, list) and all(isinstance(sentence, str) for sentence in story):
            story = " ".join(story)
        for key, text in (("story", story), ("question", entry.get("question"))):
            if not isinstance(text, str) or not _WORD.search(text):
                raise ValueError(f"{place}: {key!r} must be a text, and not empty")
        if not isinstance(entry.get("answer", ""), str):
            raise ValueError(f"{place}: 'answer' must be a text")
        yield Typed(str(story), entry["question"], entry.get("answer"), place)
    if empty:
        raise ValueError(f'{name}: there is nothing in it; a line is {{"story": "…", "question": "…"}}')
