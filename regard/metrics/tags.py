"""Scores of taggers: single tags, and whole entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Entity(NamedTuple):
    """Words ``first`` to ``last`` of a sentence, and their kind."""

    first: int
    last: int
    kind: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of BIO tags. An ``I-`` that continues nothing of its kind begins an entity, as in CoNLL's own
    evaluation."""
    spans: list[Entity] = []
    first, kind = -1, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, new = tag.partition("-")
        if kind and (mark != "I" or new != kind):
            spans.append(Entity(first, place - 1, kind))
            kind = ""
        if new and not kind:
            first, kind = place, new
    return spans


def entity_scores(right: Sequence[Sequence[str]], chosen: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 in percent, strict: an entity counts if both ends and its kind are right. ``f1_KIND`` is
    that of each kind."""
    gold = {(row, *entity) for row, tags in enumerate(right) for entity in entities(tags)}
    predicted = {(row, *entity) for row, tags in enumerate(chosen) for entity in entities(tags)}
    values = _f1(gold, predicted)
    for kind in sorted({entity[-1] for entity in gold | predicted}):
        of_kind = [{entity for entity in side if entity[-1] == kind} for side in (gold, predicted)]
        values[f"f1_{kind}"] = _f1(*of_kind)["f1"]
    return values


def _f1(gold: set, predicted: set) -> dict[str, float]:
    hits = len(gold & predicted)
    precision, recall = hits / max(len(predicted), 1), hits / max(len(gold), 1)
    f1 = 2 * hits / max(len(gold) + len(predicted), 1)
    return {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def accuracy(right: Sequence[Sequence[str]], chosen: Sequence[Sequence[str]]) -> float:
    """The share of words with the right tag, in percent."""
    pairs = [
        one == other
        for tags, predicted in zip(right, chosen, strict=True)
        for one, other in zip(tags, predicted, strict=True)
    ]
    return 100 * sum(pairs) / max(len(pairs), 1)
