"""Spans of text as answers: the words and the F1 that SQuAD compares, and a baseline without learning.

The sliding window is that of Richardson, Burges & Renshaw 2013, *MCTest: A Challenge Dataset for the Open-Domain
Machine Comprehension of Text*.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np

from regard.data.passages import Text
from regard.data.scripts import UNSPACED

_STOP = """
a about after all also an and any are as at be because been before being between both but by can could did do does
during each for from had has have he her him his how i if in into is it its may more most much many no not of on
one only or other our over she should so some such than that the their them then there these they this those
through to under until up was we were what when where which while who whom whose why will with would you your
"""
_CHARACTER = re.compile(UNSPACED)
STOP = frozenset(_STOP.split())
"""Words that cannot be part of an answer of the baseline."""


def normal(text: str) -> list[str]:
    """The words that are compared: lower case, without punctuation and articles. Of scripts without spaces, each
    character."""
    bare = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    words = _CHARACTER.sub(r" \g<0> ", bare).split()
    return [word for word in words if word not in ("a", "an", "the")]


def f1(answer: str, right: str) -> float:
    """The harmonic mean of precision and recall of words, each as often as it occurs."""
    answer_words, right_words = normal(answer), normal(right)
    common = sum((Counter(answer_words) & Counter(right_words)).values())
    if not answer_words or not right_words:
        return float(answer_words == right_words)
    return 2 * common / (len(answer_words) + len(right_words))


def stem(word: str) -> str:
    """The stem of a word, roughly: common endings cut off, at least four letters kept."""
    return re.sub(r"(?<=\w{4})(?:ies|ing|ed|es|s|e|y|ion|al|er|ly)$", "", word)


def window(document: Text, question: Text) -> str:
    """The answer of the sliding window with distance. Richardson et al. 2013, algorithms 1 and 2.

    A candidate with words A is worth the most that any window of |A ∪ Q| words of the document has in words of A ∪ Q,
    counted by their rarity log(1 + 1 / C(w)), less how far a word of A is at least from one of Q. As in Rajpurkar et
    al. 2016, section 5.1, only candidates compete whose sentence has most words and pairs of words in common with the
    question. Theirs are the constituents of a parse, ours runs of words without stop words, words of the question and
    signs.
    """
    words = [word.lower() for word in document.words]
    question_words = {word.lower() for word in question.words if word[0].isalnum()} - STOP
    pairs = {(a.lower(), b.lower()) for a, b in pairwise(question.words)}
    counts = Counter(words)
    rarity = np.array([math.log1p(1 / counts[word]) for word in words])
    near = np.array([word in question_words for word in words])
    places = np.flatnonzero(near)
    best, chosen = (-1.0, -math.inf), (0, len(words) - 1)
    for start, stop in sentences(words):
        for first, last in candidates(words, start, stop, STOP | question_words):
            rest = [*words[start:first], "", *words[last + 1 : stop]]
            overlap = len(question_words & set(rest)) + len(pairs & set(pairwise(rest)))
            if overlap < best[0]:
                continue
            own = set(words[first : last + 1])
            shared = np.where(near | np.array([word in own for word in words]), rarity, 0.0)
            sums = np.concatenate([[0.0], np.cumsum(shared)])
            size = min(len(own | question_words), len(words))
            score = float((sums[size:] - sums[:-size]).max())
            if len(places):
                outside = np.where(places < first, first - places, np.maximum(places - last, 0))
                score -= float(outside.min()) / max(len(words) - 1, 1)
            best, chosen = max((best, chosen), ((float(overlap), score), (first, last)))
    return document.piece(*chosen)


def sentences(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The first word of each sentence, and that of the next."""
    start = 0
    for place, word in enumerate(words, 1):
        if word in (".", "?", "!") or place == len(words):
            yield start, place
            start = place


def candidates(words: Sequence[str], start: int, stop: int, parting: Collection[str]) -> Iterator[tuple[int, int]]:
    """Runs of words that are neither signs nor among ``parting``; a hyphen or apostrophe inside does not end one."""

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
