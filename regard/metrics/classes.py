"""Scores of classifiers."""

from __future__ import annotations

import math

import numpy as np


def scores(right: np.ndarray, chosen: np.ndarray, classes: int) -> dict[str, float]:
    """In percent: ``accuracy``, that of always choosing the most frequent class (``majority``), the mean F1 of the
    classes that occur, and Matthews' correlation (of several classes Gorodkin's), which is 0 for any constant choice.
    """
    table = np.zeros((classes, classes))
    np.add.at(table, (right, chosen), 1)
    total, hits = table.sum(), np.diag(table)
    occurs = (table.sum(0) + table.sum(1)) > 0
    f1 = 2 * hits[occurs] / (table.sum(0) + table.sum(1))[occurs]
    actual, predicted = table.sum(1), table.sum(0)
    spread = math.sqrt((total**2 - (predicted**2).sum()) * (total**2 - (actual**2).sum()))
    matthews = (hits.sum() * total - (actual * predicted).sum()) / spread if spread else 0.0
    values = {"accuracy": hits.sum() / total, "majority": actual.max() / total, "f1": f1.mean(), "matthews": matthews}
    return {name: 100 * float(value) for name, value in values.items()}
