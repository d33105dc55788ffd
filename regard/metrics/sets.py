"""Overlap of predicted sets with the right ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence


def overlap(predicted: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> dict[str, float]:
    """In percent: ``f1`` over the members of all sets together (micro), and ``iou``, the mean over sets of intersection
    over union."""
    if len(predicted) != len(wanted):
        raise ValueError(f"{len(predicted)} sets for {len(wanted)} that are right")
    pairs = [(set(one), set(other)) for one, other in zip(predicted, wanted)]
    right = sum(len(one & other) for one, other in pairs)
    total = sum(len(one) + len(other) for one, other in pairs)
    ious = [len(one & other) / len(one | other) if one | other else 1.0 for one, other in pairs]
    return {"f1": 200 * right / max(total, 1), "iou": 100 * sum(ious) / max(len(ious), 1)}


def cardinality_error(predicted: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> float:
    """The mean absolute difference of the sizes of predicted and right sets."""
    return sum(abs(len(set(one)) - len(set(other))) for one, other in zip(predicted, wanted)) / max(len(predicted), 1)


def per_class(predicted: Sequence[Collection[str]], wanted: Sequence[Collection[str]]) -> float:
    """The mean F1, in percent, over all members of right sets (macro)."""
    chosen, right = (Counter(name for members in sets for name in set(members)) for sets in (predicted, wanted))
    both = Counter(name for one, other in zip(predicted, wanted) for name in set(one) & set(other))
    return 100 * sum(2 * both[name] / (chosen[name] + right[name]) for name in right) / max(len(right), 1)


def ranked(sets: Iterable[Collection[str]]) -> list[str]:
    """All members of sets, the most frequent first."""
    counts = Counter(name for members in sets for name in set(members))
    return sorted(counts, key=lambda name: (-counts[name], name))


def frequent(known: Sequence[str], wanted: Sequence[Collection[str]]) -> list[str]:
    """As many of the first of ``known`` as agree best with all sets, by F1: a constant prediction."""
    scores = [overlap([known[:count]] * len(wanted), wanted)["f1"] for count in range(len(known) + 1)]
    return list(known[: max(range(len(scores)), key=scores.__getitem__)])
