"""How a system says what it does with attention."""

from __future__ import annotations

from typing import NamedTuple


class Use(NamedTuple):
    """One use of attention: its query, key, value, score and normalizer; and what stands along the two axes of its
    weights, by the names that ``task.axes`` gives them (:mod:`regard.axes`). ``written`` is what a Writer writes.
    """

    query: str
    key: str
    value: str
    score: str
    normalizer: str = "softmax"
    rows: str = "steps"
    columns: str = "items"
