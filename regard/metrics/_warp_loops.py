"""The inner loop of :mod:`regard.metrics.times`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def path(weights):  # type: ignore[no-untyped-def]
    """The cells (rows, columns) of the best path from the first to the last cell: one row down, one column on, or both;
    each cell that it passes counts its weight once."""
    rows, columns = weights.shape
    came = np.zeros((rows, columns), np.uint8)
    best = np.empty(columns)
    for t in range(rows):
        corner = 0.0  # best of the row above, one column before
        for s in range(columns):
            above = best[s]
            if t == 0 and s == 0:
                best[s] = weights[t, s]
            else:
                value, how = -np.inf, 0
                if t > 0 and s > 0 and corner > value:
                    value, how = corner, 1
                if s > 0 and best[s - 1] > value:
                    value, how = best[s - 1], 2
                if t > 0 and above > value:
                    value, how = above, 3
                best[s] = value + weights[t, s]
                came[t, s] = how
            corner = above
    cells = np.empty((rows + columns - 1, 2), np.int64)
    count, t, s = 0, rows - 1, columns - 1
    while True:
        cells[count, 0], cells[count, 1] = t, s
        count += 1
        if t == 0 and s == 0:
            break
        how = came[t, s]
        if how != 2:
            t -= 1
        if how != 3:
            s -= 1
    return cells[:count][::-1]
