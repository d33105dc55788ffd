"""How a system says what it does with attention."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """One use of the recipe: who asks, what is compared, what is summed, and how."""

    query: str
    key: str
    value: str
    score: str
    normalizer: str = "softmax"
