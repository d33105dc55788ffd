"""What a system has written, in words."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    words: Words
    weights: Tensor | None
    score: float
    log_prob: float

    @property
    def text(self) -> str:
        """The words as they are written."""
        return str(self.words)
