"""What a system has written, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.axes import Words


@dataclass(frozen=True, eq=False)
class Written:
    """One answer of a system that writes.

    Attributes:
        words: what was written.
        weights: (T, S), where each word looked along the source's axis; None if the system does not look.
        score: what answers are ranked by, larger is better.
        log_prob: its log-probability.
        looks: (T, S) over each axis that words looked along, by its name; the first are ``weights``.
        item: what was answered, as the task has it after the system has looked at it.
    """

    words: Words
    weights: Tensor | None
    score: float
    log_prob: float
    looks: Mapping[str, Tensor] = field(default_factory=dict)
    item: Any = None

    @property
    def text(self) -> str:
        """The words as they are written."""
        return str(self.words)
