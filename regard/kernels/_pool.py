"""Compiled loops and the threads that run them.

The loops are serial numba functions that release the GIL; the work is split over `torch.get_num_threads()` threads.
Where PyTorch runs on GNU's OpenMP, as its Linux wheels do, they are its own: those spin for a while after each of its
operators, and threads of ours would share the cores with them. Elsewhere a thread pool of ours does it. In the child of
a fork OpenMP's threads are gone, and the calling thread does all. numba's own parallel layers are not used: they abort
under concurrent calls and change torch's thread count. Nor do the operators clear or sum large tensors with torch:
where the cores are busy, its threads wait tens of milliseconds for each other.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from glob import escape, glob
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

# What LLVM may assume. Without "reassoc" it cannot vectorize a sum; with "nnan" or "ninf", NaN would be lost.
# numba's copies on disk do not notice a change here: touch _loops.py after one.
FAST = frozenset({"nsz", "arcp", "contract", "afn", "reassoc"})
NOTICE = "regard: compiling its CPU kernels for this machine, once…"
UNKEPT = (
    "regard: compiling its CPU kernels, as at every start, since no folder can be written to keep them in; "
    "set NUMBA_CACHE_DIR to one that can"
)
PATIENCE = 1.0  # seconds of compiling before the notice
# Waking a thread and waiting for it costs about 0.05 ms; a cheaper job stays on the caller's thread.
INLINE = 0.2e6  # nanoseconds of one thread

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_workers = 0
_noticed = False
_forked = False  # from a process that has OpenMP's threads


def compiled(function: Callable[..., Any] | None = None, *, reassociate: bool = True) -> Any:
    """Compile a loop with numba when it is first run, and keep the machine code on disk.

    ``reassociate=False`` keeps additions in the written order, for code whose rounding errors cancel by design.
    """
    if function is None:
        return lambda function: compiled(function, reassociate=reassociate)
    import numba

    flags = set(FAST if reassociate else FAST - {"reassoc"})
    # Python's error model would test each divisor for zero, and so forbid vectors.
    kernel: Any = numba.njit(nogil=True, error_model="numpy", fastmath=flags)(function)
    # A RuntimeError: neither the package nor the user's cache directory can be written.
    with suppress(RuntimeError):
        kernel._cache = _forgiving_cache()(function)  # where njit(cache=True) puts numba's own
    return kernel


@cache
def _forgiving_cache() -> Any:
    """numba's copies on disk, where a file that was cut off or cannot be written is no error."""
    from numba.core.caching import FunctionCache

    class Forgiving(FunctionCache):
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # unpickling what is damaged raises anything
                self._remove()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):  # a full disk loses the copy on disk, not the kernel
                super().save_overload(sig, data)

        def _remove(self) -> None:
            name = escape(os.path.join(self.cache_path, self._impl.filename_base))
            for path in [*glob(f"{name}.nbi"), *glob(f"{name}.*.nbc")]:
                with suppress(OSError):
                    os.unlink(path)

    return Forgiving


def pointer(kind: str) -> Any:
    """For loops: where an address leads, indexed as an array without bounds, of which nobody counts references."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def at(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(getattr(types, kind))(address), generate

    return at


def prefetch() -> Any:
    """For loops: have the line of the cache at an address brought there meanwhile."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def hint(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            # for reading, into all caches, data
            builder.call(function, [builder.inttoptr(args[0], pointer), word(0), word(3), word(1)])
            return context.get_dummy_value()

        return types.void(types.intp), generate

    return hint


def run(kernel: Any, items: int, cost: float, *args: Any) -> None:
    """Call ``kernel(first, last, *args)`` on ranges that cover 0..items, over ``torch.get_num_threads()`` threads.

    ``cost`` estimates the whole job in nanoseconds of one thread. The calling thread takes its share of the work.
    """
    if items == 0:
        return
    if not kernel.overloads:
        _compile(kernel, (0, items, *args))
    parts = min(torch.get_num_threads(), items) if cost >= INLINE and not _forked else 1
    if parts == 1:
        kernel(0, items, *args)
        return
    shares = iter(list(pairwise(items * part // parts for part in range(parts + 1))))
    failed: list[BaseException] = []

    def work() -> None:
        for first, last in shares:  # whoever comes first: a thread that is late leaves its share to the others
            try:
                kernel(first, last, *args)
            except BaseException as error:
                failed.append(error)

    if _openmp is not None:
        # All threads, needed or not: a team of another size would end some, and torch would have to start them anew.
        _openmp.GOMP_parallel(_enter, work, torch.get_num_threads(), 0)
        work()  # what an interrupt has left
    else:
        pool = _executor(parts - 1)
        others = [pool.submit(work) for _ in range(parts - 1)]
        work()
        for other in others:
            other.result()
    if failed:
        raise failed[0]


def pieces(rows: int, length: int, least: int) -> int:
    """Into how many pieces, no shorter than ``least``, each of ``rows`` rows is cut to keep all threads busy."""
    threads = torch.get_num_threads()
    even = rows % threads == 0 or rows >= 8 * threads
    return 1 if even else max(1, min(threads, length // least))


def cut(rows: int, *tensors: Tensor) -> list[Tensor]:
    """(…, D) as (…, parts, D/parts), with as many parts as keep all threads busy on ``rows`` rows."""
    width = tensors[0].shape[-1]
    parts = pieces(rows, width, 64)
    while width % parts:
        parts -= 1
    return [tensor.contiguous().unflatten(-1, (parts, width // parts)) for tensor in tensors]


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors as numpy sees them, copied where they are not in C order."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _executor(workers: int) -> ThreadPoolExecutor:
    """The pool. One of another size is left to those still using it; its threads end when nobody holds it."""
    global _pool, _workers
    with _lock:
        if _pool is None or _workers != workers:
            _pool, _workers = ThreadPoolExecutor(workers, thread_name_prefix="regard"), workers
        return _pool


def _find_openmp() -> Any:
    """The OpenMP that is already in this process, if it is GNU's."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        library.GOMP_parallel.argtypes = [_Body, ctypes.py_object, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
    except (OSError, AttributeError):
        return None
    return library


_Body = ctypes.CFUNCTYPE(None, ctypes.py_object)
_enter = _Body(lambda work: work())
_openmp = _find_openmp()


def _forget() -> None:
    """After a fork only the forking thread lives on: start without threads, and with a lock that is free."""
    global _pool, _lock, _openmp, _forked
    _pool, _lock, _openmp, _forked = None, threading.Lock(), None, _openmp is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _compile(kernel: Any, args: tuple[Any, ...]) -> None:
    """Compile ``kernel`` or load it from disk, with a notice if compiling takes long."""
    from numba import typeof

    done = threading.Event()
    threading.Thread(target=_watch, args=(kernel, done), daemon=True).start()
    try:
        kernel.compile(tuple(typeof(arg) for arg in args))
    finally:
        done.set()


def _watch(kernel: Any, done: threading.Event) -> None:
    global _noticed
    while not done.wait(PATIENCE):
        if kernel.stats.cache_misses and not _noticed:  # a slow disk is no reason to speak of compiling
            _noticed = True
            cached = getattr(kernel._cache, "cache_path", None) is not None
            print(NOTICE if cached else UNKEPT, file=sys.stderr, flush=True)
