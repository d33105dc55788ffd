"""Freed memory is kept for the next tensor."""

import platform
import subprocess
import sys

import pytest
import torch

from regard import _heap

FAULTS = """
import resource, sys, torch
from regard import _heap
if sys.argv[1] == "keep":
    assert _heap.keep()
x, faults = torch.ones(4_000_000), []
for _ in range(31):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    x + 1
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sorted(faults)[15])  # the system may take pages away now and then
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
def test_a_tensor_of_the_same_size_costs_no_new_pages():
    """16 MB are 3,907 pages, or 8 large ones."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, "keep"], capture_output=True, text=True, check=True, timeout=100
    )
    assert int(done.stdout) <= 2


@pytest.mark.parametrize("skipped", [0, 1, 1023])
def test_a_tensor_in_large_pages_is_the_same_tensor(skipped):
    """Also where it begins within a page, and what lies before it stays."""
    whole = torch.arange(4_000_000.0)
    rest = whole[skipped:]
    assert _heap.large(rest) is rest
    assert whole.equal(torch.arange(4_000_000.0))
