"""What belongs to one call of an attention rather than to the mechanism: mask, states, dropout, tensors by keyword."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attended import Want
from regard.parts import Part, Parts


@dataclass(eq=False)
class Call:
    """One call."""

    allowed: Tensor | None
    """Boolean, broadcastable to (…, T, S)."""
    causal: bool
    """Is ``allowed`` just the causal mask?"""
    states: tuple[Any, ...]
    dropout: float
    want: Want
    generator: torch.Generator | None
    extras: Mapping[str, Tensor]

    def within(self, allowed: Tensor, extras: Mapping[str, Tensor] | None = None) -> Call:
        """The same with another mask."""
        extras = self.extras if extras is None else extras
        return Call(allowed, False, self.states, self.dropout, self.want, self.generator, extras)

    def plain(self, parts: Parts) -> bool:
        """Is it score → mask → normalize → sum, and no more?"""
        return parts.window is None and parts.refiner is None and not self.dropout

    def given(self, parts: Parts) -> dict[Part, dict[str, Any]]:
        """What each part named in ``needs``."""
        if not any(part is not None and part.needs for part in parts):
            return {part: {} for part in parts if part is not None}
        states = dict(zip(parts.stateful(), self.states, strict=True))
        keywords: dict[Part, dict[str, Any]] = {}
        for part in parts:
            if part is None:
                continue
            keywords[part] = {name: self.extras[name] for name in part.needs if name in self.extras}
            if part in states:
                keywords[part]["state"] = states[part]
            if "generator" in part.needs:
                keywords[part]["generator"] = self.generator
        return keywords
