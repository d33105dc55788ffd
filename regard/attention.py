"""The recipe. Every attention mechanism is these steps; only what a query, a key, a value and the parts are differs.

    window → score → mask → normalize → refine → sum

:func:`attend` is the recipe as a function, :class:`Attention` the same with parts that have parameters. Both return an
:class:`Attended`. A :class:`~regard.memory.Memory` holds keys that are projected once and looked at many times.

Letters: B batch, H heads, T queries, S keys, D query/key width, E value width; (…) is what comes before, often (B,).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Never

import torch
from torch import Tensor, nn

from regard import _lazy, _warn, banded, kernels, masks, spoiled
from regard.banded import Band, Blocks
from regard.candidates import Everywhere, Nearby
from regard.kernels import groups
from regard.masks import Mask
from regard.memory import Memory, check_tensors, pair
from regard.parts import PROVIDED, Normalizer, Part, Refiner, Score, Window, build

Want = Literal["lazy"] | bool


def _on_demand(slot: str) -> Any:
    """A field that may hold a function instead of a tensor, and calls it when it is first read.

    It is a property because torch.compile of torch 2.6 follows no other descriptor."""

    def read(record: Attended) -> Tensor | None:
        held = getattr(record, slot)
        if callable(held):
            held = held()
            setattr(record, slot, held)
        return held

    return property(read, lambda record, held: setattr(record, slot, held))


@dataclass(init=False, eq=False, repr=False)
class Attended:
    """What looking gave: a record, not a tuple and not a tensor.

    Attributes:
        context: (…, T, E), the weighted sum of the values.
        weights: (…, T, S), before dropout. Computed when first read, unless the context needed them anyway; None after
            ``weights=False``. For a loss on weights, read them before ``backward()``.
        scores: (…, T, S), what was normalized, before masking; −inf where a window left a key out.
        state: what the next call takes as ``state=``; None for most parts.
        log_prob: (…, T), log-probability of what a sampling normalizer drew.
        edges: of :func:`regard.attend_edges`: the edges that the rows of weights and scores, (E, H), belong to.
        place: (…, T), the middle of each query's window: Luong's pₜ, as real-valued as the window makes it.
    """

    context: Tensor
    weights: Tensor | None = None
    scores: Tensor | None = None
    state: Any = None
    log_prob: Tensor | None = None
    edges: Any = None
    place: Tensor | None = None

    def __init__(
        self,
        context: Tensor,
        weights: Tensor | Callable[[], Tensor] | None = None,
        scores: Tensor | Callable[[], Tensor] | None = None,
        state: Any = None,
        log_prob: Tensor | None = None,
        edges: Any = None,
        place: Tensor | None = None,
    ):
        self.context, self.state, self.log_prob, self.edges, self.place = context, state, log_prob, edges, place
        self._weights, self._scores = weights, scores  # not by the properties, which torch.compile of 2.6 cannot set

    def __repr__(self) -> str:
        weights = self._weights
        shown = tuple(weights.shape) if isinstance(weights, Tensor) else "when read" if weights else None
        return f"Attended(context={tuple(self.context.shape)}, weights={shown})"

    def __iter__(self) -> Any:
        raise TypeError("an Attended is a record and cannot be unpacked: read out.context and out.weights")

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("an Attended is a record and has no items: read out.context[…] or out.weights[…]")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Tensor, name):
            raise AttributeError(f"an Attended is not a tensor: write out.context.{name} or out.weights.{name}")
        raise AttributeError(f"Attended has no {name!r}; it has {_LISTED}")

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise TypeError(f"torch's {func.__name__} was given an Attended; give it out.context or out.weights")


Attended.weights, Attended.scores = _on_demand("_weights"), _on_demand("_scores")


def _flatten(out: Attended) -> tuple[list[Any], tuple[str, ...]]:
    held = {name: out.__dict__.get("_" + name, out.__dict__.get(name)) for name in _FIELDS}
    known = {name: value for name, value in held.items() if value is not None and not callable(value)}
    return list(known.values()), tuple(known)


def _unflatten(children: Iterable[Any], names: Iterable[str]) -> Attended:
    return Attended(**dict(zip(names, children, strict=True)))


_FIELDS = ("context", "weights", "scores", "state", "log_prob", "edges", "place")
_LISTED = ", ".join(_FIELDS[:-1]) + f" and {_FIELDS[-1]}"
# Weights that nobody has read do not travel through vmap, export or a replica's return; `weights=True` makes them.
torch.utils._pytree.register_pytree_node(Attended, _flatten, _unflatten, serialized_type_name="regard.Attended")


class _Witness(threading.local):
    """Who in this thread sees every answer, and gives it in our place: a tape (:mod:`regard.tape`), or nobody."""

    see: Callable[[Recipe, Want, Callable[[Want, Recipe], Attended]], Attended] | None = None
    """Given the parts, whether the caller wants weights, and how to answer: asked for them or not, with which parts."""


witness = _Witness()


@dataclass(eq=False)
class Pending:
    """Scores and weights that the kernel did not have to write down, kept so that they can be: query and key as they
    were compared, so that no later step of an optimizer changes the answer."""

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


class Recipe(NamedTuple):
    """The parts of an attention."""

    score: Score
    normalizer: Normalizer
    window: Window | None = None
    refiner: Refiner | None = None

    def stateful(self) -> list[Part]:
        """The parts that carry a state, in the order of the flow."""
        return [part for part in (self.window, self.score, self.refiner) if part is not None and "state" in part.needs]


@dataclass(eq=False)
class Call:
    """What belongs to one call rather than to the mechanism."""

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


def look(recipe: Recipe, query: Tensor, memory: Memory, call: Call) -> Attended:
    """The whole of attention: window → score → mask → normalize → refine → sum."""
    score, normalizer, window, refiner = recipe
    given, key, value, group = _distribute(recipe, call), memory.key, memory.value, memory.group

    # A score of places must know which keys a window took, and no kernel does.
    known = window is None or not score.positional
    form = kernels.lower(score, groups.fold(query, group), key, given[score]) if known else None
    if form is not None and _straight(recipe, call) and call.want is not True:
        context = kernels.softmax_sum(form, normalizer, value, call.allowed, call.causal, group)
        if context is not None:
            if not call.want:
                return Attended(context)
            pending = Pending(kernels.keep(form), normalizer, call.allowed, value.dtype, group)
            return Attended(context, pending.weights, pending.scores)

    keys: Everywhere | Nearby = Everywhere(key, value, call.allowed, group)
    if window is not None and memory.length:
        keys = Nearby.within(window, query, key, value, call.allowed, **given[window])
    place = keys.place
    scores = keys.score(score, form, query, given[score])
    weights = normalizer(scores, keys.mask, **given[normalizer])
    log_prob = normalizer.log_prob(scores, keys.mask, weights) if normalizer.stochastic else None
    weights = keys.fade(kernels.narrowed(weights, value.dtype))
    if refiner is not None:
        scores, weights = keys.spread(scores, fill=float("-inf")), keys.spread(weights)
        keys = Everywhere(key, value, call.allowed, group)
        weights = refiner(weights, call.allowed, **given[refiner])
    context = keys.sum(_drop(weights, call.dropout, call.generator))

    if not call.want:
        return Attended(context, log_prob=log_prob, place=place)
    held: Callable[..., Any] = keys.later if call.want == "lazy" else keys.spread
    return Attended(context, held(weights), held(scores, fill=float("-inf")), log_prob=log_prob, place=place)


def _straight(recipe: Recipe, call: Call) -> bool:
    """Is it score → mask → normalize → sum, and no more?"""
    return recipe.window is None and recipe.refiner is None and not call.dropout


def _single(recipe: Recipe, query: Tensor, memory: Memory, call: Call) -> Attended | None:
    """:func:`look` in one pass over the keys and values of a single query, if there is a kernel for it."""
    score, normalizer = recipe.score, recipe.normalizer
    if query.shape[-2] != 1 or not _straight(recipe, call) or not kernels.bare(query):
        return None
    given = _distribute(recipe, call)[score]
    group, found = memory.group, None
    if memory.pages is not None:
        found = memory.pages.look(score, given, normalizer, query, call.allowed, group)
    if found is None:
        form = kernels.lower(score, groups.fold(query, group), memory.key, given)
        found = kernels.single_query(form, normalizer, memory.value, call.allowed, group=group)
    if found is None:
        return None
    context, scores = found
    if not call.want:
        return Attended(context)
    weights = partial(normalizer, scores, call.allowed)
    return Attended(context, weights() if call.want is True else weights, scores)


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
    """Score, normalize, sum: the recipe as a function, for scores without parameters.

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
    recipe = recipe_of(score, normalizer)
    _check_extras(recipe, query, unknown)
    if any(parameter.requires_grad for parameter in recipe.score.parameters()) and isinstance(score, str):
        raise ValueError(f"score {score!r} has parameters: build it once and use regard.Attention")
    if recipe.stateful():
        raise ValueError(f"{type(recipe.score).__name__} carries a state from query to query: use regard.Attention")
    memory = _remember(recipe.score, key, value, mask, mask is not None)
    if grouped:
        memory.group = _group(query, key)
    return answer(recipe, query, memory, None, dropout=dropout, want=weights, generator=generator)


