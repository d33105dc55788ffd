"""Are the right ingredients found, and are they used?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from regard.metrics import captions


def overlap(found: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> dict[str, float]:
    """Of sets beside those that are right, in percent: ``f1`` over all members of all sets together (micro), and
    ``iou``, the mean over sets of what they share of what is in either."""
    if len(found) != len(wanted):
        raise ValueError(f"{len(found)} sets for {len(wanted)} that are right")
    pairs = [(set(one), set(other)) for one, other in zip(found, wanted)]
    right = sum(len(one & other) for one, other in pairs)
    total = sum(len(one) + len(other) for one, other in pairs)
    each = [len(one & other) / len(one | other) if one | other else 1.0 for one, other in pairs]
    return {"f1": 200 * right / max(total, 1), "iou": 100 * sum(each) / max(len(each), 1)}


def frequent(ranked: Sequence[str], wanted: Sequence[Collection[str]]) -> list[str]:
    """As many of the first of ``ranked`` as agree best with all sets, by F1: what one would say without looking."""
    scores = [overlap([ranked[:count]] * len(wanted), wanted)["f1"] for count in range(len(ranked) + 1)]
    return list(ranked[: max(range(len(scores)), key=scores.__getitem__)])


def mentioned(texts: Sequence[str], ingredients: Sequence[Collection[str]]) -> float:
    """The share of ingredients, in percent, whose last word occurs in the text that is to use them."""
    words = [set(captions.words(text)) for text in texts]
    seen = [_said(name, held) for held, names in zip(words, ingredients) for name in names]
    return 100 * sum(seen) / max(len(seen), 1)


def _said(name: str, words: set[str]) -> bool:
    last = name.rpartition(" ")[2]
    return any(form in words for form in (last, f"{last}s", f"{last}es"))
