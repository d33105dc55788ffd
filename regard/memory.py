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
        shelf: where they are, if they have grown.
    """

    def __init__(
        self,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | None = None,
        project: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] | None = None,
        group: int = 1,
        pages: Pages | None = None,
        shelf: Shelf | None = None,
    ):
        """``key`` and ``value`` may be None where ``pages`` or a full ``shelf`` have them."""
        self._key = key
        self._value = value
        self.mask = mask
        self.project = project
        self.group = group
        self.pages = pages
        self.shelf = shelf
        if key is not None:
            self._length = key.shape[-2]
        elif pages is not None:
            self._length = pages.place.shape[1]
        else:
            assert shelf is not None
            self._length = shelf.used
        self._permits: Tensor | None = None
        self._deferred: dict[str, Deferred] = {}
        self.begun = False
        """Has a call with a single query and without a state been made?"""

    @property
    def key(self) -> Tensor:
        if self._key is None and self.pages is not None:
            self._key = self.pages.gather(self.pages.key)
        return self._filled()[0] if self._key is None else self._key

    @property
    def value(self) -> Tensor:
        if self._value is None and self.pages is not None:
            shared = self.pages.value is self.pages.key
            self._value = self.key if shared else self.pages.gather(self.pages.value)
        return self._filled()[1] if self._value is None else self._value

    def _filled(self) -> tuple[Tensor, Tensor]:
        assert self.shelf is not None
        self._key, self._value = self.shelf.filled(self._length)
        return self._key, self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, S, D') of the keys."""
        if self._key is not None:
            return tuple(self._key.shape)
        if self.pages is None:
            assert self.shelf is not None
            _, *leading, width = self.shelf.rows[0].shape
            return (*leading, self._length, width)
        _, *between, width = self.pages.key.shape
        return (self.pages.place.shape[0], *between, self._length, width)

    @property
    def dtype(self) -> torch.dtype:
        """That of the keys."""
        rows = self._key if self._key is not None else self.pages.key if self.pages is not None else None
        if rows is None:
            assert self.shelf is not None
            rows = self.shelf.rows[0]
        return rows.dtype

    @property
    def length(self) -> int:
        """S, the number of keys."""
        return self._length

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
        combined = masks.both(self.mask, masks.as_mask(mask))
        new = Memory(self._key, self._value, combined, self.project, self.group, self.pages, self.shelf)
        new._length, new._deferred = self._length, self._deferred  # a shelf may have grown since
        return new

    def permits(self, query: Tensor) -> Tensor | None:
        """Boolean, broadcastable to (…, T, S): what these queries may attend. Where it is the same for every query, it
        is made once."""
        if self.mask is None:
            return None
        allowed = self._permits
        if allowed is None or (allowed.is_inference() and not torch.is_inference_mode_enabled()):
            allowed = self.mask.tensor((*query.shape[:-1], self.length), query.device)
            if not self.mask.by_query(query.ndim) and not torch.compiler.is_compiling():
                self._permits = allowed
        return allowed

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
        if new._key is None and new.pages is None:
            new._filled()
        new.mask, new.shelf, new._permits, new._deferred, new._length = None, None, None, {}, count
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
        shelf = self.shelf if self.shelf is not None and self.shelf.used == self.length else None
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
        count = key.shape[-2]
        has_gradients = torch.is_grad_enabled() and any(t.requires_grad for t in (self.key, self.value, key, value))
        if has_gradients or torch.compiler.is_compiling():
            rows = (torch.cat([self.key, key], dim=-2), torch.cat([self.value, value], dim=-2))
            return Memory(*rows, self._grown(count), self.project, self.group)
        new = self.room(count)
        assert new.shelf is not None
        new.shelf.put(self._length, key, value)
        return new

    def room(self, count: int = 1) -> Memory:
        """This memory and ``count`` more keys behind it, of which the caller writes the rows into its shelf before
        anyone reads them: a key as the score knows it, projected. Without gradients."""
        mask, shelf, pages = self._grown(count), self.shelf, self.pages
        if shelf is None or not shelf.has_room(self._length, count, self.shape[0]):
            shelf, pages = Shelf(self.key, self.value, count), None
        shelf.used += count
        if pages is not None:
            new_places = shelf.places(self._length, pages.place.shape[0])
            pages = Pages(pages.key, pages.value, torch.cat([pages.place, new_places], dim=1))
        return Memory(None, None, mask, self.project, self.group, pages, shelf)

    def _grown(self, count: int) -> Mask | None:
        return None if self.mask is None else self.mask.grow((*self.shape[:-2], 1, self.length), count)


class Shelf:
    """Room for keys and values that doubles when it is full. Only the memory that ends where the shelf does may write.

    Attributes:
        rows: keys and values, (room, N, …, D) and (room, N, …, E): those of one place stand together. A memory of
            fewer items has the first of them.
        used: places that are taken.
    """

    def __init__(self, key: Tensor, value: Tensor, more: int):
        self.used, room = key.shape[-2], 2 * (key.shape[-2] + more)
        self.rows = [t.new_empty(room, *t.shape[:-2], t.shape[-1]) for t in (key, value)]
        self.put(0, key, value)

    def has_room(self, length: int, count: int, items: int) -> bool:
        """For ``count`` more rows of a memory that has ``length`` already, of N ``items``?"""
        room, width, *_ = self.rows[0].shape
        return self.used == length and length + count <= room and (items <= width or self.rows[0].ndim == 2)

    def put(self, first: int, key: Tensor, value: Tensor) -> None:
        """Write keys and values from a place on."""
        for rows, new in zip(self.rows, (key, value), strict=True):
            target = rows[first : first + new.shape[-2]]
            (target[:, : new.shape[0]] if new.ndim > 2 else target).copy_(new.movedim(-2, 0))

    def filled(self, length: int) -> tuple[Tensor, Tensor]:
        """The first keys and values, (N, …, S, D)."""
        key, value = (rows[:length].movedim(0, -2) for rows in self.rows)
        return key, value

    def pages(self) -> Pages:
        """All of it."""
        key, value = (rows.flatten(0, 1) for rows in self.rows)
        return Pages(key, value, self.places(0, self.rows[0].shape[1]))

    def places(self, first: int, items: int) -> Tensor:
        """Where each item finds its rows from the ``first`` on, as in :class:`Pages`."""
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
