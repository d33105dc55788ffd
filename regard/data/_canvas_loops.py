"""The loops that paint canvases, compiled by numba. Imported at first use only.

Each takes a range of pictures, first..last, and writes those alone. Digits are bytes (N, height, width), canvases
float32 (n, height, width); ``which`` (n,) says which digit goes to which canvas.
"""

import numpy as np

from regard.kernels._pool import compiled

f32 = np.float32
ONE, HALF = f32(1), f32(0.5)
BYTE = f32(1 / 255)


@compiled
def paste(first, last, digits, which, source, target, side, canvas):
    """Add a square of each digit, from the corner ``source`` (n, 2), to the canvas at the corner ``target`` (n, 2); no
    number grows beyond 1."""
    for n in range(first, last):
        digit = digits[which[n]]
        for row in range(side):
            for column in range(side):
                ink = f32(digit[source[n, 0] + row, source[n, 1] + column]) * BYTE
                y, x = target[n, 0] + row, target[n, 1] + column
                canvas[n, y, x] = min(canvas[n, y, x] + ink, ONE)


@compiled
def at(digit, x, y):
    """The digit between its pixels, by the four round (x, y), which count from its edges; beyond them it is 0."""
    height, width = digit.shape
    if not (x > -HALF and y > -HALF and x < f32(width) + HALF and y < f32(height) + HALF):
        return f32(0)
    x, y = x - HALF, y - HALF
    left, top = int(np.floor(x)), int(np.floor(y))
    across, down = x - f32(left), y - f32(top)
    total = f32(0)
    for row in range(2):
        for column in range(2):
            r, c = top + row, left + column
            if 0 <= r < height and 0 <= c < width:
                share = (across if column else ONE - across) * (down if row else ONE - down)
                total += share * f32(digit[r, c])
    return min(total * BYTE, ONE)


@compiled
def project(first, last, digits, which, matrix, canvas):
    """Each pixel of a canvas from where its ``matrix`` (n, 3, 3) says; what lies behind the eye is 0."""
    for n in range(first, last):
        digit, m = digits[which[n]], matrix[n]
        for row in range(canvas.shape[1]):
            for column in range(canvas.shape[2]):
                x, y = f32(column) + HALF, f32(row) + HALF
                z = m[2, 0] * x + m[2, 1] * y + m[2, 2]
                canvas[n, row, column] = f32(0)
                if z > f32(1e-3):
                    u = (m[0, 0] * x + m[0, 1] * y + m[0, 2]) / z
                    v = (m[1, 0] * x + m[1, 1] * y + m[1, 2]) / z
                    canvas[n, row, column] = at(digit, u, v)


@compiled
def bend(first, last, digits, which, sources, canvas):
    """Each pixel of a canvas from where ``sources`` (n, pixels, 2) says, x and y."""
    width = canvas.shape[2]
    for n in range(first, last):
        digit = digits[which[n]]
        for row in range(canvas.shape[1]):
            for column in range(width):
                place = sources[n, row * width + column]
                canvas[n, row, column] = at(digit, place[0], place[1])


@compiled
def ink(first, last, begin, end, thick, images):
    """Lines from ``begin`` to ``end`` (n, S, 2), x and y in pixels, ``thick`` (n,) from their middle to their edge."""
    size = images.shape[1]
    for n in range(first, last):
        reach = thick[n] + ONE
        for s in range(begin.shape[1]):
            ax, ay = begin[n, s, 0], begin[n, s, 1]
            dx, dy = end[n, s, 0] - ax, end[n, s, 1] - ay
            square = max(dx * dx + dy * dy, f32(1e-6))
            top, bottom = max(0, int(min(ay, ay + dy) - reach)), min(size, int(max(ay, ay + dy) + reach) + 1)
            left, right = max(0, int(min(ax, ax + dx) - reach)), min(size, int(max(ax, ax + dx) + reach) + 1)
            for row in range(top, bottom):
                for column in range(left, right):
                    x, y = f32(column) + HALF - ax, f32(row) + HALF - ay
                    share = min(max((x * dx + y * dy) / square, f32(0)), ONE)
                    x, y = x - share * dx, y - share * dy
                    dark = min(max(thick[n] + HALF - np.sqrt(x * x + y * y), f32(0)), ONE)
                    images[n, row, column] = max(images[n, row, column], np.uint8(f32(255) * dark))
