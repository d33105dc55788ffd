"""The loop of the retina, compiled by numba for float32 arrays in C order. Imported at first use only."""

import numpy as np

from regard.kernels._pool import compiled

f32, f64 = np.float32, np.float64


@compiled
def read(first, last, location, image, out):
    """location (B, 2), image (B, C, H, W) → out (B, C, K, N, N): means over cells of 2ᵏ × 2ᵏ."""
    channels, height, width = image.shape[1:]
    scales, size = out.shape[2], out.shape[3]
    sums = np.empty(size << (scales - 1), f32)
    reach = f64(max(height, width) + (size << scales))
    for b in range(first, last):
        nowhere = location[b, 0] * f32(0) + location[b, 1] * f32(0)
        if nowhere != f32(0):  # not a number, or infinity
            out[b] = np.nan
            continue
        across = (f64(location[b, 0]) + 1) * (width / 2)
        down = (f64(location[b, 1]) + 1) * (height / 2)
        for k in range(scales):
            side = 1 << k
            half = (size << k) / 2 - 0.5
            left = int(min(max(np.floor(across - half), -reach), reach))
            top = int(min(max(np.floor(down - half), -reach), reach))
            begin, end = max(-left, 0), min(width - left, size << k)  # the columns of the square that exist
            share = f32(1) / f32(side * side)
            for c in range(channels):
                for i in range(size):
                    sums[: size << k] = f32(0)
                    for y in range(max(top + i * side, 0), min(top + (i + 1) * side, height)):
                        pixels = image[b, c, y]
                        for x in range(begin, end):
                            sums[x] += pixels[left + x]
                    cells = out[b, c, k, i]
                    if k == 0:
                        for j in range(size):
                            cells[j] = sums[j]
                    else:
                        for j in range(size):
                            total = f32(0)
                            for x in range(j << k, (j + 1) << k):
                                total += sums[x]
                            cells[j] = total * share
