"""How many questions are answered right?"""

from __future__ import annotations

from collections.abc import Sequence

ENOUGH = 3
"""People who must have given an answer for it to be wholly right."""


def exact(found: Sequence[str], wanted: Sequence[str]) -> float:
    """The share of answers, in percent, that are the same in every character. Of DAQUAR, whose answers may be several
    words with commas between, it is the strictest measure (Malinowski & Fritz 2014, arXiv:1410.0210)."""
    _check(found, wanted)
    return 100 * sum(one == other for one, other in zip(found, wanted)) / max(len(found), 1)


def agreement(found: Sequence[str], given: Sequence[Sequence[str]]) -> float:
    """The accuracy of VQA (Antol et al. 2015, arXiv:1505.00468, section 3), in percent: an answer that n of the people
    gave counts min(n / 3, 1)."""
    _check(found, given)
    each = (min(sum(one == other for other in many) / ENOUGH, 1.0) for one, many in zip(found, given))
    return 100 * sum(each) / max(len(found), 1)


def _check(found: Sequence[str], wanted: Sequence[object]) -> None:
    if len(found) != len(wanted):
        raise ValueError(f"{len(found)} answers to {len(wanted)} questions")
