"""SQuAD's format, version 1.1: articles with paragraphs, questions and the places of their answers.

Rajpurkar, Zhang, Lopyrev & Liang 2016 (arXiv:1606.05250). Files end in ``.json``, also ``.gz`` or ``.zip``.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

from regard.data import untrusted
from regard.data.passages import Question, Text


def files(folder: Path) -> list[Path]:
    """The files of that format in a folder."""
    return sorted(file for file in folder.iterdir() if re.search(r"\.json(\.gz|\.zip)?$", file.name))


def read(path: Path) -> list[list[Question]]:
    """The questions of each article of a file."""
    if path.suffix == ".zip":
        members = untrusted.unzip(path, lambda name: name.endswith(".json"))
        if len(members) != 1:
            raise ValueError(f"{path}: {len(members)} files in it end in .json, and one was expected")
        (data,) = members.values()
    else:
        data = untrusted.read(path)
    content = untrusted.parse_json(data, path)
    return parse(content, str(path))


def parse(content: Any, name: str) -> list[list[Question]]:
    """The questions of each article of SQuAD's JSON. An error says which article, paragraph and question it is in."""
    articles = []
    for number, article in enumerate(list_in(content, "data", name), 1):
        where = f"{name}, article {number}"
        if isinstance(article, dict) and isinstance(article.get("title"), str):
            where += f" ({article['title'][:60]})"
        questions = []
        for count, paragraph in enumerate(list_in(article, "paragraphs", where), 1):
            place = f"{where}, paragraph {count}"
            document = Text.of(text_in(paragraph, "context", place))
            for at, entry in enumerate(list_in(paragraph, "qas", place), 1):
                questions.append(_question(entry, document, f"{place}, question {at}"))
        articles.append(questions)
    if not any(articles):
        raise ValueError(f"{name}: there is no question in it")
    return articles


def _question(entry: Any, document: Text, place: str) -> Question:
    question = Text.of(text_in(entry, "question", place))
    name = entry.get("id")
    place += f" ({name[:40] if isinstance(name, str) else question.raw[:40]})"
    answers = list_in(entry, "answers", place)
    if not answers:
        raise ValueError(f"{place}: no answers; questions that cannot be answered, of SQuAD 2.0, are not read")
    texts = tuple(text_in(answer, "text", place) for answer in answers)
    starts = [answer.get("answer_start") for answer in answers]
    for text, start in zip(texts, starts):
        if type(start) is not int or document.raw[start : start + len(text)] != text or start < 0:
            where = start if isinstance(start, int | str) else type(start).__name__
            raise ValueError(f"{place}: answer_start is {where!s:.40}, but {text[:40]!r} does not stand there")
    span = words_in(document, starts[0], starts[0] + len(texts[0]), place)
    return Question(document, question, texts, span, place=place)


def words_in(document: Text, start: int, end: int, place: str) -> tuple[int, int]:
    """The words that a piece of the text lies in."""
    first = bisect_right(document.places, start, key=lambda word: word[1])
    last = bisect_left(document.places, end, key=lambda word: word[0]) - 1
    if first > last:
        raise ValueError(f"{place}: the answer has no word in it")
    return first, last


def list_in(holder: Any, key: str, place: str) -> list[Any]:
    """The list under a key of a JSON object; an error names the place."""
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, list):
        raise ValueError(f"{place}: {key!r} must be a list")
    return value


def text_in(holder: Any, key: str, place: str) -> str:
    """The text under a key of a JSON object, which must not be empty; an error names the place."""
    text = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(text, str) or not re.search(r"\S", text):
        raise ValueError(f"{place}: {key!r} must be a text, and not empty")
    return text


def cut(articles: list[list[Question]], valid: float, test: float | None) -> dict[str, list[Question]]:
    """Articles in random order, the first ones for the test (if any) and for validation."""
    articles = [article for article in articles if article]
    shuffled = random.Random("articles").sample(articles, len(articles))
    sizes = {
        "test": 0 if test is None else max(1, round(test * len(shuffled))),
        "valid": max(1, round(valid * len(shuffled))),
    }
    if sum(sizes.values()) >= len(shuffled):
        name = f"{shuffled[0][0].place.partition(', article')[0]}: " if shuffled else ""
        raise ValueError(f"{name}{len(shuffled)} articles with questions are too few to cut")
    cuts = {"test": shuffled[: sizes["test"]], "valid": shuffled[sizes["test"] : sum(sizes.values())]}
    cuts["train"] = shuffled[sum(sizes.values()) :]
    splits = {split: [question for article in part for question in article] for split, part in cuts.items()}
    return splits if test is not None else {name: splits[name] for name in ("train", "valid")}


# ---------------------------------------------------------------------------------------------------------------------
# Generated articles

_SOUNDS = ("bal", "cor", "del", "fen", "gar", "hol", "lin", "mar", "nor", "pel", "ros", "sel", "tor", "vel", "wes")
_GOODS = ("salt", "glass", "wool", "paper", "copper", "cheese", "wine", "timber")
_FACTS: tuple[tuple[str, str, str], ...] = (
    ("The town was founded by {} after a long war.", "Who founded {}?", "person"),
    ("It was first mentioned in {}.", "When was {} first mentioned?", "year"),
    ("The old bridge over the {} was built by hand.", "Which river does the old bridge of {} cross?", "river"),
    ("A fire destroyed the market in {}.", "In which year did {} lose its market?", "year"),
    ("About {} people live there today.", "How many inhabitants does {} have?", "number"),
    ("For centuries it traded mostly in {}.", "What did {} trade in?", "goods"),
    ("The painter {} was born in a house near the gate.", "Which painter was born in {}?", "person"),
    ("The railway reached the valley in {}.", "When did trains first come to {}?", "year"),
    ("Its school was a gift of {}.", "Who gave {} its school?", "person"),
    ("In winter the {} floods the lower streets.", "What floods the streets of {}?", "river"),
    ("Some {} visitors come every summer.", "How many guests visit {} in summer?", "number"),
    ("The mayor, {}, was elected twice.", "Who is the mayor of {}?", "person"),
)


def make(count: int, dice: random.Random) -> dict[str, Any]:
    """Articles about towns that do not exist, in SQuAD's format."""

    def name() -> str:
        return "".join(dice.sample(_SOUNDS, 2)).capitalize()

    values = {
        "person": lambda: f"{name()} {name()}",
        "year": lambda: str(dice.randrange(1200, 1990)),
        "river": name,
        "number": lambda: f"{dice.randrange(2, 90)},{dice.randrange(100, 1000)}",
        "goods": lambda: dice.choice(_GOODS),
    }
    articles = []
    for number in range(count):
        title, paragraphs = name(), []
        for part in range(3):
            context, entries = f"{title} lies in the hills.", []
            for at, (statement, question, kind) in enumerate(dice.sample(_FACTS, 6)):
                text = values[kind]()
                start = len(context) + 1 + statement.index("{}")
                context += " " + statement.format(text)
                answers = [{"text": text, "answer_start": start}]
                entries.append({"id": f"{number}-{part}-{at}", "question": question.format(title), "answers": answers})
            paragraphs.append({"context": context, "qas": entries})
        articles.append({"title": title, "paragraphs": paragraphs})
    return {"version": "1.1", "data": articles}
