"""Are the right members of sets found?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence


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


def cardinality_error(found: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> float:
    """By how many members a set is too large or too small, on average."""
    return sum(abs(len(set(one)) - len(set(other))) for one, other in zip(found, wanted)) / max(len(found), 1)


def per_class(found: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> float:
    """F1 of each member that is in any of the sets that are right, in percent; the mean over them (macro)."""
    given, right = (Counter(name for each in sets for name in set(each)) for sets in (found, wanted))
    both = Counter(name for one, other in zip(found, wanted) for name in set(one) & set(other))
    return 100 * sum(2 * both[name] / (given[name] + right[name]) for name in right) / max(len(right), 1)


def ranked(sets: Iterable[Collection[str]]) -> list[str]:
    """All members of sets, the most frequent first."""
    counts = Counter(name for each in sets for name in set(each))
    return sorted(counts, key=lambda name: (-counts[name], name))


def frequent(known: Sequence[str], wanted: Sequence[Collection[str]]) -> list[str]:
    """As many of the first of ``known`` as agree best with all sets, by F1: what one would say without looking."""
    scores = [overlap([known[:count]] * len(wanted), wanted)["f1"] for count in range(len(known) + 1)]
    return list(known[: max(range(len(scores)), key=scores.__getitem__)])
