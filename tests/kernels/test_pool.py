"""Threads, forks, compilation and its notice."""

import importlib.util
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.kernels import _pool


class Recorder:
    """Stands in for a compiled kernel: notes who ran which range."""

    overloads = ("compiled",)

    def __init__(self, parties=None):
        self.ranges, self.threads = [], set()
        self.barrier = parties and threading.Barrier(parties)

    def __call__(self, first, last, *args):
        self.ranges.append((first, last))
        self.threads.add(threading.get_ident())
        if self.barrier:
            self.barrier.wait(timeout=20)


@pytest.fixture(params=["torch's threads", "a pool of ours"])
def threads(request, monkeypatch):
    """Set torch's thread count, and put it back; with either kind of threads."""
    if request.param == "a pool of ours":
        monkeypatch.setattr(_pool, "_openmp", None)
    elif _pool._openmp is None:
        pytest.skip("torch runs on another OpenMP than GNU's here")
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [1, 2, 3, 7, 100])
def test_ranges_cover_the_items_once(count, items, threads):
    threads(count)
    kernel = Recorder()
    _pool.run(kernel, items, np.inf)
    assert len(kernel.ranges) == min(count, items)
    covered = [item for first, last in kernel.ranges for item in range(first, last)]
    assert sorted(covered) == list(range(items))
    sizes = [last - first for first, last in kernel.ranges]
    assert max(sizes) - min(sizes) <= 1


def test_the_parts_run_side_by_side_and_follow_torch(threads):
    """A barrier that only lets go when all parts are in it at once."""
    for count in (2, 4, 3):
        threads(count)
        kernel = Recorder(parties=count)
        _pool.run(kernel, 100, np.inf)
        assert len(kernel.threads) == count
        assert threading.get_ident() in kernel.threads


def test_small_work_stays_on_the_calling_thread(threads):
    threads(4)
    kernel = Recorder()
    _pool.run(kernel, 100, _pool.INLINE - 1)
    assert kernel.ranges == [(0, 100)]
    assert kernel.threads == {threading.get_ident()}


def test_nothing_to_do():
    kernel = Recorder()
    _pool.run(kernel, 0, np.inf)
    assert not kernel.ranges


def test_an_error_in_a_part_reaches_the_caller(threads):
    threads(2)

    class Broken(Recorder):
        def __call__(self, first, last):
            if first:
                raise ZeroDivisionError("second half")

    with pytest.raises(ZeroDivisionError, match="second half"):
        _pool.run(Broken(), 2, np.inf)


def test_eight_callers_with_changing_thread_counts(threads):
    """Pools are replaced under their users' feet; every item is still done once."""

    def call(number):
        torch.set_num_threads(2 + number % 3)
        kernel = Recorder()
        _pool.run(kernel, 50, np.inf)
        return sorted(item for first, last in kernel.ranges for item in range(first, last))

    with ThreadPoolExecutor(8) as callers:
        assert all(done == list(range(50)) for done in callers.map(call, range(400)))
    deadline = time.monotonic() + 20
    while sum(thread.name.startswith("regard") for thread in threading.enumerate()) > 3:
        assert time.monotonic() < deadline, "threads of replaced pools live on"
        time.sleep(0.05)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_rows_are_cut_only_where_threads_would_idle(count, threads):
    threads(count)
    assert _pool.pieces(count, 1000, 8) == 1
    assert _pool.pieces(100 * count, 1000, 8) == 1
    assert _pool.pieces(count * 3 + 1, 1000, 8) == count
    assert _pool.pieces(count * 3 + 1, 15, 8) == 1
    (cut,) = _pool.cut(count * 3 + 1, torch.zeros(2, 640))
    assert cut.shape[1] * cut.shape[2] == 640
    assert cut.shape[2] >= 64