class Attention(nn.Module):
    """The recipe with its parts.

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
    def recipe(self) -> Recipe:
        return Recipe(self.score, self.normalizer, self.window, self.refiner)

    def remember(self, key: Tensor, value: Tensor | None = None, *, mask: Mask | Tensor | None = None) -> Memory:
        """Keys (…, S, D) and values (…, S, E), by default the keys, projected once for many calls."""
        return _remember(self.score, key, value, mask, True)

    def start(self, memory: Memory) -> Any:
        """The state before the first query: None for most parts, that of the stateful part, or a tuple of several."""
        return _pack(tuple(part.start(memory) for part in self.recipe.stateful()))

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
        return answer(self.recipe, query, memory, state, dropout, weights, generator, extras)


def answer(
    recipe: Recipe,
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
            recipe, want, lambda asked, parts: answer(parts, query, memory, state, dropout, asked, generator, extras)
        )
    extras = {} if extras is None else extras
    if want not in ("lazy", True, False):
        raise ValueError(f"weights= is 'lazy', True or False, not {want!r}")
    _check_query(recipe.score, query, memory)
    _check_extras(recipe, query, extras)
    asked = memory
    if memory.group > 1 and (recipe.window is not None or recipe.stateful()):
        memory = memory.repeated()  # each head of queries has candidates, or a past, of its own
    stateful = recipe.stateful()
    if memory.mask is not None and not stateful and state is None:
        out = _skipping(recipe, query, memory, Call(None, False, (), dropout, want, generator, extras))
        if out is not None:
            return out
    allowed, causal = None, False
    if memory.mask is not None:
        allowed, causal = memory.permits(query), isinstance(memory.mask, masks.Causal)
        causal = causal and memory.length == query.shape[-2]
    if not stateful and state is None:
        return _look(recipe, query, memory, Call(allowed, causal, (), dropout, want, generator, extras))
    if state is None:
        _notice_forgotten_state(stateful, query, asked)
    states = tuple(part.start(memory) for part in stateful) if state is None else _unpack(state, stateful)
    call = Call(allowed, causal, states, dropout, want, generator, extras)
    if all(part.parallel for part in stateful) or query.shape[-2] == 0:
        out = _look(recipe, query, memory, call)
        if query.shape[-2]:
            states = tuple(part.advance(held, out) for part, held in zip(stateful, states, strict=True))
    else:
        out, states = _in_order(recipe, query, memory, call, stateful)
    out.state = _pack(states)
    return out


def _look(recipe: Recipe, query: Tensor, memory: Memory, call: Call) -> Attended:
    """:func:`look`, such that what is masked does not matter."""
    at_once = _single(recipe, query, memory, call)  # which reads only what is allowed
    if at_once is not None:
        return at_once
    if call.allowed is None:
        return look(recipe, query, memory, call)

    random = (call.dropout or recipe.normalizer.stochastic) and spoiled.visible(query)
    dice = (call.generator or torch.default_generator) if random else None
    before = None if dice is None else dice.get_state()

    def once(memory: Memory, allowed: Tensor) -> Attended:
        if dice is not None and before is not None:  # a second look makes the same draws
            dice.set_state(before)
        return look(recipe, query, memory, call if allowed is call.allowed else call.within(allowed))

    # A form is a product or a tanh of what it scores. Of other scores nothing is known.
    score, known = recipe.score, type(recipe.score).form is not Score.form
    telling = known and (recipe.window is None or not score.reads_all)
    return spoiled.guarded(once, memory, call.allowed, telling=telling)


def _skipping(recipe: Recipe, query: Tensor, memory: Memory, call: Call) -> Attended | None:
    """:func:`_look` at those keys alone that the mask leaves, if it is made to leave few, and it is known where."""
    mask = memory.mask
    if mask is None or kernels.chosen("plain") or not any(part.sparse for part in mask.conjuncts()):
        return None
    if recipe.window or recipe.refiner or recipe.score.positional or recipe.normalizer.stochastic:
        return None
    return _along(recipe, query, memory, call, mask) or _around(recipe, query, memory, call, mask)


def _along(recipe: Recipe, query: Tensor, memory: Memory, call: Call, mask: Mask) -> Attended | None:
    """By the kernel for stretches of keys."""
    if not _straight(recipe, call) or call.want is True:
        return None
    spans = kernels.spans_of(mask, (*query.shape[:-1], memory.length), query)
    if spans is None:
        return None
    given, group = _distribute(recipe, call)[recipe.score], memory.group
    form = kernels.lower(recipe.score, groups.fold(query, group), memory.key, given)
    context = kernels.span_sum(form, recipe.normalizer, memory.value, spans, group)
    if context is None or form is None:
        return None
    allowed = partial(mask.tensor, (*query.shape[:-1], memory.length), query.device)
    pending = Pending(kernels.keep(form), recipe.normalizer, allowed, memory.value.dtype, group)
    out = Attended(context, pending.weights, pending.scores) if call.want else Attended(context)
    return out if spoiled.harmless(out, memory) else None


def _around(recipe: Recipe, query: Tensor, memory: Memory, call: Call, mask: Mask) -> Attended | None:
    """At the keys around each query's place: those of many queries in blocks, those of few in one."""
    band, keys, queries = Band.of(mask), memory.length, query.shape[-2]
    if band is None:
        return None
    shape, axis = (*query.shape[:-1], keys), query.ndim - 2
    spread: Callable[..., Tensor]
    if queries <= banded.SIZE:
        cut = keys - queries - band.before
        if cut <= 0:
            return None
        call = call.within(mask.tensor(shape, query.device)[..., cut:])
        out, spread = _look(recipe, query, memory.last(keys - cut), call), partial(banded.in_front, cut)
    else:
        blocks = Blocks(queries, keys, band)
        if not kernels.blocks_pay(blocks.width, keys):
            return None
        extras = {name: blocks.cut(tensor, axis) for name, tensor in call.extras.items()}
        call = call.within(blocks.allowed(shape, query.device), extras)
        seen = Memory(blocks.seen(memory.key), blocks.seen(memory.value), group=memory.group)
        out, spread = _look(recipe, blocks.cut(query, axis), seen, call), blocks.spread
        out.context = blocks.join(out.context, axis)
    out.weights = spoiled.later(spread, out._weights)
    out.scores = spoiled.later(partial(spread, fill=float("-inf")), out._scores)
    return out


