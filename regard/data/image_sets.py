"""Photographs with sets of labels, as they lie on disk.

``labels.json`` is a JSON object: the name of each photograph, with its suffix or without, and a list of its labels, of
which any may occur several times::

    {"000042": ["meatballs", "meatballs", "plain spaghetti"], …}

The photographs are in the folder, in one of its folders or in its zip archives, and are divided 8 : 1 : 1 by their
names. Where there are captions instead (:mod:`regard.data.captions`), the labels of a photograph are the nouns of its
captions, :class:`Nouns`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data import untrusted
from regard.data.lines import BadLines, clean
from regard.data.photographs import Album, Photograph, divided
from regard.data.recipes import singular

LABELS = "labels.json"


class Labelled(NamedTuple):
    """A photograph and its labels, or the captions that they are found in."""

    photograph: Photograph
    labels: list[str]


Splits = dict[str, list[Labelled]]


def read(folder: Path, bad: BadLines | None = None) -> Splits:
    """The photographs of each split, with labels."""
    bad = bad or BadLines()
    path = folder / LABELS
    entries = untrusted.parse_json(untrusted.read(path), path)
    if not isinstance(entries, dict):
        raise ValueError(f"{path}: a JSON object with a list of labels for each photograph was expected")
    folders = sorted(place for place in folder.iterdir() if place.is_dir())
    album = Album(folder, [folder, *folders, *sorted(folder.glob("*.zip"))])
    labelled = []
    for number, (name, labels) in enumerate(entries.items(), 1):
        photograph = album.find(name) or album.find(f"{name}.jpg")
        if not isinstance(labels, list) or not all(isinstance(label, str) and clean(label) for label in labels):
            bad.add("unreadable", path, number, f"the labels of {name[:60]!r} are no list of texts")
        elif photograph is None:
            places = ", ".join(str(place) for place in album.places)
            bad.add("without an image", path, number, f"{name[:60]!r} is not in {places}")
        else:
            labelled.append(Labelled(photograph, sorted({clean(label) for label in labels})))
    return divided(labelled, folder)


# ---------------------------------------------------------------------------------------------------------------------
# Nouns

_WORD = re.compile(r"[^\W\d_]+|[.,;]")
_BEFORE = frozenset({"a", "an", "the", "his", "her", "its", "their", "two", "three", "four", "several", "some"})
_AFTER = frozenset(
    {
        *("is", "are", "in", "on", "at", "with", "to", "from", "by", "near", "while", "as", "through", "into", "over"),
        *("up", "down", "along", "behind", "across", "for", "under", "around", "off"),
    }
)
_PLURALS = {"men": "man", "women": "woman", "children": "child", "people": "person"}


class Nouns:
    """Nouns of captions, by a rule instead of a tagger.

    A word is a noun if it stands often enough right after a determiner (``a``, ``the``, ``two``), at least 5 times and
    in 1 of 50 of its uses, and if in 3 of 10 of these the noun phrase ends with it: a preposition, ``is``, ``are``, a
    word in *-ing* or the end of a clause follows. So *a brown dog runs* makes nouns neither of *brown*, which a noun
    follows, nor of *runs*, which follows no determiner; and neither is *the front of*. Plurals count as singulars.

    Args:
        forms: all words, as they are written, that are nouns.
        known: the singulars that are labels.
    """

    def __init__(self, forms: Iterable[str], known: Iterable[str]):
        self.forms, self.known = list(forms), list(known)
        self._forms, self._labels = frozenset(self.forms), frozenset(self.known)

    @classmethod
    def learn(cls, described: Sequence[Sequence[str]], most: int) -> Nouns:
        """From the captions of each photograph: the ``most`` nouns that occur with the most photographs."""
        uses, after, ends = Counter[str](), Counter[str](), Counter[str]()
        sentences = [[_WORD.findall(caption.lower()) for caption in captions] for captions in described]
        for words in (words for captions in sentences for words in captions):
            uses.update(words)
            for before, word, follows in zip(words, words[1:], [*words[2:], "."]):
                if before in _BEFORE and word.isalpha() and len(word) > 2:
                    after[word] += 1
                    ends[word] += follows in _AFTER or not follows.isalpha() or _verbal(follows)
        nouns = {
            word for word, count in after.items() if count >= max(5, uses[word] / 50) and ends[word] >= 0.3 * count
        }
        forms = sorted(nouns - _BEFORE - _AFTER)
        learned = cls(forms, [_singular(word) for word in forms])
        counts = Counter(name for captions in described for name in learned.of(captions))
        return cls(forms, sorted(counts, key=lambda name: (-counts[name], name))[:most])

    def of(self, captions: Iterable[str]) -> list[str]:
        """The known nouns of captions, each once, sorted."""
        words = {word for caption in captions for word in _WORD.findall(caption.lower())}
        return sorted({_singular(word) for word in words & self._forms} & self._labels)


def _verbal(word: str) -> bool:
    return word.endswith("ing") and len(word) > 5


def _singular(word: str) -> str:
    return _PLURALS.get(word) or singular(word)
