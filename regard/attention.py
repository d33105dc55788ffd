"""Every attention mechanism is these steps; only what a query, a key, a value and the parts are differs.

    window → score → mask → normalize → refine → sum

:func:`look` is these steps, :func:`attend` the same as a function, :class:`Attention` with parts that have parameters.
All return an :class:`Attended`. A :class:`~regard.memory.Memory` holds keys that are projected once and looked at many
times.

Letters: B batch, H heads, T queries, S keys, D query/key width, E value width; (…) is what comes before, often (B,).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Never

import torch
from torch import Tensor, nn

from regard import candidates, kernels, masks, skipping, spoiled
from regard._checks import check_extras, check_query, group_of, notice_forgotten_state, shape
from regard.attended import Attended, Want, witness
from regard.call import Call
from regard.kernels import groups, shortcut
from regard.masks import Mask
from regard.memory import Memory, pair
from regard.parts import Normalizer, Part, Parts, Refiner, Score, Window, build

OUTSIDE = float("-inf")
"""The score of a key that a window left out."""


def look(parts: Parts, query: Tensor, memory: Memory, call: Call) -> Attended:
    """The whole of attention: window → score → mask → normalize → refine → sum."""
    score, normalizer, window, refiner = parts
    keywords = call.given(parts)
    # A score of places must know which keys a window took, and no kernel does.
    lowerable = window is None or not score.positional
    form = kernels.lower(score, groups.fold(query, memory.group), memory.key, keywords[score]) if lowerable else None
    at_once = shortcut.dense(parts, form, memory, call)
    if at_once is not None:
        return at_once

    keys = candidates.of(window, query, memory, call.allowed, keywords)
    place = keys.place
    scores = keys.score(score, form, query, keywords[score])
    weights = normalizer(scores, keys.mask, **keywords[normalizer])
    log_prob = normalizer.log_prob(scores, keys.mask, weights) if normalizer.stochastic else None
    weights = keys.fade(kernels.narrowed(weights, memory.value.dtype))
    if refiner is not None:
        scores, weights = keys.spread(scores, OUTSIDE), keys.spread(weights)
        keys = candidates.of(None, query, memory, call.allowed, keywords)
        weights = refiner(weights, call.allowed, **keywords[refiner])
    context = keys.sum(drop(weights, call.dropout, call.generator))

    if not call.want:
        return Attended(context, log_prob=log_prob, place=place)
    deliver: Callable[..., Any] = keys.later if call.want == "lazy" else keys.spread
    return Attended(context, deliver(weights), deliver(scores, OUTSIDE), log_prob=log_prob, place=place)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    mask: Mask | Tensor | None = None,
    dropout: float = 0.0,
    weights: Want = "lazy",
    generator: torch.Generator | None = None,
    grouped: bool = False,
    **unknown: Never,
) -> Attended:
    """Score, normalize, sum: attention as a function, for scores without parameters.

    Args:
        query: (…, T, D).
        key: (…, S, D).
        value: (…, S, E); the keys, if None.
        score: a name (``regard list scores``) or an instance.
        normalizer: a name or an instance.
        mask: which keys may be attended, see :mod:`regard.masks`.
        dropout: the share of weights dropped; always, there is no training mode here.
        weights: ``"lazy"`` computes them when they are read, True now, False never.
        generator: drives dropout and sampling normalizers.
        grouped: queries (B, H, T, D) may have more heads than keys (B, G, S, D), a multiple: heads 0 … H/G − 1 look at
            the first head of keys, and so on. Keys are not repeated for it.
    """
    parts = parts_of(score, normalizer)
    check_extras(parts, query, unknown)
    if any(parameter.requires_grad for parameter in parts.score.parameters()) and isinstance(score, str):
        raise ValueError(f"score {score!r} has parameters: build it once and use regard.Attention")
    if parts.stateful():
        raise ValueError(f"{type(parts.score).__name__} carries a state from query to query: use regard.Attention")
    memory = _remember(parts.score, key, value, mask, mask is not None)
    if grouped:
        memory.group = group_of(query, key)
    return answer(parts, query, memory, None, dropout=dropout, want=weights, generator=generator)


class Attention(nn.Module):
    """Attention with its parts.

    Args:
        score: an instance, or the name of a score without arguments.
        normalizer: an instance or a name.
        window: limits the keys that are candidates at all.
        refiner: changes the weights after normalization.
        dropout: share of weights dropped in training.

    Example::

        attention = regard.Attention(Additive(query_dim=512, key_dim=1024, hidden_dim=512))
        out = attention(query, key, value, mask=regard.masks.lengths(lengths))

        memory = attention.remember(key, value, mask=mask)   # decoding: project the keys once
        state = attention.start(memory)
        out = attention(query_t, memory, state=state)        # out.state goes into the next call
    """

    def __init__(
        self,
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        *,
        window: str | Window | None = None,
        refiner: str | Refiner | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout is a share between 0 and 1, not {dropout}")
        self.score: Score = build("scores", score)
        self.normalizer: Normalizer = build("normalizers", normalizer)
        self.window: Window | None = None if window is None else build("windows", window)
        self.refiner: Refiner | None = None if refiner is None else build("refiners", refiner)
        self.dropout = dropout

    @property
    def parts(self) -> Parts:
        """Score, normalizer, window and refiner."""
        return Parts(self.score, self.normalizer, self.window, self.refiner)

    @property
    def recipe(self) -> Parts:
        """The old name of :attr:`parts`."""
        warnings.warn("Attention.recipe is called Attention.parts now", DeprecationWarning, stacklevel=2)
        return self.parts

    def remember(self, key: Tensor, value: Tensor | None = None, *, mask: Mask | Tensor | None = None) -> Memory:
        """Keys (…, S, D) and values (…, S, E), by default the keys, projected once for many calls."""
        return _remember(self.score, key, value, mask, True)

    def start(self, memory: Memory) -> Any:
        """The state before the first query: None for most parts, that of the stateful part, or a tuple of several."""
        return _pack(tuple(part.start(memory) for part in self.parts.stateful()))

    def forward(
        self,
        query: Tensor,
        key: Tensor | Memory,
        value: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        state: Any = None,
        weights: Want = "lazy",
        generator: torch.Generator | None = None,
        **extras: Tensor,
    ) -> Attended:
        """Look with T queries (…, T, D) at keys (…, S, D) and values (…, S, E), or at a memory.

        ``extras`` are the tensors that parts name in ``needs``, e.g. the NTM's ``gain=, gate=, shift=, sharpen=``.
        """
        if isinstance(key, Memory):
            if value is not None:
                raise ValueError("value= beside a Memory: the memory has its own values")
            memory = key if mask is None else key.within(mask)
        else:
            memory = _remember(self.score, key, value, mask, mask is not None)
        dropout = self.dropout if self.training else 0.0
        return answer(self.parts, query, memory, state, dropout, weights, generator, extras)


def answer(
    parts: Parts,
    query: Tensor,
    memory: Memory,
    state: Any,
    dropout: float,
    want: Want,
    generator: torch.Generator | None,
    extras: Mapping[str, Tensor] | None = None,
) -> Attended:
    """Check the call, look once or query by query, and move the state on."""
    if not torch.compiler.is_compiling() and witness.see is not None:
        return witness.see(
            parts, want, lambda want, parts: answer(parts, query, memory, state, dropout, want, generator, extras)
        )
    extras = {} if extras is None else extras
    if want not in ("lazy", True, False):
        raise ValueError(f"weights= is 'lazy', True or False, not {want!r}")
    check_query(parts.score, query, memory)
    check_extras(parts, query, extras)
    caller_memory = memory
    if memory.group > 1 and (parts.window is not None or parts.stateful()):
        memory = memory.repeated()  # each head of queries has candidates, or a past, of its own
    stateful = parts.stateful()
    if memory.mask is not None and not stateful and state is None:
        out = skipping.look(parts, query, memory, Call(None, False, (), dropout, want, generator, extras), _look)
        if out is not None:
            return out
    allowed, causal = None, False
    if memory.mask is not None:
        allowed, causal = memory.permits(query), isinstance(memory.mask, masks.Causal)
        causal = causal and memory.length == query.shape[-2]
    if not stateful and state is None:
        return _look(parts, query, memory, Call(allowed, causal, (), dropout, want, generator, extras))
    if state is None:
        notice_forgotten_state(stateful, query, caller_memory)
    states = tuple(part.start(memory) for part in stateful) if state is None else _unpack(state, stateful)
    call = Call(allowed, causal, states, dropout, want, generator, extras)
    if all(part.parallel for part in stateful) or query.shape[-2] == 0:
        out = _look(parts, query, memory, call)
        if query.shape[-2]:
            states = tuple(part.advance(part_state, out) for part, part_state in zip(stateful, states, strict=True))
    else:
        out, states = _in_order(parts, query, memory, call, stateful)
    out.state = _pack(states)
    return out


def _look(parts: Parts, query: Tensor, memory: Memory, call: Call) -> Attended:
    """:func:`look`, such that what is masked does not matter."""
    at_once = shortcut.single(parts, query, memory, call)  # which reads only what is allowed
    if at_once is not None:
        return at_once
    if call.allowed is None:
        return look(parts, query, memory, call)

    random = (call.dropout or parts.normalizer.stochastic) and spoiled.visible(query)
    random_generator = (call.generator or torch.default_generator) if random else None
    random_state = None if random_generator is None else random_generator.get_state()

    def attempt(memory: Memory, allowed: Tensor) -> Attended:
        if random_generator is not None and random_state is not None:  # a second look makes the same draws
            random_generator.set_state(random_state)
        return look(parts, query, memory, call if allowed is call.allowed else call.within(allowed))

    # A form is a product or a tanh of what it scores. Of other scores nothing is known.
    score, has_form = parts.score, type(parts.score).form is not Score.form
    telling = has_form and (parts.window is None or not score.reads_all)
    return spoiled.guarded(attempt, memory, call.allowed, telling=telling)


def _in_order(
    parts: Parts, query: Tensor, memory: Memory, call: Call, stateful: list[Part]
) -> tuple[Attended, tuple[Any, ...]]:
    """One query after the other, because each needs the weights of the one before."""
    axis, outs, states = query.ndim - 2, [], call.states
    for t in range(query.shape[-2]):
        allowed = (
            call.allowed if call.allowed is None or call.allowed.shape[-2] == 1 else call.allowed[..., t : t + 1, :]
        )
        extras = {name: tensor.narrow(axis, t, 1) for name, tensor in call.extras.items()}
        step = Call(allowed, False, states, call.dropout, True, call.generator, extras)
        outs.append(_look(parts, query.narrow(axis, t, 1), memory, step))
        states = tuple(part.advance(part_state, outs[-1]) for part, part_state in zip(stateful, states, strict=True))
    if len(outs) == 1 and call.want:  # a step of a decoder
        return outs[0], states

    def joined(name: str, dim: int) -> Tensor | None:
        steps = [getattr(out, name) for out in outs]
        return None if steps[0] is None else torch.cat(steps, dim)

    context = torch.cat([out.context for out in outs], dim=-2)
    out = Attended(context, log_prob=joined("log_prob", -1), place=joined("place", -1))
    if call.want:
        out._weights, out._scores = joined("weights", -2), joined("scores", -2)
    return out, states


def drop(weights: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Weights of which a share is dropped, and the others are scaled up."""
    if not share:
        return weights
    if generator is None:
        return nn.functional.dropout(weights, share)
    keep_mask = torch.empty_like(weights).bernoulli_(1.0 - share, generator=generator)
    return weights * keep_mask.div_(max(1.0 - share, torch.finfo(weights.dtype).tiny))


