"""How faithful are weights as an explanation? :func:`faithfulness` of many cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.explain._scored import SHARES, Score, remembered
from regard.explain.agreement import agreement
from regard.explain.comprehensiveness import comprehensiveness
from regard.explain.importance import importance
from regard.explain.sufficiency import sufficiency

RANKINGS = ("attention", "random", "leave-one-out")


@dataclass(frozen=True, eq=False)
class Case:
    """Answers to one question, with the weights that a system gave to the items.

    Attributes:
        weights: (R, S): for each of R answers the weights of S items.
        score: (N, S) booleans, which items are kept → (N, R), how good each answer is then.
    """

    weights: Tensor
    score: Score


def faithfulness(
    cases: Iterable[Case], *, shares: Sequence[float] = SHARES, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Means over all answers, for the ranking by the weights and for two others to compare it with: a random one, and
    leave-one-out importance itself.

    Returns:
        For ``attention``, ``random`` and ``leave-one-out``: ``kendall`` and ``spearman``, the agreement with
        leave-one-out importance; ``comprehensiveness`` (the higher, the more faithful) and ``sufficiency`` (the lower).
        Under ``counted``: ``cases``, ``answers`` and ``items``, the mean number of items. Cases of one item, which have
        no ranking, are left out.
    """
    generator = torch.Generator().manual_seed(seed)
    kinds = ("kendall", "spearman", "comprehensiveness", "sufficiency")
    sums: dict[str, dict[str, list[Tensor]]] = {name: {kind: [] for kind in kinds} for name in RANKINGS}
    items: list[int] = []
    for case in cases:
        answers, count = case.weights.shape
        if count < 2 or not answers:
            continue
        items.append(count)
        score = remembered(case.score)
        loss = importance(score, count)  # (R, S)
        random = torch.rand(answers, count, generator=generator)
        for name, ranking in zip(RANKINGS, (case.weights, random, loss)):
            measures = sums[name]
            for kind in ("kendall", "spearman"):
                measures[kind].append(agreement(ranking.to(loss), loss, kind=kind))
            measures["comprehensiveness"].append(comprehensiveness(score, ranking, shares=shares))
            measures["sufficiency"].append(sufficiency(score, ranking, shares=shares))
    if not items:
        raise ValueError("there is no case with two items or more to rank")
    means = {
        name: {kind: float(torch.cat(batches).double().nanmean()) for kind, batches in measures.items()}
        for name, measures in sums.items()
    }
    answers = sum(len(batches) for batches in sums["attention"]["sufficiency"])
    return {**means, "counted": {"cases": len(items), "answers": answers, "items": sum(items) / len(items)}}
