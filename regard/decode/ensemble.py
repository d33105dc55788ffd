"""Several models that decode as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Ensemble(nn.Module):
    """A model whose probabilities are the mean of its members': log Σ_m w_m p_m(y), computed in log space.

    Members may be different systems as long as they read the same batch and share the target vocabulary. The state is
    the tuple of theirs, the alignment the mean of those that have one.

    Args:
        models: the members.
        weights: how much each counts, in any unit; equally, if None.
    """

    def __init__(self, models: Iterable[nn.Module], weights: Sequence[float] | None = None):
        super().__init__()
        self.models: Any = nn.ModuleList(models)
        if not len(self.models):
            raise ValueError("an ensemble has at least one model")
        weights = [1.0] * len(self.models) if weights is None else [float(weight) for weight in weights]
        if len(weights) != len(self.models):
            raise ValueError(f"{len(weights)} weights for an ensemble of {len(self.models)}")
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise ValueError(f"the weights of an ensemble are positive numbers, not {weights}")
        self.weights = [weight / sum(weights) for weight in weights]
        self.training = any(model.training for model in self.models)

    @property
    def uses(self) -> dict[str, Any]:
        """Those of the first member that declares any."""
        return next((model.uses for model in self.models if getattr(model, "uses", None)), {})

    def start(self, batch: Any) -> tuple[Any, ...]:
        """The states of all members."""
        return tuple(model.start(batch) for model in self.models)

    def step(self, token: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Log-probabilities (B, V) and the next states."""
        logits, states = zip(
            *(model.step(token, member_state) for model, member_state in zip(self.models, state)), strict=True
        )
        if len({member_logits.shape[-1] for member_logits in logits}) > 1:
            sizes = ", ".join(
                f"{type(m).__name__} {member_logits.shape[-1]}" for m, member_logits in zip(self.models, logits)
            )
            raise ValueError(f"the members of an ensemble share one target vocabulary, but their sizes are {sizes}")
        if len(logits) == 1:
            return logits[0], states
        log_probs = [
            member_logits.log_softmax(-1, dtype=torch.promote_types(member_logits.dtype, torch.float32))
            for member_logits in logits
        ]
        weighted = [log_prob + math.log(weight) for log_prob, weight in zip(log_probs, self.weights)]
        return torch.stack(weighted).logsumexp(dim=0), states

    def limit(self, batch: Any) -> Tensor:
        """(B,), the longest answer that any member allows."""
        return torch.stack([model.limit(batch) for model in self.models]).amax(0)

    def first(self, batch: Any) -> Tensor | None:
        """(B,), what the members are fed first; None is bos."""
        return self.models[0].first(batch) if hasattr(self.models[0], "first") else None

    def alignment(self, state: tuple[Any, ...]) -> Any:
        """(B, S), the mean over the members that have one; of several sources, that of each by name."""
        alignments = [
            getattr(model, "alignment", lambda _: None)(member_state) for model, member_state in zip(self.models, state)
        ]
        pairs = [(weight, alignment) for weight, alignment in zip(self.weights, alignments) if alignment is not None]
        if not pairs:
            return None
        if not isinstance(pairs[0][1], dict):
            return self._mean(pairs)
        names = [name for name in pairs[0][1] if all(name in alignment for _, alignment in pairs)]
        return {name: self._mean([(weight, alignment[name]) for weight, alignment in pairs]) for name in names}

    def _mean(self, pairs: list[tuple[float, Tensor]]) -> Tensor:
        if len({alignment.shape for _, alignment in pairs}) > 1:
            sizes = ", ".join(str(tuple(alignment.shape)) for _, alignment in pairs)
            raise ValueError(f"members look at sources of different sizes, {sizes}: decode with alignments=False")
        total = sum(weight for weight, _ in pairs)
        first, *others = [alignment * (weight / total) for weight, alignment in pairs]
        return sum(others, first)
