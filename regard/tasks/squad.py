"""Which words of this paragraph answer the question? SQuAD, read or made.

Rajpurkar, Zhang, Lopyrev & Liang 2016, *SQuAD: 100,000+ Questions for Machine Comprehension of Text*
(arXiv:1606.05250), version 1.1. The data is a file or a folder of files ``.json``, also ``.gz`` or ``.zip``. A file
whose name begins with train is for training and validation, another for the test; if there is only one, it is cut into
three. It is cut between articles, so that none is in two splits. Without data, articles about towns that do not exist
are made in the same format.

Answers are judged as usual, by exact match and by F1 of their words, each without case, punctuation and articles,
against the nearest of the right ones. Beside them stands the sliding window of Richardson, Burges & Renshaw 2013,
*MCTest: A Challenge Dataset for the Open-Domain Machine Comprehension of Text*.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import re
import string
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.tasks._download import locate
from regard.tasks._passages import UNKNOWN, Encoded, Passages, Question, Text, Typed

_STOP = """
a about after all also an and any are as at be because been before being between both but by can could did do does
during each for from had has have he her him his how i if in into is it its may more most much many no not of on
one only or other our over she should so some such than that the their them then there these they this those
through to under until up was we were what when where which while who whom whose why will with would you your
"""
STOP = frozenset(_STOP.split())
"""Words that say little, and so part what may be an answer from what may not."""
FEATURES = 7


@dataclass(frozen=True)
class Config:
    """Which articles, and how they are read.

    Attributes:
        data: a folder, a file, or the name of a known data set such as ``squad``; empty to make articles.
        valid, test: shares of the articles that are held out, where there is no file for it.
        articles: how many to make.
        batch: questions to a batch.
        longest: words of a paragraph that are read; what is behind them is left out.
        words, least: at most so many words are known, and only those that occur so often.
    """

    data: str = ""
    valid: float = 0.1
    test: float = 0.15
    articles: int = 60
    batch: int = 32
    longest: int = 400
    words: int = 10_000
    least: int = 5

    def __post_init__(self) -> None:
        for name, least in {"articles": 3, "batch": 1, "longest": 1, "words": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)}: it must be at least {least}")
        if min(self.valid, self.test) <= 0 or self.valid + self.test >= 1:
            raise ValueError(f"valid = {self.valid}, test = {self.test}: shares above 0, together below 1")


class Squad(Passages):
    """Paragraphs with questions; see the module's docstring.

    A batch has ``document`` (B, S), ``question`` (B, Q), their lengths, ``features`` (B, S, 7) and ``first`` and
    ``last`` (B,), the words between which the answer stands.
    """

    settings: ClassVar[type] = Config

    @property
    def sizes(self) -> dict[str, int]:
        """What a system must know."""
        return {**super().sizes, "features": FEATURES}

    def splits(self) -> dict[str, list[Question]]:
        config = self.config
        where = self.data or config.data
        if not where:
            made = make(config.articles, random.Random("squad"))
            return _cut(parse(made, "made articles"), config.valid, config.test)
        path = locate(where)
        files = [path] if path.is_file() else _files(path)
        train = [file for file in files if file.name.startswith("train")]
        if len(files) == 1:
            return _cut(read(files[0]), config.valid, config.test)
        if len(files) > 2 or len(train) != 1:
            names = ", ".join(file.name for file in files) or "none"
            raise ValueError(f"{path}: one .json file, or two of which one begins with train; there are: {names}")
        (test,) = (file for file in files if file not in train)
        held = _cut(read(train[0]), config.valid, None)
        return {**held, "test": [one for article in read(test) for one in article]}

    def typed(self, one: Typed) -> Question:
        answers = () if one.answer is None else (one.answer,)
        return Question(Text.of(one.story), Text.of(one.question), answers, place=one.place)

    def encode(self, questions: Sequence[Question]) -> Encoded:
        """An answer that is not in what is read of the document is none."""
        longest = self.config.longest
        known: dict[int, tuple[np.ndarray, _Marks]] = {}
        documents, asked, answers, features = [], [], [], []
        for one in questions:
            if id(one.document) not in known:
                known[id(one.document)] = self._ids(one.document.words[:longest]), _Marks(one.document.words[:longest])
            ids, marks = known[id(one.document)]
            documents.append(ids)
            asked.append(self._ids(one.question.words))
            answers.append(one.span if one.span[1] < longest else (-1, -1))
            features.append(np.concatenate([marks.against(one.question.words), ids[:, None] == UNKNOWN], 1))
        own = [np.zeros(0, np.int32)] * len(questions)
        return Encoded(documents, asked, np.array(answers, np.int64), features, own)

    def _ids(self, words: Sequence[str]) -> np.ndarray:
        return np.array([self.numbers.get(word.lower(), UNKNOWN) for word in words], np.int32)

    def judge(self, question: Question, answer: str) -> dict[str, float]:
        return {
            "exact_match": max(float(normal(answer) == normal(right)) for right in question.answers),
            "f1": max(f1(answer, right) for right in question.answers),
        }

    def baselines(self, questions: Sequence[Question]) -> dict[str, float]:
        """The sliding window."""
        sums = Counter[str]()
        for one in questions:
            sums.update(self.judge(one, window(one.document, one.question)))
        return {f"window_{name}": 100.0 * sums[name] / max(len(questions), 1) for name in ("exact_match", "f1")}


class _Marks:
    """What is seen of a document's words without knowing them."""

    def __init__(self, words: Sequence[str]):
        self.words = [word.lower() for word in words]
        self.stems = [stem(word) for word in self.words]
        counts = Counter(self.words)
        self.alone = np.array(
            [
                [
                    word[0].isupper(),
                    any(map(str.isdigit, word)),
                    not word[0].isalnum(),
                    math.log1p(1 / counts[low]),
                ]
                for word, low in zip(words, self.words)
            ],
            np.float16,
        ).reshape(len(words), 4)

    def against(self, question: Sequence[str]) -> np.ndarray:
        """(S, 6): is it in the question, or another form of a word of it; capital, number, sign, and how rare it is
        here."""
        asked = {word.lower() for word in question if word[0].isalnum()}
        stems = {stem(word) for word in asked - STOP}
        same = np.array([word in asked for word in self.words], np.float16)
        alike = np.array([part in stems for part in self.stems], np.float16)
        return np.concatenate([same[:, None], alike[:, None], self.alone], 1)