FORK = """
import os, sys, torch
from regard.kernels import _pool
from regard.kernels.additive import additive_scores
_pool.INLINE = 0
torch.set_num_threads(2)
inputs = [torch.randn(3, 9, 64, requires_grad=True), torch.randn(3, 8, 64), torch.randn(1, 64)]
def work():
    inputs[0].grad = None
    out = additive_scores(*inputs)
    out.sum().backward()
    return torch.cat([out.flatten(), inputs[0].grad.flatten()])
before = work()
assert _pool._openmp or _pool._pool
openmp = _pool._openmp is not None
_pool._lock.acquire()  # as if another thread were choosing the pool at the moment of the fork
child = os.fork()
if child == 0:
    same = work().equal(before) and work().equal(before)
    alone = _pool._pool is None or not openmp
    os._exit(0 if same and alone else 1)
_pool._lock.release()
assert work().equal(before)
status = os.waitpid(child, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], timeout=100, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_numba_is_imported_only_when_a_kernel_runs():
    code = (
        "import sys; from regard.kernels import _pool, additive, chunked, local; "
        "assert 'numba' not in sys.modules, 'numba'; assert 'regard.kernels._loops' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], timeout=100, check=True)


COMPILE = """
import torch
from regard.kernels import _pool
from regard.kernels.additive import additive_scores
_pool.PATIENCE = 0.05
print(additive_scores(torch.ones(1, 4, 8), torch.ones(1, 4, 8), torch.ones(1, 8)).sum().item())
"""


def test_compiled_once_with_one_notice(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", COMPILE], env=environment, timeout=100, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert runs[0].stderr.count(_pool.NOTICE) == 1
    assert _pool.NOTICE not in runs[1].stderr
    assert runs[0].stdout == runs[1].stdout
    assert list(tmp_path.rglob("*.nbc"))


def test_the_notice_waits_and_keeps_to_compilation(monkeypatch, capsys):
    monkeypatch.setattr(_pool, "PATIENCE", 0.05)
    monkeypatch.setattr(_pool, "_noticed", False)

    def kernel(seconds, misses):
        stats, cache = SimpleNamespace(cache_misses=misses), SimpleNamespace(cache_path="somewhere")
        return SimpleNamespace(compile=lambda types: time.sleep(seconds), stats=stats, overloads=(), _cache=cache)

    spoken = []
    for seconds, misses in ((0.0, {1: 1}), (0.5, {}), (0.5, {1: 1}), (0.5, {1: 1})):
        _pool._compile(kernel(seconds, misses), ())
        time.sleep(0.1)
        spoken.append(capsys.readouterr().err.count(_pool.NOTICE))
    assert spoken == [0, 0, 1, 0]


DOUBLE = """
from regard.kernels._pool import compiled

@compiled
def double(x):
    return 2 * x

@compiled
def fourfold(x):
    return double(double(x))
"""


@pytest.fixture
def loaded(tmp_path):
    """Loads two small kernels as a process that starts would, with their copies on disk in ``loaded.cache``."""
    path = tmp_path / "double.py"
    path.write_text(DOUBLE)

    def load():
        spec = importlib.util.spec_from_file_location("double", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    load.cache = tmp_path / "__pycache__"
    return load


@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\x00" * 99])
def test_a_damaged_copy_on_disk_is_compiled_again(loaded, suffix, damage):
    assert loaded().fourfold(10) == 40
    files = list(loaded.cache.glob(f"*.{suffix}"))
    assert files
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    again = loaded()
    assert again.fourfold(10) == 40 and again.fourfold.stats.cache_misses
    third = loaded()
    assert third.fourfold(10) == 40 and third.fourfold.stats.cache_hits and not third.fourfold.stats.cache_misses


def test_a_full_disk_does_not_lose_the_kernel(loaded, monkeypatch):
    def full(*arguments):
        raise OSError("no space left on device")

    module = loaded()
    monkeypatch.setattr(os, "replace", full)
    assert module.fourfold(10) == 40


def test_no_place_for_a_cache(monkeypatch, capsys):
    """numba refuses to cache what has no file; so it does when no directory can be written."""
    space = {"compiled": _pool.compiled}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("@compiled\ndef double(x):\n    return 2 * x", space)
    kernel = space["double"]
    assert kernel(21) == 42
    monkeypatch.setattr(_pool, "PATIENCE", 0.01)
    monkeypatch.setattr(_pool, "_noticed", False)
    monkeypatch.setattr(kernel, "compile", lambda types: time.sleep(0.3))
    _pool._compile(kernel, ())
    said = capsys.readouterr().err
    assert "NUMBA_CACHE_DIR" in said and "once" not in said


def test_flags_let_nan_pass():
    assert not {"nnan", "ninf", "fast"} & _pool.FAST
