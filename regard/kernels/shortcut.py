"""What a kernel can answer at once, and which kernel that is: score → mask → normalize → sum in one call.

Each function gives None where no kernel fits or pays; :func:`regard.attention.look` then goes step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard import kernels
from regard.attended import Attended
from regard.call import Call
from regard.kernels import groups
from regard.masks import Mask
from regard.parts import Normalizer, Parts

if TYPE_CHECKING:
    from regard.memory import Memory


@dataclass(eq=False)
class Pending:
    """Scores and weights that a kernel did not write down, and what they can be computed from: query and key as they
    were compared, so that no later step of an optimizer changes the result."""

    form: kernels.Form
    normalizer: Normalizer
    allowed: Tensor | Callable[[], Tensor] | None
    dtype: torch.dtype
    """That of the values."""
    group: int = 1
    """How many heads of queries share a head of keys, as in :class:`~regard.memory.Memory`."""

    def scores(self) -> Tensor:
        return groups.unfold(self.form.scores(), self.group)

    def weights(self) -> Tensor:
        allowed = self.allowed() if callable(self.allowed) else self.allowed
        return kernels.narrowed(self.normalizer(self.scores(), allowed), self.dtype)


def single(parts: Parts, query: Tensor, memory: Memory, call: Call) -> Attended | None:
    """A single query, in one pass over its keys and values. Only what is allowed is read."""
    score, normalizer = parts.score, parts.normalizer
    if query.shape[-2] != 1 or score.positional or not call.plain(parts) or not kernels.bare(query):
        return None
    keywords = call.given(parts)[score]
    group, answer = memory.group, None
    if memory.pages is not None:
        answer = memory.pages.look(score, keywords, normalizer, query, call.allowed, group)
    if answer is None:
        form = kernels.lower(score, groups.fold(query, group), memory.key, keywords)
        answer = kernels.single_query(form, normalizer, memory.value, call.allowed, group=group)
    if answer is None:
        return None
    context, scores = answer
    if not call.want:
        return Attended(context)
    weights = partial(normalizer, scores, call.allowed)
    return Attended(context, weights() if call.want is True else weights, scores)


def dense(parts: Parts, form: kernels.Form | None, memory: Memory, call: Call) -> Attended | None:
    """All queries and all keys, without writing the weights down."""
    if form is None or not call.plain(parts) or call.want is True:
        return None
    context = kernels.softmax_sum(form, parts.normalizer, memory.value, call.allowed, call.causal, memory.group)
    return None if context is None else _pending(context, parts, form, memory, call, call.allowed)


def along(parts: Parts, query: Tensor, memory: Memory, call: Call, mask: Mask) -> Attended | None:
    """The stretch of keys that the mask leaves to each query, without reading the others."""
    if not call.plain(parts) or call.want is True:
        return None
    shape, group = (*query.shape[:-1], memory.length), memory.group
    spans = kernels.spans_of(mask, shape, query)
    if spans is None:
        return None
    form = kernels.lower(parts.score, groups.fold(query, group), memory.key, call.given(parts)[parts.score])
    context = kernels.span_sum(form, parts.normalizer, memory.value, spans, group)
    if context is None or form is None:
        return None
    return _pending(context, parts, form, memory, call, partial(mask.tensor, shape, query.device))


def _pending(
    context: Tensor,
    parts: Parts,
    form: kernels.Form,
    memory: Memory,
    call: Call,
    allowed: Tensor | Callable[[], Tensor] | None,
) -> Attended:
    if not call.want:
        return Attended(context)
    pending = Pending(kernels.keep(form), parts.normalizer, allowed, memory.value.dtype, memory.group)
    return Attended(context, pending.weights, pending.scores)
