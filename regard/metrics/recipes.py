"""Are the ingredients of a recipe used in its text? For whether they are right see :mod:`regard.metrics.sets`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from regard.metrics import captions


def mentioned(texts: Sequence[str], ingredients: Sequence[Collection[str]]) -> float:
    """The share of ingredients, in percent, whose last word, or its plural, occurs in the text that is to use them."""
    words = [set(captions.words(text)) for text in texts]
    seen = [_mentions(name, text_words) for text_words, names in zip(words, ingredients) for name in names]
    return 100 * sum(seen) / max(len(seen), 1)


def _mentions(name: str, words: set[str]) -> bool:
    last = name.rpartition(" ")[2]
    plurals = f"{last}s", f"{last}es", re.sub("y$", "ies", last), re.sub("f$", "ves", last)
    return not words.isdisjoint((last, *plurals))
