"""The ``[decode]`` section of a recipe: how predictions are searched for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard._lazy import nearest
from regard.decode.search import beam, greedy, sample
from regard.decode.states import Writer
from regard.decode.tree import Hypothesis

METHODS = ("beam", "greedy", "sample")
UNKNOWN = 3
"""The token of unknown words."""


@dataclass(frozen=True)
class DecodeConfig:
    """How to decode."""

    method: str = "beam"
    size: int = 5
    """Hypotheses of a beam."""
    length_penalty: float = 0.6
    """α of ((5 + length) / 6)^α; 0 is none."""
    ratio: float = 1.0
    """The longest answer is the system's own limit times this …"""
    extra: int = 0
    """… and this many tokens more."""
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    unknown: bool = True
    """Can answers contain the token that stands for all unknown words?"""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"no way of decoding is called {self.method!r}: {nearest(self.method, METHODS)}")
        if self.size < 1:
            raise ValueError(f"a beam has at least one hypothesis: size={self.size}")
        if not abs(self.length_penalty) <= 100:
            raise ValueError(f"length_penalty is from -100 to 100, not {self.length_penalty}")


def decode(
    model: Writer,
    batch: Mapping[str, Tensor],
    config: DecodeConfig,
    *,
    nbest: int = 1,
    alignments: bool = True,
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """Predictions for a batch, by a model that has a ``limit``: for each item at most ``nbest`` hypotheses, best
    first."""
    max_length = ((model.limit(batch) * config.ratio).long() + config.extra).clamp(min=1)  # type: ignore[attr-defined]
    options: dict[str, Any] = {"max_length": max_length, "alignments": alignments}
    model = model if config.unknown else _WithoutUnknown(model)
    if config.method == "greedy":
        return greedy(model, batch, **options)
    if config.method == "sample":
        sampling: dict[str, Any] = {"temperature": config.temperature, "top_k": config.top_k, "top_p": config.top_p}
        return sample(model, batch, samples=nbest, generator=generator, **sampling, **options)
    size = max(config.size, nbest)
    return beam(model, batch, size=size, length_penalty=config.length_penalty, nbest=nbest, **options)


class _WithoutUnknown:
    """A Writer that writes no unknown words; all but ``step`` is passed on to the Writer that it wraps."""

    def __init__(self, model: Writer):
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, batch: Any) -> Any:
        return self._model.start(batch)

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self._model.step(token, state)
        return logits.index_fill(-1, torch.tensor([UNKNOWN], device=logits.device), float("-inf")), state
