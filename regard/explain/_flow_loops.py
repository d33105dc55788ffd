"""Maximum flows through layers, compiled. Node (l, i) is place i above layer l; the source is (L, t), the sink (0, s).

Dinic's algorithm: the distance of each node from the source by a search along edges that have room left, then paths
along which the distance grows, until there is none; again, until the sink is out of reach. Room is ``down[l, i, j]``
from (l + 1, i) to (l, j), and ``up[l, i, j]`` back from (l, j) to (l + 1, i), which is the flow itself.
"""

import numpy as np

from regard.kernels import _pool

LEAST = 1e-9  # room that counts as none


@_pool.compiled
def flows(capacity):
    """(L, T, T) → (T, T): for each output and input the greatest flow."""
    length = capacity.shape[1]
    out = np.zeros((length, length))
    for top in range(length):
        for bottom in range(length):
            out[top, bottom] = flow(capacity, top, bottom)
    return out


@_pool.compiled
def flow(capacity, top, bottom):
    """The greatest flow from (L, top) to (0, bottom)."""
    layers, length, _ = capacity.shape
    down, up = capacity.copy(), np.zeros_like(capacity)
    level = np.empty((layers + 1, length), np.int64)
    queue = np.empty(((layers + 1) * length, 2), np.int64)
    exhausted = np.empty((layers + 1, length), np.int64)  # neighbours of a node that lead nowhere any more
    path = np.empty(((layers + 1) * length, 2), np.int64)
    total = 0.0
    while True:
        level[:] = -1
        level[layers, top] = 0
        queue[0, 0], queue[0, 1] = layers, top
        first, last = 0, 1
        while first < last:
            k, i = queue[first, 0], queue[first, 1]
            first += 1
            for j in range(length):
                if k > 0 and level[k - 1, j] < 0 and down[k - 1, i, j] > LEAST:
                    level[k - 1, j] = level[k, i] + 1
                    queue[last, 0], queue[last, 1] = k - 1, j
                    last += 1
                if k < layers and level[k + 1, j] < 0 and up[k, j, i] > LEAST:
                    level[k + 1, j] = level[k, i] + 1
                    queue[last, 0], queue[last, 1] = k + 1, j
                    last += 1
        if level[0, bottom] < 0:
            return total
        exhausted[:] = 0
        path[0, 0], path[0, 1] = layers, top
        steps = 0
        while steps >= 0:
            k, i = path[steps, 0], path[steps, 1]
            if k == 0 and i == bottom:
                least = np.inf
                for step in range(steps):
                    a, b, c, d = path[step, 0], path[step, 1], path[step + 1, 0], path[step + 1, 1]
                    room = down[c, b, d] if c < a else up[a, d, b]
                    least = min(least, room)
                back = 0
                for step in range(steps - 1, -1, -1):
                    a, b, c, d = path[step, 0], path[step, 1], path[step + 1, 0], path[step + 1, 1]
                    if c < a:
                        down[c, b, d] -= least
                        up[c, b, d] += least
                        room = down[c, b, d]
                    else:
                        up[a, d, b] -= least
                        down[a, d, b] += least
                        room = up[a, d, b]
                    if room <= LEAST:
                        back = step
                total += least
                steps = back
                continue
            moved = False
            while exhausted[k, i] < 2 * length:
                j = exhausted[k, i] % length
                if exhausted[k, i] < length:
                    if k > 0 and level[k - 1, j] == level[k, i] + 1 and down[k - 1, i, j] > LEAST:
                        steps += 1
                        path[steps, 0], path[steps, 1] = k - 1, j
                        moved = True
                        break
                elif k < layers and level[k + 1, j] == level[k, i] + 1 and up[k, j, i] > LEAST:
                    steps += 1
                    path[steps, 0], path[steps, 1] = k + 1, j
                    moved = True
                    break
                exhausted[k, i] += 1
            if not moved:
                steps -= 1
                if steps >= 0:
                    exhausted[path[steps, 0], path[steps, 1]] += 1