def _remember(score: Score, key: Tensor, value: Tensor | None, mask: Mask | Tensor | None, masked: bool) -> Memory:
    """``masked``: some of it is or may be masked."""
    key, value = pair(key, value)
    if score.key_dim is not None and key.shape[-1] != score.key_dim:
        raise ValueError(
            f"{type(score).__name__} is built for key_dim={score.key_dim}; key {shape(key)} is {key.shape[-1]} wide"
        )

    def project(key: Tensor, value: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        return spoiled.shielded(score.project, key) if masked else score.project(key), value

    return Memory(*project(key, value), masks.as_mask(mask), project)


def _pack(states: tuple[Any, ...]) -> Any:
    return None if not states else states[0] if len(states) == 1 else states


def _unpack(state: Any, stateful: list[Part]) -> tuple[Any, ...]:
    if not stateful:
        raise ValueError("state= was given, but no part of this attention has a state")
    states = (state,) if len(stateful) == 1 else tuple(state)
    if len(states) != len(stateful):
        names = ", ".join(type(part).__name__ for part in stateful)
        raise ValueError(f"{len(states)} states for {len(stateful)} stateful parts ({names})")
    return states


_PARTS_BY_NAME: dict[tuple[str, str], Any] = {}
"""The parts that functions were given by name, built once."""


def parts_of(score: str | Score, normalizer: str | Normalizer) -> Parts:
    """The parts that a function was given: instances, or the names of such that need no arguments."""
    named = ("scores", score), ("normalizers", normalizer)
    for kind, part in named:
        if isinstance(part, str):
            _build_once(kind, part)
    return Parts(*(_PARTS_BY_NAME[kind, part] if isinstance(part, str) else build(kind, part) for kind, part in named))


@torch.compiler.assume_constant_result  # or torch.compile would try to follow the import
def _build_once(kind: str, name: str) -> None:
    if (kind, name) not in _PARTS_BY_NAME:
        _PARTS_BY_NAME[kind, name] = build(kind, name)
