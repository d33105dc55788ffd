"""Stories with questions: bAbI's text, JSON lines, and typed text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.untrusted import json_objects


class Question(NamedTuple):
    """A question with the sentences before it.

    Attributes:
        story: sentences, the oldest first.
        question: ends with "?".
        answer: None if it is unknown.
        support: numbers of the sentences that lead to the answer, from 0, in the order of reasoning.
        places: where each sentence, and last the question, stands: ``file, line 3``.
    """

    story: tuple[str, ...]
    question: str
    answer: str | None
    support: tuple[int, ...]
    places: tuple[str, ...]


def words(text: str) -> list[str]:
    """Lower-case words; punctuation separates them and is left out."""
    return re.findall(r"\w+(?:['’-]\w+)*", text.lower())


def read_babi(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions from text in bAbI's format: ``3 Where is Mary?⇥bathroom⇥1``; a line numbered 1 begins a new story."""
    story: list[str] = []
    places: list[str] = []
    numbers: dict[str, int] = {}  # line number within the story → sentence
    last = 0
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            continue
        number, _, text = line.rstrip("\n").partition(" ")
        if not number.isdigit() or not text.strip():
            raise ValueError(f"{place}: a line is a number, a blank and a sentence, not {line.rstrip()[:60]!r}")
        if int(number) == 1:
            story, places, numbers = [], [], {}
        elif int(number) != last + 1:
            raise ValueError(f"{place}: number {number} follows {last}; a story counts from 1 without gaps")
        last = int(number)
        if "\t" not in text:
            if text.rstrip().endswith("?"):
                raise ValueError(f"{place}: a question without an answer; they are separated by tabs")
            numbers[number] = len(story)
            story.append(text.strip())
            places.append(place)
            continue
        question, answer, *facts = (field.strip() for field in text.split("\t"))
        if not question or not answer or len(facts) > 1:
            raise ValueError(f"{place}: a question is question, tab, answer, tab, line numbers; not {text[:60]!r}")
        if not story:
            raise ValueError(f"{place}: a question before any sentence of its story")
        support = []
        for fact in facts[0].split() if facts else ():
            if fact not in numbers:
                raise ValueError(f"{place}: the supporting fact {fact!r} is no sentence before it in this story")
            support.append(numbers[fact])
        yield Question(tuple(story), question, answer, tuple(support), (*places, place))


def read_json(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions from JSON lines: ``story`` (a text or a list of sentences), ``question``, ``answer`` and, if known,
    ``support``, the numbers of the sentences that lead to it, from 1."""
    keys = ("story", "question", "answer", "support")
    for place, entry in json_objects(lines, name, keys, 'a line is {"story": ["…"], "question": "…", "answer": "…"}'):
        for key in ("question", "answer"):
            if not isinstance(entry.get(key), str) or not entry[key].strip():
                raise ValueError(f"{place}: {key!r} must be a text")
        story = entry.get("story")
        story = sentences(story) if isinstance(story, str) else story
        if (
            not isinstance(story, list)
            or not story
            or not all(isinstance(sentence, str) and words(sentence) for sentence in story)
        ):
            raise ValueError(f"{place}: 'story' must be a text or a list of sentences, and not empty")
        support = entry.get("support", [])
        if not isinstance(support, list) or not all(type(n) is int and 1 <= n <= len(story) for n in support):
            raise ValueError(f"{place}: 'support' must be numbers of sentences, from 1 to {len(story)}; not {support}")
        facts = tuple(number - 1 for number in support)
        yield Question(tuple(story), entry["question"], entry["answer"], facts, (place,) * (len(story) + 1))


def read_typed(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions as one types them: sentences, then a question that ends with "?"; an empty line ends the story. Lines
    of bAbI's format are taken too, with or without answers."""
    story: list[str] = []
    places: list[str] = []
    has_question = started = False
    for count, line in enumerate([*lines, ""], 1):
        place = f"{name}, line {count}"
        number, _, rest = line.strip().partition(" ")
        text = rest.strip() if number.isdigit() and rest.strip() else line.strip()
        ends = not text or (number == "1" and text != line.strip())  # a numbered line 1 begins a new story too
        if ends:
            if story and not has_question:
                raise ValueError(f"{places[-1]}: {_no_question(story[-1])}")
            story, places, has_question = [], [], False
        if not text:
            continue
        started = True
        text, tab, answer = text.partition("\t")
        answer = answer.partition("\t")[0].strip()
        for sentence in sentences(text):
            if not sentence.endswith("?"):
                if tab:
                    raise ValueError(f"{place}: an answer behind what is no question: it does not end with '?'")
                if words(sentence):
                    story.append(sentence)
                    places.append(place)
                continue
            if not story:
                raise ValueError(f"{place}: a question without a story: sentences come before it")
            yield Question(tuple(story), sentence, answer or None, (), (*places, place))
            has_question = True
    if not started:
        raise ValueError(f"{name}: there is nothing in it; type sentences, and then a question that ends with '?'")


def _no_question(last: str) -> str:
    if words(last)[0] in ("where", "what", "who", "why", "how", "which", "when", "is", "are", "does", "do", "did"):
        return f"a story without a question; if {last!r} is meant as one, end it with '?'"
    return "a story without a question; end it with one, such as 'Where is Mary?'"


def sentences(text: str) -> list[str]:
    """A text cut after each full stop, question or exclamation mark, and at line ends."""
    return [piece.strip() for piece in re.split(r"(?<=[.?!])\s+|\n+", text) if piece.strip()]


def read(path: Path) -> list[Question]:
    """All questions of a file, bAbI's text or JSON lines."""
    reader = read_json if path.suffix in (".jsonl", ".json") else read_babi
    try:
        questions = list(reader(path.read_text(encoding="utf-8").split("\n"), str(path)))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 ({error})") from None
    if not questions:
        raise ValueError(f"{path}: there is no question in it")
    return questions
