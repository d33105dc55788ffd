"""Threads that wait without burning cores that others need.

GNU's OpenMP, on which PyTorch's Linux wheels run, lets its threads spin for milliseconds after each operator. On idle
cores that is a little faster; where other programs run, the spinning threads and the working ones take each other's
turns, and everything becomes several times slower. A short spin has nearly all of the gain and little of the loss.
"""

from __future__ import annotations

import os
import sys
import warnings

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
