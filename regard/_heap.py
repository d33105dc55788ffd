"""What a program of ours asks of the C library."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h


def keep() -> bool:
    """Keep memory that tensors have given back for the next ones. Says whether the C library can.

    glibc returns blocks of megabytes to the system at once, and every new tensor is then mapped and cleared page by
    page again, which every decoding step pays. Since it holds for the whole process, only the command line calls it.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all([mallopt(_MMAP_THRESHOLD, 2**30), mallopt(_TRIM_THRESHOLD, 2**31 - 1), mallopt(_TOP_PAD, 2**26)])
