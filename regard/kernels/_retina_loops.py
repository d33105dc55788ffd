"""The loop of the retina, compiled by numba for float32 in C order. Imported at first use only.

It is given addresses instead of arrays, as :func:`regard.kernels._loops.single` is, and for the same reason."""

import numpy as np

from regard.kernels._pool import compiled, pointer

f32, f64 = np.float32, np.float64
floats = pointer("float32")  # rows are too short for taking each out of an array, with its references counted


@compiled
def corner(place, pixels, wide, reach):
    """The first row or column of a square round a place from −1 to 1; far out, anything far out will do."""
    return int(min(max(np.floor((f64(place) + 1) * (pixels / 2) - (wide / 2 - 0.5)), -reach), reach))


@compiled
def add(sums, begin, end, pixels, left):
    """sums[x] += pixels[left + x] for begin..end."""
    for x in range(begin, end):
        sums[x] += pixels[left + x]


@compiled
def pair(sums, count, out, share):
    """The sums of neighbours, twice ``count`` of them."""
    for x in range(count):
        out[x] = (sums[2 * x] + sums[2 * x + 1]) * share


@compiled
def read(first, last, sizes, location, image, out):
    """Means over cells of 2ᵏ × 2ᵏ, for sizes C, H, W, K, N and the addresses of location (B, 2), image (B, C, H, W) and
    out (B, C, K, N, N)."""
    channels, height, width, scales, size = sizes
    room = np.empty(2 * (size << (scales - 1)), f32)
    sums, halves = floats(room.ctypes.data), floats(room.ctypes.data + 4 * (size << (scales - 1)))
    reach = f64(max(height, width) + (size << scales))
    for b in range(first, last):
        x, y = floats(location)[2 * b], floats(location)[2 * b + 1]
        nowhere = x * f32(0) + y * f32(0)
        if nowhere != f32(0):  # not a number, or infinity
            patch = floats(out + 4 * b * channels * scales * size * size)
            for i in range(channels * scales * size * size):
                patch[i] = np.nan
            continue
        for k in range(scales):
            side, wide = 1 << k, size << k
            left, top = corner(x, width, wide, reach), corner(y, height, wide, reach)
            begin, end = max(-left, 0), min(width - left, wide)  # the columns of the square that exist
            for c in range(channels):
                pixels = image + 4 * (b * channels + c) * height * width
                cells = out + 4 * ((b * channels + c) * scales + k) * size * size
                for i in range(size):
                    row = floats(cells + 4 * i * size)
                    into = row if k == 0 else sums
                    for j in range(wide):
                        into[j] = f32(0)
                    for line in range(max(top + i * side, 0), min(top + (i + 1) * side, height)):
                        add(into, begin, end, floats(pixels + 4 * line * width), left)
                    for step in range(1, k + 1):
                        source, target = (sums, halves) if step % 2 else (halves, sums)
                        share = f32(1) / f32(side * side) if step == k else f32(1)
                        pair(source, wide >> step, row if step == k else target, share)
    room[0] = f32(0)  # it lives until here