def stem(word: str) -> str:
    """What forms of a word have in common, roughly: without a common ending, at least four letters."""
    return re.sub(r"(?<=\w{4})(?:ies|ing|ed|es|s|e|y|ion|al|er|ly)$", "", word)


# ---------------------------------------------------------------------------------------------------------------------
# Files


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if re.search(r"\.json(\.gz|\.zip)?$", file.name))


def read(path: Path) -> list[list[Question]]:
    """The questions of each article of a file."""
    data = path.read_bytes()
    try:
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                (name,) = (name for name in archive.namelist() if name.endswith(".json"))
                data = archive.read(name)
        found = json.loads(data)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a file of SQuAD's format, one JSON object: {error}") from None
    return parse(found, str(path))


def parse(found: Any, name: str) -> list[list[Question]]:
    """The questions of each article of SQuAD's JSON. An error says which article, paragraph and question it is in."""
    articles = []
    for number, article in enumerate(_list(found, "data", name), 1):
        where = f"{name}, article {number}"
        if isinstance(article, dict) and isinstance(article.get("title"), str):
            where += f" ({article['title']})"
        questions = []
        for count, paragraph in enumerate(_list(article, "paragraphs", where), 1):
            place = f"{where}, paragraph {count}"
            document = Text.of(_text(paragraph, "context", place))
            for at, entry in enumerate(_list(paragraph, "qas", place), 1):
                questions.append(_question(entry, document, f"{place}, question {at}"))
        articles.append(questions)
    if not any(articles):
        raise ValueError(f"{name}: there is no question in it")
    return articles


def _question(entry: Any, document: Text, place: str) -> Question:
    asked = Text.of(_text(entry, "question", place))
    place += f" ({entry.get('id', asked.raw[:40])})"
    answers = _list(entry, "answers", place)
    if not answers:
        raise ValueError(f"{place}: no answers; questions that cannot be answered, of SQuAD 2.0, are not read")
    texts = tuple(_text(answer, "text", place) for answer in answers)
    starts = [answer.get("answer_start") for answer in answers]
    for text, start in zip(texts, starts):
        if type(start) is not int or document.raw[start : start + len(text)] != text or start < 0:
            raise ValueError(f"{place}: answer_start is {start!r}, but {text[:40]!r} does not stand there")
    return Question(document, asked, texts, _span(document, starts[0], starts[0] + len(texts[0]), place), place=place)


def _span(document: Text, start: int, end: int, place: str) -> tuple[int, int]:
    """The words that a piece of the text lies in."""
    inside = [number for number, (first, last) in enumerate(document.places) if first < end and last > start]
    if not inside:
        raise ValueError(f"{place}: the answer has no word in it")
    return inside[0], inside[-1]


def _list(holder: Any, key: str, place: str) -> list[Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"{place}: {key!r} must be a list")
    return found


def _text(holder: Any, key: str, place: str) -> str:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, str) or not re.search(r"\S", found):
        raise ValueError(f"{place}: {key!r} must be a text, and not empty")
    return found


