"""Answers that are spans of a document."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def best_span(starts: Tensor, ends: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first and last word (B,) of at most ``longest`` words with the greatest starts[first] + ends[last], and that
    sum. Shapes: starts and ends (B, S)."""
    size = starts.shape[1]
    reach = min(longest, size)
    padded = pad(ends, (0, reach - 1), value=-torch.inf).unfold(1, reach, 1)  # (B, S, reach)
    best, width = padded.max(-1)
    total, first = (starts + best).max(-1)
    return first, first + width.gather(1, first[:, None])[:, 0], total