def _in_order(
    recipe: Recipe, query: Tensor, memory: Memory, call: Call, stateful: list[Part]
) -> tuple[Attended, tuple[Any, ...]]:
    """One query after the other, because each needs the weights of the one before."""
    axis, outs, states = query.ndim - 2, [], call.states
    for t in range(query.shape[-2]):
        allowed = (
            call.allowed if call.allowed is None or call.allowed.shape[-2] == 1 else call.allowed[..., t : t + 1, :]
        )
        extras = {name: tensor.narrow(axis, t, 1) for name, tensor in call.extras.items()}
        step = Call(allowed, False, states, call.dropout, True, call.generator, extras)
        outs.append(_look(recipe, query.narrow(axis, t, 1), memory, step))
        states = tuple(part.advance(held, outs[-1]) for part, held in zip(stateful, states, strict=True))

    def joined(name: str, dim: int) -> Tensor | None:
        found = [getattr(out, name) for out in outs]
        return None if found[0] is None else torch.cat(found, dim)

    context = torch.cat([out.context for out in outs], dim=-2)
    out = Attended(context, log_prob=joined("log_prob", -1), place=joined("place", -1))
    if call.want:
        out._weights, out._scores = joined("weights", -2), joined("scores", -2)
    return out, states


def _distribute(recipe: Recipe, call: Call) -> dict[Part, dict[str, Any]]:
    """What each part named in ``needs``."""
    if not any(part is not None and part.needs for part in recipe):
        return {part: {} for part in recipe if part is not None}
    states = dict(zip(recipe.stateful(), call.states, strict=True))
    given: dict[Part, dict[str, Any]] = {}
    for part in recipe:
        if part is None:
            continue
        given[part] = {name: call.extras[name] for name in part.needs if name in call.extras}
        if part in states:
            given[part]["state"] = states[part]
        if "generator" in part.needs:
            given[part]["generator"] = call.generator
    return given


