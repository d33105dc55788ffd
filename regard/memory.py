"""Keys and values that are projected once and looked at many times, :class:`Memory`.

Letters: N batch items, S keys, D key width, E value width; (…) is what comes before, often (N,).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import torch
from torch import Tensor

from regard import kernels, masks
from regard._checks import check_tensors
from regard.kernels import groups
from regard.kernels.deferred import Deferred
from regard.kernels.paged import Pages
from regard.masks import Mask


class Memory:
    """Keys and values to look at many times; made by :meth:`Attention.remember`. A memory never changes.

    Attributes:
        key: (…, S, D'), projected.
        value: (…, S, E).
        mask: which keys may be attended, and-ed with the mask of each call.
        group: how many heads of queries share each head of keys; key and value then have as many fewer, (N, G, S, D').
        pages: where they are, if this is a selection. Keys and values are then put in order only when they are read.
    """

    def __init__(
        self,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | None = None,
        project: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] | None = None,
        group: int = 1,
        pages: Pages | None = None,
        shelf: _Shelf | None = None,
    ):
        """``key`` and ``value`` may be None where ``pages`` or a full ``shelf`` have them."""
        if key is None and pages is None and shelf is not None:
            key, value = shelf.filled()
        self._key = key
        self._value = value
        self.mask = mask
        self.project = project
        self.group = group
        self.pages = pages
        self._shelf = shelf
        self._permits: Tensor | None = None
        self._deferred: dict[str, Deferred] = {}
        self.begun = False
        """Has a single query been asked from the beginning, without a state?"""

    @property
    def key(self) -> Tensor:
        if self._key is None:
            assert self.pages is not None
            self._key = self.pages.gather(self.pages.key)
        return self._key

    @property
    def value(self) -> Tensor:
        if self._value is None:
            assert self.pages is not None
            shared = self.pages.value is self.pages.key
            self._value = self.key if shared else self.pages.gather(self.pages.value)
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, S, D') of the keys."""
        if self._key is not None:
            return tuple(self._key.shape)
        assert self.pages is not None
        (count, length), (_, *between, width) = self.pages.place.shape, self.pages.key.shape
        return (count, *between, length, width)

    @property
    def length(self) -> int:
        """S, the number of keys."""
        return self.shape[-2]

    def __repr__(self) -> str:
        return f"Memory({self.shape[-2]} keys, {self.shape}, mask={self.mask})"

    def allowed(self) -> Tensor:
        """(…, S): the keys that some query may attend."""
        leading, length = self.key.shape[:-2], self.key.shape[-2]
        if self.mask is None:
            return torch.ones(*leading, length, dtype=torch.bool, device=self.key.device)
        heads = (*leading[:-1], leading[-1] * self.group) if leading else ()
        tensor = self.mask.tensor((*heads, self.mask.queries(len(leading) + 2), length), self.key.device)
        return groups.some(tensor, self.group).any(dim=-2).expand(*leading, length)

    def within(self, mask: Mask | Tensor) -> Memory:
        """The same memory, of which only what ``mask`` allows too may be attended."""
        joined = masks.both(self.mask, masks.as_mask(mask))
        return Memory(self._key, self._value, joined, self.project, self.group, self.pages, self._shelf)

    def permits(self, query: Tensor) -> Tensor | None:
        """Boolean, broadcastable to (…, T, S): what these queries may attend. Where it is the same for every query, it
        is made once."""
        if self.mask is None:
            return None
        known = self._permits
        if known is None or (known.is_inference() and not torch.is_inference_mode_enabled()):
            known = self.mask.tensor((*query.shape[:-1], self.length), query.device)
            if not self.mask.by_query(query.ndim) and not torch.compiler.is_compiling():
                self._permits = known
        return known

    def deferred(self) -> tuple[Deferred | None, Deferred | None]:
        """Keys and values whose gradients, one for each query that looks alone, are made together; None where there
        are none to make."""
        values = self._deferred_rows("value", self.value)
        return values if self.key is self.value else self._deferred_rows("key", self.key), values

    def _deferred_rows(self, name: str, rows: Tensor) -> Deferred | None:
        if not kernels.defers(rows):
            return None
        if name not in self._deferred:
            self._deferred[name] = Deferred(rows)
        return self._deferred[name]

    def last(self, count: int) -> Memory:
        """The last ``count`` keys, without their mask."""
        new, cut = copy(self), self.length - count
        new.mask, new._shelf, new._permits, new._deferred = None, None, None, {}
        if new.pages is not None:
            new.pages = Pages(new.pages.key, new.pages.value, new.pages.place[:, cut:])
        if new._key is not None:
            shared = new._value is new._key
            new._key = new._key[..., cut:, :]
            new._value = new._key if shared else new._value
        if new._value is not None and new._value is not new._key:
            new._value = new._value[..., cut:, :]
        return new

    def repeated(self) -> Memory:
        """The same memory with a copy of the keys for each head of queries."""
        if self.group == 1:
            return self
        key = groups.repeat(self.key, self.group)
        value = key if self.value is self.key else groups.repeat(self.value, self.group)
        return Memory(key, value, self.mask, self.project)

    def select(self, index: Tensor) -> Memory:
        """The batch items ``index``, in that order: how a beam is reordered. Without gradients nothing is copied before
        it is read, and not even then where a kernel can read it as it lies."""
        mask = None if self.mask is None else self.mask.select(index)
        if torch.is_grad_enabled() and (self.key.requires_grad or self.value.requires_grad):
            shared = self.value is self.key
            key = self.key.index_select(0, index)
            value = key if shared else self.value.index_select(0, index)
            return Memory(key, value, mask, self.project, self.group)
        shelf = self._shelf if self._shelf is not None and self._shelf.used == self.length else None
        pages = self.pages
        if pages is None:
            pages = Pages.of(self.key, self.value) if shelf is None else shelf.pages()
        return Memory(None, None, mask, self.project, self.group, pages.select(index), shelf)

    def append(self, key: Tensor, value: Tensor | None = None) -> Memory:
        """This memory and more keys (and values; keys by default) behind it, which every query may attend.

        Without gradients the rows go into spare room behind the old ones, so that a cache that grows by a token at
        a time is not copied for each.
        """
        key, value = pair(key, value)
        if self.project is not None:
            key, value = self.project(key, value, self.length)
        count, shape = key.shape[-2], (*self.shape[:-2], 1, self.length)
        mask = None if self.mask is None else self.mask.grow(shape, count)
        learning = torch.is_grad_enabled() and any(t.requires_grad for t in (self.key, self.value, key, value))
        if learning or torch.compiler.is_compiling():
            joined = (torch.cat([self.key, key], dim=-2), torch.cat([self.value, value], dim=-2))
            return Memory(*joined, mask, self.project, self.group)
        shelf, pages = self._shelf, self.pages
        if shelf is None or not shelf.has_room(self.length, key):
            shelf, pages = _Shelf(self.key, self.value, count), None
        place = shelf.put(key, value)
        if pages is not None:
            pages = Pages(pages.key, pages.value, torch.cat([pages.place, place], dim=1))
        return Memory(None, None, mask, self.project, self.group, pages, shelf)


class _Shelf:
    """Room for keys and values that doubles when it is full. Only the memory that ends where the shelf does may write.

    The rows of one place stand together, (room, N, …, D).
    """

    def __init__(self, key: Tensor, value: Tensor, more: int):
        self.used, room = 0, 2 * (key.shape[-2] + more)
        self.rows = [t.new_empty(room, *t.shape[:-2], t.shape[-1]) for t in (key, value)]
        self.put(key, value)

    def has_room(self, length: int, new: Tensor) -> bool:
        room, *between = self.rows[0].shape[:-1]
        fits = length + new.shape[-2] <= room and [*new.shape[:-2]][1:] == between[1:]
        return self.used == length and fits and (not between or new.shape[0] <= between[0])

    def put(self, key: Tensor, value: Tensor) -> Tensor:
        """Add them; where each item finds them, as in :class:`Pages`."""
        first, self.used = self.used, self.used + key.shape[-2]
        for rows, new in zip(self.rows, (key, value), strict=True):
            target = rows[first : self.used]
            (target[:, : new.shape[0]] if new.ndim > 2 else target).copy_(new.movedim(-2, 0))
        return self._places(first, key.shape[0])

    def filled(self) -> tuple[Tensor, Tensor]:
        """Keys and values, (N, …, S, D)."""
        key, value = (rows[: self.used].movedim(0, -2) for rows in self.rows)
        return key, value

    def pages(self) -> Pages:
        key, value = (rows.flatten(0, 1) for rows in self.rows)
        return Pages(key, value, self._places(0, self.rows[0].shape[1]))

    def _places(self, first: int, items: int) -> Tensor:
        device = self.rows[0].device
        places = torch.arange(first, self.used, device=device) * self.rows[0].shape[1]
        return places + torch.arange(items, device=device)[:, None]


def pair(key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor]:
    """Keys, and their values or the keys again, if they fit."""
    value = key if value is None else value
    check_tensors(key=key, value=value)
    if key.ndim < 2 or value.ndim < 2:
        raise ValueError(f"key and value are (…, S, width), not {tuple(key.shape)} and {tuple(value.shape)}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"each key has one value, but key is {tuple(key.shape)} and value {tuple(value.shape)}")
    if key.device != value.device:
        raise ValueError(f"key is on {key.device} but value on {value.device}")
    return key, value
