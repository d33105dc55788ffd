"""Which words of this paragraph answer the question? SQuAD, read or generated.

Rajpurkar, Zhang, Lopyrev & Liang 2016, *SQuAD: 100,000+ Questions for Machine Comprehension of Text*
(arXiv:1606.05250), version 1.1. The data is a file or a folder of files ``.json``, also ``.gz`` or ``.zip``. A file
whose name begins with train is for training and validation, another for the test; if there is only one, it is cut into
three. It is cut between articles, so that none is in two splits. Without data, articles about invented towns are
generated in the same format.

Answers are judged as usual, by exact match and by F1 of their words, each without case, punctuation and articles,
against the nearest of the right ones.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard._settings import at_least
from regard.data.download import locate
from regard.data.passages import Question, Text, Typed
from regard.data.squad import cut, files, make, parse, read
from regard.metrics.spans import STOP, f1, normal, stem, window
from regard.tasks._passages import UNKNOWN, Encoded, Passages

FEATURES = 7


@dataclass(frozen=True)
class Config:
    """Which articles, and how they are read.

    Attributes:
        data: a folder, a file, or the name of a known data set such as ``squad``; empty to generate articles.
        valid, test: shares of the articles that are held out, where there is no file for it.
        articles: how many to generate.
        batch: questions to a batch.
        longest: words of a paragraph that are read; the rest is left out.
        words, least: size of the vocabulary, and how often a word must occur to be in it.
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
        at_least(self, "batch", "longest", "words", articles=3)
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
            generated = make(config.articles, random.Random("squad"))
            return cut(parse(generated, "made articles"), config.valid, config.test)
        path = locate(where)
        paths = [path] if path.is_file() else files(path)
        train = [file for file in paths if file.name.startswith("train")]
        if len(paths) == 1:
            return cut(read(paths[0]), config.valid, config.test)
        if len(paths) > 2 or len(train) != 1:
            names = ", ".join(file.name for file in paths) or "none"
            raise ValueError(f"{path}: one .json file, or two of which one begins with train; there are: {names}")
        (test,) = (file for file in paths if file not in train)
        parts = cut(read(train[0]), config.valid, None)
        return {**parts, "test": [one for article in read(test) for one in article]}

    def typed(self, one: Typed) -> Question:
        answers = () if one.answer is None else (one.answer,)
        document = self.readable(Text.of(one.story), one.place)
        return Question(document, Text.of(one.question), answers, place=one.place)

    def encode(self, questions: Sequence[Question]) -> Encoded:
        """An answer beyond the words that are read counts as none."""
        longest = self.config.longest
        cache: dict[int, tuple[np.ndarray, _Marks]] = {}
        documents, question_ids, answers, features = [], [], [], []
        for one in questions:
            if id(one.document) not in cache:
                cache[id(one.document)] = self._ids(one.document.words[:longest]), _Marks(one.document.words[:longest])
            ids, marks = cache[id(one.document)]
            documents.append(ids)
            question_ids.append(self._ids(one.question.words))
            answers.append(one.span if one.span[1] < longest else (-1, -1))
            features.append(np.concatenate([marks.against(one.question.words), ids[:, None] == UNKNOWN], 1))
        own = [np.zeros(0, np.int32)] * len(questions)
        return Encoded(documents, question_ids, np.array(answers, np.int64), features, own)

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
    """Features of a document's words that need no vocabulary."""

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
        question_words = {word.lower() for word in question if word[0].isalnum()}
        stems = {stem(word) for word in question_words - STOP}
        same = np.array([word in question_words for word in self.words], np.float16)
        same_stem = np.array([form in stems for form in self.stems], np.float16)
        return np.concatenate([same[:, None], same_stem[:, None], self.alone], 1)