def _drop(weights: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    if not share:
        return weights
    if generator is None:
        return nn.functional.dropout(weights, share)
    kept = torch.empty_like(weights).bernoulli_(1.0 - share, generator=generator)
    return weights * kept.div_(max(1.0 - share, torch.finfo(weights.dtype).tiny))


def _remember(score: Score, key: Tensor, value: Tensor | None, mask: Mask | Tensor | None, masked: bool) -> Memory:
    """``masked``: some of it is or may be masked."""
    key, value = pair(key, value)
    if score.key_dim is not None and key.shape[-1] != score.key_dim:
        raise ValueError(
            f"{type(score).__name__} is built for key_dim={score.key_dim}; key {_shape(key)} is {key.shape[-1]} wide"
        )

    def project(key: Tensor, value: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        return spoiled.shielded(score.project, key) if masked else score.project(key), value

    return Memory(*project(key, value), masks.as_mask(mask), project)


def _group(query: Tensor, key: Tensor) -> int:
    """How many heads of queries share each head of keys."""
    fits = query.ndim == key.ndim >= 3 and key.shape[-3] > 0 and query.shape[-3] % key.shape[-3] == 0
    if not fits or query.shape[:-3] != key.shape[:-3]:
        raise ValueError(
            f"grouped queries (…, H, T, D) have a multiple of the heads of keys (…, G, S, D): query is {_shape(query)} "
            f"and key {_shape(key)}"
        )
    return max(query.shape[-3] // key.shape[-3], 1)


def _notice_forgotten_state(stateful: list[Part], query: Tensor, memory: Memory) -> None:
    """The second single query to one memory that starts from the beginning again was hardly meant to."""
    if query.shape[-2] != 1 or torch.compiler.is_compiling():
        return
    if memory.begun:
        names = " and ".join(type(part).__name__ for part in stateful)
        _warn.once(
            f"state of {names}",
            f"{names} carries a state from query to query, and each call without state= begins anew: write "
            "state = attention.start(memory) before the loop and out = attention(query, memory, state=state), "
            "state = out.state in it; pass state=attention.start(memory) where to begin anew is meant",
        )
    memory.begun = True


def _check_query(score: Score, query: Tensor, memory: Memory) -> None:
    key, value = (memory.key, memory.value) if memory.pages is None else (memory.pages.key, memory.pages.value)
    asked, known = query.shape, key.shape if memory.pages is None else memory.shape
    heads = (*known[:-3], known[-3] * memory.group) if memory.group > 1 else known[:-2]
    fits = len(asked) == len(known) >= 2 and asked[:-2] == heads and query.device == key.device
    width = score.query_dim if score.query_dim is not None else known[-1] if score.same_width else asked[-1]
    if fits and asked[-1] == width and query.dtype == key.dtype == value.dtype:
        return
    key, value, name = memory.key, memory.value, type(score).__name__
    check_tensors(query=query)
    if query.ndim < 2:
        raise ValueError(f"query is (…, T, D), not {_shape(query)}; a single query is T=1: query[None]")
    if query.ndim != key.ndim:
        raise ValueError(
            f"query {_shape(query)} and key {_shape(key)} differ in rank; one query for an item is T=1: query[:, None]"
        )
    if memory.group > 1 and asked[:-2] != heads:
        raise ValueError(
            f"{memory.group} heads of queries share each head of key {_shape(key)}, which is not so in query "
            f"{_shape(query)}"
        )
    if asked[:-2] != heads:
        raise ValueError(f"query {_shape(query)} and key {_shape(key)} differ in their leading dimensions")
    if query.device != key.device:
        raise ValueError(f"query is on {query.device} but key on {key.device}")
    if score.query_dim is not None and asked[-1] != score.query_dim:
        raise ValueError(f"{name} is built for query_dim={score.query_dim}; query {_shape(query)} is {asked[-1]} wide")
    if score.same_width and asked[-1] != known[-1]:
        raise ValueError(
            f"{name} compares queries and keys of one width, but query is {_shape(query)} and key {_shape(key)}; "
            "General, Additive and MLPDot take two"
        )
    if len({query.dtype, key.dtype, value.dtype}) > 1 and not torch.is_autocast_enabled(query.device.type):
        listed = f"{query.dtype}, {key.dtype} and {value.dtype}"
        raise ValueError(f"query, key and value differ in dtype: {listed}")


def _check_extras(recipe: Recipe, query: Tensor, extras: Mapping[str, Tensor]) -> None:
    parts = [part for part in recipe if part is not None and (extras or part.required)]
    if not parts:
        return
    known = {name for part in parts for name in part.needs} - set(PROVIDED)
    for name in extras:
        if name in ("key_padding_mask", "attn_mask", "src_key_padding_mask"):
            theirs = name.removeprefix("src_")
            short = f"mask=~{theirs} if it is Boolean, or " if theirs == "key_padding_mask" else ""
            raise ValueError(
                f"there is no {name}=: it is mask=, and True means that a key may be attended. Write {short}"
                f"mask=regard.masks.from_torch({theirs}={theirs})"
            )
        if name not in known:
            raise ValueError(f"attention got an unknown keyword {name!r}: {_lazy.nearest(name, [*known, *_KEYWORDS])}")
    for part in parts:
        missing = [name for name in part.required if name not in extras]
        if missing:
            raise ValueError(f"{type(part).__name__} needs {', '.join(f'{name}=' for name in missing)} at the call")
    for name, tensor in extras.items():
        if tensor.shape[: query.ndim - 1] != query.shape[:-1]:
            raise ValueError(f"{name}= has a row for each query, {_shape(query)[:-1]}…: not {_shape(tensor)}")


_KEYWORDS = ("mask", "state", "weights", "generator")


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


_NAMED: dict[tuple[str, str], Any] = {}
"""The parts that functions were given by name, built once."""


def recipe_of(score: str | Score, normalizer: str | Normalizer) -> Recipe:
    """The recipe of a function, whose parts are instances or the names of such that need no arguments."""
    wanted = ("scores", score), ("normalizers", normalizer)
    for kind, part in wanted:
        if isinstance(part, str):
            _make_ready(kind, part)
    return Recipe(*(_NAMED[kind, part] if isinstance(part, str) else build(kind, part) for kind, part in wanted))


@torch.compiler.assume_constant_result  # or torch.compile would try to follow the import
def _make_ready(kind: str, name: str) -> None:
    if (kind, name) not in _NAMED:
        _NAMED[kind, name] = build(kind, name)


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
