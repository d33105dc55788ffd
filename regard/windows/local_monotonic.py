from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.parts import Window

if TYPE_CHECKING:
    from regard.attended import Attended
    from regard.memory import Memory


class LocalMonotonic(Window):
    """Query t looks at the keys t − D … t + D. Luong, Pham & Manning 2015 (arXiv:1508.04025), section 3.2, "local-m".

    D is ``radius``. The state is the number of queries answered so far, (B,), so that decoding step by step goes on
    where it stopped. Shapes: query (…, T, ·) → start (…, T), width 2D + 1.
    """

    equation = "pₜ = t, |s − pₜ| ≤ D"
    paper = "Luong 2015"
    needs = ("state",)

    def __init__(self, radius: int):
        super().__init__()
        if radius < 0:
            raise ValueError(f"the radius of a window cannot be negative: {radius}")
        self.radius = radius

    def start(self, memory: Memory) -> Tensor:
        leading = memory.value.shape[:-2]
        return torch.zeros(leading[:1], dtype=torch.long, device=memory.value.device)

    def advance(self, state: Tensor, out: Attended) -> Tensor:
        return state + out.context.shape[-2]

    def forward(self, query: Tensor, lengths: Tensor, state: Tensor | None = None) -> tuple[Tensor, int]:
        leading, queries = query.shape[:-2], query.shape[-2]
        places = torch.arange(queries, device=query.device)
        if state is not None:
            places = places + state.reshape(state.shape + (1,) * len(leading))
        return places.expand(*leading, queries) - self.radius, 2 * self.radius + 1
