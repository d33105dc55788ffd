"""Baselines that choose an answer about a dialogue by shared words alone, and the counts they use.

The sliding window is that of Richardson, Burges & Renshaw 2013, *MCTest*, algorithms 1 and 2; the restriction to the
turns of the speaker in the question is after Sun et al. 2019, *DREAM* (arXiv:1902.00164), section 4.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.metrics.spans import STOP, stem

_MEN, _WOMEN = {"man", "boy"}, {"woman", "girl", "lady"}
_NAMES = {"m": _MEN, "man": _MEN, "w": _WOMEN, "f": _WOMEN, "woman": _WOMEN}


def stems(words: Sequence[str]) -> list[str]:
    """The stems of all words that are no punctuation."""
    return [stem(word.lower()) for word in words if word[0].isalnum()]


_STOP = frozenset(map(stem, STOP))


def asked_about(question: Sequence[str], speaker: str) -> bool:
    """Does a question mention a speaker, by name or as the man or the woman?"""
    words = {word.lower() for word in question}
    name = speaker.lower()
    return bool(words & _NAMES.get(name, {name}))


COLUMNS = ("window", "window_alone", "distance", "share", "content", "own", "pairs")
"""The columns of :func:`overlaps`."""


def overlaps(dialogue: Sequence[str], question: Sequence[str], choices: Sequence[Sequence[str]]) -> np.ndarray:
    """(C, 7), words as their stems:

    - ``window``: the most that any window of |A ∪ Q| words of the dialogue has in words of choice A or question Q,
      counted by their rarity log(1 + 1 / C(w)); ``window_alone``: the same without Q;
    - ``distance`` from a word of Q to one of A, the least, 1 for neighbours, as a share of the dialogue; 1 if there
      are none;
    - the ``share`` of A's words in the dialogue, of its ``content`` words (not stop words), of its ``own`` words (in no
      other choice) and of its ``pairs`` of neighbours.
    """
    counts = Counter(dialogue)
    rarity = {word: math.log1p(1 / count) for word, count in counts.items()}
    pairs, question_words = set(pairwise(dialogue)), set(question) - _STOP
    sets = [set(choice) for choice in choices]
    rows = []
    for number, (choice, words) in enumerate(zip(choices, sets)):
        content = words - _STOP
        own = words.difference(*(other for place, other in enumerate(sets) if place != number))
        rows.append(
            (
                _window(dialogue, rarity, words | question_words),
                _window(dialogue, rarity, words),
                _distance(dialogue, question_words, content),
                *(_share(part, set(counts)) for part in (words, content, own)),
                _share(set(pairwise(choice)), pairs),
            )
        )
    return np.array(rows, np.float32).reshape(len(choices), len(COLUMNS))


def _window(dialogue: Sequence[str], rarity: dict[str, float], words: set[str]) -> float:
    sums = np.concatenate([[0.0], np.cumsum([rarity[word] if word in words else 0.0 for word in dialogue])])
    size = min(len(words), len(dialogue))
    return float((sums[size:] - sums[: len(sums) - size]).max())


def _distance(dialogue: Sequence[str], one: set[str], other: set[str]) -> float:
    ones, others = (np.array([k for k, word in enumerate(dialogue) if word in words]) for words in (one, other))
    if not len(ones) or not len(others):
        return 1.0
    return float(np.abs(ones[:, None] - others).min()) / max(len(dialogue) - 1, 1)


def _share(words: set[str] | set[tuple[str, str]], present: set[str] | set[tuple[str, str]]) -> float:
    return len(words & present) / max(len(words), 1)


def baselines(counted: np.ndarray) -> dict[str, int]:
    """The choice of each baseline, from :func:`overlaps`: the first of those with the best score."""
    columns = dict(zip(COLUMNS, counted.T))
    scores = {
        "overlap": columns["share"],
        "window": columns["window"],
        "window_distance": columns["window"] - columns["distance"],
    }
    return {name: int(score.argmax()) for name, score in scores.items()}