def _cut(articles: list[list[Question]], valid: float, test: float | None) -> dict[str, list[Question]]:
    """Articles in random order, the first ones for the test (if any) and for validation."""
    mixed = random.Random("articles").sample(articles, len(articles))
    sizes = {
        "test": 0 if test is None else max(1, round(test * len(mixed))),
        "valid": max(1, round(valid * len(mixed))),
    }
    if sum(sizes.values()) >= len(mixed):
        raise ValueError(f"{mixed[0][0].place.partition(', article')[0]}: {len(mixed)} articles are too few to cut")
    cuts = {"test": mixed[: sizes["test"]], "valid": mixed[sizes["test"] : sum(sizes.values())]}
    cuts["train"] = mixed[sum(sizes.values()) :]
    found = {split: [one for article in part for one in article] for split, part in cuts.items()}
    return found if test is not None else {name: found[name] for name in ("train", "valid")}


# ---------------------------------------------------------------------------------------------------------------------
# Metrics


def normal(text: str) -> list[str]:
    """The words that are compared: lower case, without punctuation and articles."""
    bare = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return [word for word in bare.split() if word not in ("a", "an", "the")]


def f1(answer: str, right: str) -> float:
    """The harmonic mean of precision and recall of words, each as often as it occurs."""
    given, wanted = normal(answer), normal(right)
    common = sum((Counter(given) & Counter(wanted)).values())
    if not given or not wanted:
        return float(given == wanted)
    return 2 * common / (len(given) + len(wanted))


def window(document: Text, question: Text) -> str:
    """The answer of the sliding window with distance. Richardson et al. 2013, algorithms 1 and 2.

    A candidate with words A is worth the most that any window of |A ∪ Q| words of the document has in words of A ∪ Q,
    counted by their rarity log(1 + 1 / C(w)), less how far a word of A is at least from one of Q. As in Rajpurkar et
    al. 2016, section 5.1, only candidates compete whose sentence has most words and pairs of words in common with the
    question. Theirs are the constituents of a parse, ours runs of words without stop words, words of the question and
    signs.
    """
    words = [word.lower() for word in document.words]
    asked = {word.lower() for word in question.words if word[0].isalnum()} - STOP
    pairs = {(a.lower(), b.lower()) for a, b in pairwise(question.words)}
    counts = Counter(words)
    rarity = np.array([math.log1p(1 / counts[word]) for word in words])
    near = np.array([word in asked for word in words])
    places = np.flatnonzero(near)
    best, chosen = (-1.0, -math.inf), (0, len(words) - 1)
    for start, stop in sentences(words):
        for first, last in candidates(words, start, stop, STOP | asked):
            rest = [*words[start:first], "", *words[last + 1 : stop]]
            overlap = len(asked & set(rest)) + len(pairs & set(pairwise(rest)))
            if overlap < best[0]:
                continue
            own = set(words[first : last + 1])
            held = np.where(near | np.array([word in own for word in words]), rarity, 0.0)
            sums = np.concatenate([[0.0], np.cumsum(held)])
            size = min(len(own | asked), len(words))
            score = float((sums[size:] - sums[:-size]).max())
            if len(places):
                outside = np.where(places < first, first - places, np.maximum(places - last, 0))
                score -= float(outside.min()) / max(len(words) - 1, 1)
            best, chosen = max((best, chosen), ((float(overlap), score), (first, last)))
    return document.piece(*chosen)


def sentences(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where sentences begin, and where the next ones do."""
    start = 0
    for place, word in enumerate(words, 1):
        if word in (".", "?", "!") or place == len(words):
            yield start, place
            start = place


def candidates(words: Sequence[str], start: int, stop: int, parting: Collection[str]) -> Iterator[tuple[int, int]]:
    """Runs of words that are neither signs nor among ``parting``; a hyphen or apostrophe within one parts nothing."""

    def inside(place: int) -> bool:
        return place < stop and words[place][0].isalnum() and words[place] not in parting

    first = -1
    for place in range(start, stop + 1):
        joint = first >= 0 and inside(place + 1) and words[place] in "-–'’"
        if inside(place) or joint:
            first = place if first < 0 else first
        elif first >= 0:
            yield first, place - 1
            first = -1


# ---------------------------------------------------------------------------------------------------------------------
# Made articles

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
            for at, (told, asked, kind) in enumerate(dice.sample(_FACTS, 6)):
                text = values[kind]()
                start = len(context) + 1 + told.index("{}")
                context += " " + told.format(text)
                answers = [{"text": text, "answer_start": start}]
                entries.append({"id": f"{number}-{part}-{at}", "question": asked.format(title), "answers": answers})
            paragraphs.append({"context": context, "qas": entries})
        articles.append({"title": title, "paragraphs": paragraphs})
    return {"version": "1.1", "data": articles}
