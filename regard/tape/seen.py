"""Weights of an attention that was computed, and how they are found where a module only returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard._lazy import snake
from regard.attended import Attended
from regard.heads import PerHead
from regard.kernels import groups
from regard.kernels.forms import DotForm
from regard.kernels.shortcut import Pending
from regard.normalizers import Softmax
from regard.parts import Parts
from regard.tape.later import Later


class Seen:
    """An attention that was computed. ``make`` gives its weights, and is called at most once."""

    def __init__(
        self,
        make: Callable[[], Tensor | Later | None],
        kind: str,
        log_prob: Tensor | None = None,
        index: Tensor | None = None,
    ):
        self.make, self.kind, self.log_prob, self.index = make, kind, log_prob, index
        self.made: Tensor | Later | None = None

    @classmethod
    def answer(cls, out: Attended, kind: str) -> Seen:
        """Of our own. Reading ``out.weights`` would leave weights without a graph in the model's own record."""
        weights = out._weights
        index = None if out.edges is None else out.edges.index

        def make() -> Tensor | Later | None:
            return (_later(weights) or weights()) if callable(weights) else weights

        return cls(make, kind, out.log_prob, index)

    def weights(self) -> Tensor | Later:
        if self.made is None:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self.made = self.make()
        if self.made is None:
            raise RuntimeError("it gave no weights")
        return self.made


def kind_of(parts: Parts) -> str:
    """The parts of an attention of ours, by name."""
    score = parts.score.scores[0] if isinstance(parts.score, PerHead) else parts.score
    flow = (parts.window, score, parts.normalizer, parts.refiner)
    return ", ".join(snake(type(part).__name__) for part in flow if part is not None)


def _later(weights: Callable) -> Later | None:
    """The weights of a dot product of ours that no kernel wrote down."""
    pending = getattr(weights, "__self__", None)
    if not isinstance(pending, Pending) or type(pending.normalizer) is not Softmax:
        return None
    form, normalizer = pending.form, pending.normalizer
    if not isinstance(form, DotForm) or form.query.ndim < 2 or (pending.group > 1 and form.bias is not None):
        return None
    cold = 1 / normalizer.temperature
    bias = None if form.bias is None else form.bias * cold
    query, allowed = groups.unfold(form.query, pending.group), pending.allowed
    allowed = allowed() if callable(allowed) else allowed
    return Later(query, form.key, form.scale * cold, bias, allowed, None, pending.dtype)


def called_attention(module: nn.Module) -> bool:
    """Has the module the name of an attention?"""
    kind = type(module).__name__.lower()
    return "attention" in kind or "attn" in kind


def beside(module: nn.Module, output: Any) -> Tensor | None:
    """Weights (B, H, T, S) or (B, T, S) that a module returns beside its output (B, T, E): the only tensor there that
    is nowhere negative and whose rows sum to 1, or to 0 where nothing may be attended. In training dropout may have
    changed the sums; then the module must at least be called an attention."""
    if not isinstance(output, tuple) or not output or not isinstance(output[0], Tensor) or output[0].ndim != 3:
        return None
    batch, length = output[0].shape[:2]
    for tensor in output[1:]:
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.ndim not in (3, 4):
            continue
        if tensor.shape[0] != batch or tensor.shape[-2] != length or not tensor.numel():
            continue
        with torch.no_grad(), torch._C.DisableTorchFunction():
            sums = tensor.sum(dim=-1, dtype=torch.float32)
            normalized = ((sums - 1).abs() < 0.01) | (sums == 0)
            if bool((tensor >= 0).all()) and (bool(normalized.all()) or (module.training and called_attention(module))):
                return tensor
    return None
