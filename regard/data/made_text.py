"""Text that is made up: sentences of a small grammar, in which the number of the verb depends on a noun far before it.

``the old keys near the table of the boys are here .`` A subject may be followed by phrases whose nouns have another
number; only the subject's counts. Nouns and adjectives name which kind of word they are, so that the same sentences
serve as running text, as questions about the verb, and, with names of people and places, for tagging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NOUNS = ("boy", "girl", "cat", "dog", "key", "table", "tree", "book", "car", "house", "river", "door", "friend", "bird")
ADJECTIVES = ("old", "new", "red", "small", "big", "green", "quiet", "strange")
PREPOSITIONS = ("near", "of", "behind", "with", "under", "beside")
VERBS = (("is", "are"), ("has", "have"), ("was", "were"), ("runs", "run"), ("sleeps", "sleep"))
ENDS = ("here", "there", "today", "again", "slowly", "often")
PEOPLE = ("Ada", "Boris", "Chloe", "Dmitri", "Elena", "Farid", "Jordan", "Paris", "Georgia", "Milan")
PLACES = ("Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Jordan", "Paris", "Georgia", "Milan", "Tunis")
"""Some names are of both kinds; only the words around them tell which."""
NUMBERS = ("singular", "plural")


class Sentence(NamedTuple):
    """A sentence, cut at its verb.

    Attributes:
        words: what stands before the verb.
        plural: the number of the subject.
        subject: the place of the subject's noun.
        verb: the right verb.
        end: what follows the verb.
    """

    words: tuple[str, ...]
    plural: bool
    subject: int
    verb: str
    end: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole sentence."""
        return " ".join([*self.words, self.verb, *self.end])


def _pick(random: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(random.integers(len(choices)))]


def sentence(random: np.random.Generator, longest: int = 15) -> Sentence:
    """A sentence whose verb stands at most ``longest`` words after its subject."""
    plural = bool(random.random() < 0.5)
    words = ["the"]
    if random.random() < 0.4:
        words.append(_pick(random, ADJECTIVES))
    subject = len(words)
    words.append(_noun(random, plural))
    while random.random() < 0.75 and len(words) - subject + 4 <= longest:
        words += [_pick(random, PREPOSITIONS), "the"]
        if random.random() < 0.3:
            words.append(_pick(random, ADJECTIVES))
        words.append(_noun(random, bool(random.random() < 0.5)))
    verb = VERBS[int(random.integers(len(VERBS)))][plural]
    return Sentence(tuple(words), plural, subject, verb, (_pick(random, ENDS), "."))


def _noun(random: np.random.Generator, plural: bool) -> str:
    return _pick(random, NOUNS) + ("s" if plural else "")


def running(seed: int, sentences: int) -> str:
    """A text of many sentences, a line for each."""
    random = np.random.default_rng([seed, 1])
    return "".join(f"{sentence(random).text}\n" for _ in range(sentences))


class Tagged(NamedTuple):
    """Words, and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def tagged(random: np.random.Generator, entities: bool) -> Tagged:
    """A sentence with names of people and places. The tags are BIO entities, or parts of speech."""
    rows: list[tuple[str, str, str]] = []

    def add(word: str, part: str, entity: str = "O") -> None:
        rows.append((word, part, entity))

    def person() -> None:
        add(_pick(random, PEOPLE), "PROPN", "B-PER")
        if random.random() < 0.3:
            add(_pick(random, PEOPLE), "PROPN", "I-PER")

    def thing() -> None:
        add("the", "DET")
        if random.random() < 0.5:
            add(_pick(random, ADJECTIVES), "ADJ")
        add(_noun(random, bool(random.random() < 0.3)), "NOUN")

    person() if random.random() < 0.6 else thing()
    # "runs" and "walks" are nouns after "the", and verbs elsewhere.
    add(_pick(random, ("sees", "likes", "walks", "runs")), "VERB")
    if random.random() < 0.5:
        add("with", "ADP")
        person() if random.random() < 0.6 else thing()
    else:
        add("the", "DET")
        add(_pick(random, ("walks", "runs", "books", "tables")), "NOUN")
    if random.random() < 0.7:
        add(_pick(random, ("in", "from", "to")), "ADP")
        add(_pick(random, PLACES), "PROPN", "B-LOC")
    add(".", "PUNCT")
    words, parts, names = zip(*rows, strict=True)
    return Tagged(words, names if entities else parts)
