"""Accuracy of answers."""

from __future__ import annotations

from collections.abc import Sequence

ENOUGH = 3
"""People who must have given an answer for its accuracy to be 1."""


def exact(answers: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of answers, in percent, that equal the right one in every character. For DAQUAR, whose answers can be
    several words with commas between, it is the strictest measure (Malinowski & Fritz 2014, arXiv:1410.0210)."""
    _check(answers, wanted)
    return 100 * sum(one == other for one, other in zip(answers, wanted)) / max(len(answers), 1)


def agreement(answers: Sequence[str], given: Sequence[Sequence[str]]) -> float:
    """The accuracy of VQA (Antol et al. 2015, arXiv:1505.00468, section 3), in percent: an answer that n of the people
    gave counts min(n / 3, 1)."""
    _check(answers, given)
    scores = (min(sum(one == other for other in references) / ENOUGH, 1.0) for one, references in zip(answers, given))
    return 100 * sum(scores) / max(len(answers), 1)


def _check(answers: Sequence[str], questions: Sequence[object]) -> None:
    if len(answers) != len(questions):
        raise ValueError(f"{len(answers)} answers to {len(questions)} questions")
