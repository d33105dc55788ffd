"""F1 of predicted keyphrases."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.data.scripts import BARE_LETTERS, UNSPACED

Phrase = tuple[str, ...]
_WORD = re.compile(rf"{BARE_LETTERS}|{UNSPACED}")


def stems(text: str) -> Phrase:
    """The words of a text as phrases are compared: in lower case, without punctuation and the s of a plural (Harman
    1991)."""
    return tuple(_stem(word) for word in _WORD.findall(text.lower()))


def _stem(word: str) -> str:
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word[:-1] if word.endswith("s") and not word.endswith(("us", "ss")) else word


def present(phrases: Sequence[str], text: str) -> list[Phrase]:
    """The different phrases whose words stand next to each other in the text, in the order given."""
    line = f" {' '.join(stems(text))} "
    unique = dict.fromkeys(stems(phrase) for phrase in phrases)
    return [phrase for phrase in unique if phrase and f" {' '.join(phrase)} " in line]


def f1_at(predicted: Sequence[Sequence[Phrase]], wanted: Sequence[Sequence[Phrase]], count: int = 5) -> float:
    """F1 of the first ``count`` predicted phrases of each text, in percent: the mean over texts with a right phrase
    (Meng et al. 2017, arXiv:1704.06879). Where fewer than ``count`` are predicted, precision is theirs."""
    total, texts = 0.0, 0
    for phrases, right in zip(predicted, wanted, strict=True):
        if not right:
            continue
        first, texts = set(phrases[:count]), texts + 1
        total += 2 * len(first & set(right)) / (len(first) + len(set(right)))
    return 100 * total / max(texts, 1)
