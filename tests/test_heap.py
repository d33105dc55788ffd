"""Freed memory is kept for the next tensor."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from regard import _heap
if sys.argv[1] == "keep":
    assert _heap.keep()
x = torch.ones(4_000_000)
for _ in range(3):
    x + 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    x + 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
def test_a_tensor_of_the_same_size_costs_no_new_pages():
    """16 MB are 3,907 pages."""
    faults = subprocess.run(
        [sys.executable, "-c", FAULTS, "keep"], capture_output=True, text=True, check=True, timeout=100
    )
    assert int(faults.stdout) < 1000
