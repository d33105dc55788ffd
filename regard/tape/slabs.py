"""Copies of tensors in memory outside the heap, for what a tape holds while the model runs.

Among the blocks of the heap they would keep the model's own tensors from lying where the last ones of that size did, so
that the C library returns memory to the system and maps it again, page by page, at every layer. Slabs are mapped once:
one whose copies are all gone is used again, since pages that the system must clear cost more than the copying.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_LARGE, _SLAB, _LINE = 2**18, 2**23, 64  # bytes
_SPARE = 4
"""Slabs that are kept for the next recording."""


def copied(tensor: Tensor) -> Tensor:
    """A copy without a graph, which nothing that the model does later changes, and which is no inference tensor."""
    with _plain(tensor):
        return tensor.detach().clone()


def kept(tensor: Tensor) -> Tensor:
    """:func:`copied`; large tensors on the CPU lie outside the heap."""
    if tensor.device.type != "cpu" or tensor.nbytes < _LARGE or tensor.layout != torch.strided:
        return copied(tensor)
    with _plain(tensor):
        return _room.take(tensor.detach())


@contextmanager
def _plain(tensor: Tensor) -> Iterator[None]:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise RuntimeError("inside vmap or torch.func.grad")
    with torch.inference_mode(False), torch.no_grad():
        yield


class _Slab:
    """Mapped memory, filled from the front; ``live`` are the pieces of it that some tensor still uses."""

    def __init__(self, size: int):
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        mapped = mmap.mmap(-1, size, **private)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapped.madvise(mmap.MADV_HUGEPAGE)
        self.memory, self.used = memoryview(mapped), 0
        self.live: dict[int, weakref.ref[memoryview]] = {}
        self.closed = False

    def room(self) -> int:
        return len(self.memory) - self.used

    def piece(self, size: int) -> memoryview:
        """The next bytes; tensors made of it keep it alive, and its end is noticed."""
        piece, number = self.memory[self.used : self.used + size], self.used
        self.live[number] = weakref.ref(piece, lambda _: self._gone(number))
        self.used += -(-size // _LINE) * _LINE
        return piece

    def close(self) -> None:
        """Nothing more is put into it."""
        self.closed = True
        self._spare()

    def _gone(self, number: int) -> None:
        del self.live[number]
        self._spare()

    def _spare(self) -> None:
        if self.closed and not self.live and len(self.memory) == _SLAB and len(_spare) < _SPARE:
            self.closed, self.used = False, 0
            _spare.append(self)


_spare: list[_Slab] = []


class _Room(threading.local):
    """The slab that this thread fills."""

    def __init__(self) -> None:
        self.slab: _Slab | None = None

    def take(self, tensor: Tensor) -> Tensor:
        """A copy with the same order of dimensions in memory, so that it is one run of bytes where the tensor is."""
        order = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
        source = tensor.permute(order)
        if self.slab is None or self.slab.room() < tensor.nbytes:
            self.leave()
            self.slab = _take_spare() if tensor.nbytes <= _SLAB else None
            self.slab = self.slab or _Slab(max(_SLAB, tensor.nbytes))
        piece = torch.frombuffer(self.slab.piece(tensor.nbytes), dtype=tensor.dtype)
        copy = piece.view(source.shape).copy_(source)
        return copy.permute([order.index(dim) for dim in range(tensor.ndim)])

    def leave(self) -> None:
        """Begin another slab next time, so that this one can go when its copies do."""
        if self.slab is not None:
            self.slab.close()
            self.slab = None


def _take_spare() -> _Slab | None:
    try:
        return _spare.pop()
    except IndexError:  # also where another thread was faster
        return None


_room = _Room()
leave = _room.leave
