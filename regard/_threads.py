"""Threads that wait without burning cores that others need.

GNU's OpenMP, on which PyTorch's Linux wheels run, lets its threads spin for milliseconds after each operator. On idle
cores that is a little faster; where other programs run, the spinning threads and the working ones take each other's
turns, and everything becomes several times slower. A short spin has nearly all of the gain and little of the loss; and
a training that starts on busy cores takes only as many threads as there are cores to spare.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

SPIN = "GOMP_SPINCOUNT"
TURNS = 3000
"""Some microseconds; GNU's default is some milliseconds. With 1,000 a training on idle cores loses a tenth; 10,000 make
it several times slower on busy ones."""


def spin_briefly() -> bool:
    """Shorten the spin of threads that OpenMP starts later, here and in child processes; says whether it did.

    What the user has set stays. It must come before PyTorch is loaded, since OpenMP reads it only then; so only the
    command line, and the tests, call it.
    """
    if "torch" in sys.modules or SPIN in os.environ or "OMP_WAIT_POLICY" in os.environ:
        return False
    os.environ[SPIN] = str(TURNS)
    return True


@dataclass(frozen=True)
class _Used:
    """Seconds that this process's cores, and the process itself, have computed since they started."""

    at: float
    cores: float
    own: float


def _used() -> _Used | None:
    """None where /proc/stat cannot be read. Time that a virtual machine was kept waiting counts as used by others."""
    if sys.platform != "linux":
        return None
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        rows = [[int(field) for field in fields[:8]] for name, *fields in lines if name in mine]
        user, nice, system, _, _, irq, softirq, steal = (sum(column) for column in zip(*rows, strict=True))
    except (OSError, ValueError):
        return None
    ticks = user + nice + system + irq + softirq + steal
    return _Used(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


_before = _used()
SOON, LATE = 0.2, 20.0
"""Seconds: the shortest and the longest time over which the use of cores is measured."""


def allowed_cores() -> float:
    """Cores that this process may use: its affinity, and the quota of its container."""
    cores = float(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)
    for quota, period in (("cpu.max", None), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            limits = [(Path("/sys/fs/cgroup") / name).read_text(encoding="ascii") for name in (quota, period) if name]
            quota_value, period_value = " ".join(limits).split()
            cores = min(cores, int(quota_value) / int(period_value)) if int(quota_value) > 0 else cores
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return cores


def spare_cores() -> float:
    """Cores that other programs leave to this one, as they were since the last call or in the next 0.2 seconds."""
    global _before
    before, now = _before, _used()
    if before is not None and now is not None and not SOON <= now.at - before.at <= LATE:
        time.sleep(SOON)
        before, now = now, _used()
    _before, cores = now, allowed_cores()
    if before is None or now is None:
        return cores
    others = (now.cores - before.cores - (now.own - before.own)) / (now.at - before.at)
    return min(cores, len(os.sched_getaffinity(0)) - max(others, 0.0))


def threads_to_spare(threads: int) -> int:
    """Of ``threads``, as many as there are cores to spare, at least one; all of them if ``OMP_NUM_THREADS`` is set."""
    if threads < 2 or "OMP_NUM_THREADS" in os.environ:
        return threads
    return max(1, min(threads, round(spare_cores())))


_warned = False


def notice_busy_cores(threads: int) -> None:
    """Warn once if the cores are busy and PyTorch's threads will spin on them."""
    global _warned
    calm = SPIN in os.environ or os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
    if _warned or calm or threads < 2 or not hasattr(os, "getloadavg") or sys.platform != "linux":
        return
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        _warned = True
        warnings.warn(
            f"{cores} cores have {load:.1f} programs to run, and PyTorch's threads spin while they wait: training may "
            f"be several times slower than need be. Set {SPIN}={TURNS} (or OMP_WAIT_POLICY=PASSIVE, or "
            "OMP_NUM_THREADS=1) before Python starts",
            stacklevel=3,
        )
