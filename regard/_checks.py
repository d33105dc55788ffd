"""Checks of a call; every error has the shapes or numbers in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard import _lazy, _warn
from regard.parts import PROVIDED, Part, Parts, Score

if TYPE_CHECKING:
    from regard.memory import Memory

KEYWORDS = ("mask", "state", "weights", "generator")


def check_tensors(**tensors: Tensor) -> None:
    """NumPy's arrays have shapes and devices too, and would fail in a place that does not name them."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
            raise ValueError(f"{name} is a {kind}, not a tensor: write torch.as_tensor({name})")


def check_query(score: Score, query: Tensor, memory: Memory) -> None:
    key, value = (memory.key, memory.value) if memory.pages is None else (memory.pages.key, memory.pages.value)
    query_shape, key_shape = query.shape, key.shape if memory.pages is None else memory.shape
    heads = (*key_shape[:-3], key_shape[-3] * memory.group) if memory.group > 1 else key_shape[:-2]
    fits = len(query_shape) == len(key_shape) >= 2 and query_shape[:-2] == heads and query.device == key.device
    width = score.query_dim if score.query_dim is not None else key_shape[-1] if score.same_width else query_shape[-1]
    if fits and query_shape[-1] == width and query.dtype == key.dtype == value.dtype:
        return
    key, value, name = memory.key, memory.value, type(score).__name__
    check_tensors(query=query)
    if query.ndim < 2:
        raise ValueError(f"query is (…, T, D), not {shape(query)}; a single query is T=1: query[None]")
    if query.ndim != key.ndim:
        raise ValueError(
            f"query {shape(query)} and key {shape(key)} differ in rank; one query for an item is T=1: query[:, None]"
        )
    if memory.group > 1 and query_shape[:-2] != heads:
        raise ValueError(
            f"{memory.group} heads of queries share each head of key {shape(key)}, which is not so in query "
            f"{shape(query)}"
        )
    if query_shape[:-2] != heads:
        raise ValueError(f"query {shape(query)} and key {shape(key)} differ in their leading dimensions")
    if query.device != key.device:
        raise ValueError(f"query is on {query.device} but key on {key.device}")
    if score.query_dim is not None and query_shape[-1] != score.query_dim:
        raise ValueError(
            f"{name} is built for query_dim={score.query_dim}; query {shape(query)} is {query_shape[-1]} wide"
        )
    if score.same_width and query_shape[-1] != key_shape[-1]:
        raise ValueError(
            f"{name} compares queries and keys of one width, but query is {shape(query)} and key {shape(key)}; "
            "General, Additive and MLPDot take two"
        )
    if len({query.dtype, key.dtype, value.dtype}) > 1 and not torch.is_autocast_enabled(query.device.type):
        listed = f"{query.dtype}, {key.dtype} and {value.dtype}"
        raise ValueError(f"query, key and value differ in dtype: {listed}")


def check_extras(parts: Parts, query: Tensor, extras: Mapping[str, Tensor]) -> None:
    receivers = [part for part in parts if part is not None and (extras or part.required)]
    if not receivers:
        return
    accepted = {name for part in receivers for name in part.needs} - set(PROVIDED)
    for name in extras:
        if name in ("key_padding_mask", "attn_mask", "src_key_padding_mask"):
            torch_name = name.removeprefix("src_")
            negation = f"mask=~{torch_name} if it is Boolean, or " if torch_name == "key_padding_mask" else ""
            raise ValueError(
                f"there is no {name}=: it is mask=, and True means that a key may be attended. Write {negation}"
                f"mask=regard.masks.from_torch({torch_name}={torch_name})"
            )
        if name not in accepted:
            raise ValueError(
                f"attention got an unknown keyword {name!r}: {_lazy.nearest(name, [*accepted, *KEYWORDS])}"
            )
    for part in receivers:
        missing = [name for name in part.required if name not in extras]
        if missing:
            raise ValueError(f"{type(part).__name__} needs {', '.join(f'{name}=' for name in missing)} at the call")
    for name, tensor in extras.items():
        if tensor.shape[: query.ndim - 1] != query.shape[:-1]:
            raise ValueError(f"{name}= has a row for each query, {shape(query)[:-1]}…: not {shape(tensor)}")


def notice_forgotten_state(stateful: list[Part], query: Tensor, memory: Memory) -> None:
    """Warn at the second single query to a memory without state=, which was probably forgotten."""
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


def group_of(query: Tensor, key: Tensor) -> int:
    """How many heads of queries share each head of keys."""
    fits = query.ndim == key.ndim >= 3 and key.shape[-3] > 0 and query.shape[-3] % key.shape[-3] == 0
    if not fits or query.shape[:-3] != key.shape[:-3]:
        raise ValueError(
            f"grouped queries (…, H, T, D) have a multiple of the heads of keys (…, G, S, D): query is {shape(query)} "
            f"and key {shape(key)}"
        )
    return max(query.shape[-3] // key.shape[-3], 1)


def shape(tensor: Tensor) -> str:
    """The shape of a tensor, for messages."""
    return str(tuple(tensor.shape))
