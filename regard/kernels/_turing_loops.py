"""The loops of :mod:`regard.kernels.turing`, compiled by numba for float32 arrays in C order. Imported at first use.

A memory is held as (width, rows), so that every inner loop runs along the rows, of which there are many, and not along
the width, which fills no vector register. Batch items are independent: each kernel takes a range of them, first..last.
The helpers live here too, since numba renews its copy on disk only when the file of the kernel itself changes.
"""

import numpy as np

from regard.kernels._pool import compiled

f32 = np.float32
ZERO, HALF, ONE, TWO = f32(0), f32(0.5), f32(1), f32(2)
TINY = f32(np.finfo(np.float32).tiny)
SHORT = f32(1e-8)  # a vector no longer than this has no direction; as in regard.scores.Cosine
FAINT = f32(1e-16)  # what a weight is at least before it is sharpened; as in regard.refiners.ShiftSharpen

LOG2_E = f32(1 / np.log(2))
LN2 = f32(np.log(2))
LN2_HIGH = f32(0.693359375)  # nine bits, so that its product with an exponent is exact
LN2_LOW = f32(np.log(2) - 0.693359375)
LOWEST = f32(-87)  # e to this is the last normal number
ROOT_HALF = 0x3F3504F3  # the bits of √½
C2, C3, C4, C5, C6, C7 = (f32(1 / c) for c in (2, 6, 24, 120, 720, 5040))
L3, L5, L7, L9 = (f32(2 / c) for c in (3, 5, 7, 9))


@compiled(reassociate=False)
def exp(x):
    """e^x for x <= 0 or a little above: 2^n·e^f with |f| <= ln(2)/2. NaN stays NaN."""
    x = LOWEST if x < LOWEST else x
    n = np.floor(x * LOG2_E + HALF)
    f = (x - n * LN2_HIGH) - n * LN2_LOW
    p = ((((((C7 * f + C6) * f + C5) * f + C4) * f + C3) * f + C2) * f + ONE) * f + ONE
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(f32)


@compiled(reassociate=False)
def log(x):
    """log x of a normal number: n·ln 2 + 2 artanh((m-1)/(m+1)) with m between √½ and √2. NaN stays NaN."""
    bits = f32(x).view(np.int32)
    n = np.int32(np.int32(bits - np.int32(ROOT_HALF)) >> np.int32(23))
    m = np.int32(bits - np.int32(n << np.int32(23))).view(f32)
    s = (m - ONE) / (m + ONE)
    t = s * s
    y = s * (TWO + t * (L3 + t * (L5 + t * (L7 + t * L9)))) + f32(n) * LN2
    return y if x == x else x


@compiled
def sigmoid(x):
    """1/(1+e^-x)."""
    e = exp(-abs(x))
    return (ONE if x >= ZERO else e) / (ONE + e)


@compiled
def softplus(x):
    """log(1+e^x)."""
    return max(x, ZERO) + np.log1p(exp(-abs(x))) if x == x else x


@compiled
def tanh(x):
    """By e^-2|x|, and by a series where that would lose digits."""
    u = x * x
    if u < f32(0.01):
        return x * (ONE - u * (f32(1 / 3) - u * (f32(2 / 15) - u * f32(17 / 315))))
    e = exp(-TWO * abs(x))
    return np.copysign((ONE - e) / (ONE + e), x)


@compiled
def distribution(x, out):
    """out = softmax of a few numbers."""
    top, total = x[0], ZERO
    for j in range(1, x.shape[0]):
        top = max(top, x[j])
    for j in range(x.shape[0]):
        out[j] = exp(x[j] - top)
        total += out[j]
    for j in range(x.shape[0]):
        out[j] /= total


@compiled
def largest(x):
    """The largest of a vector; NaN if the last one is."""
    top = x[0]
    for i in range(1, x.shape[0]):
        top = x[i] if x[i] > top else top
    return top


@compiled
def dot(x, y):
    """x · y."""
    total = ZERO
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled
def scale(x, factor, out):
    """out = factor·x."""
    for i in range(x.shape[0]):
        out[i] = factor * x[i]


@compiled
def length(x):
    """‖x‖."""
    return np.sqrt(dot(x, x))


@compiled
def wrap(x, reach, out):
    """x with its last ``reach`` entries before it and its first ones behind it."""
    n = x.shape[0]
    for i in range(n):
        out[reach + i] = x[i]
    for i in range(reach):
        out[reach - 1 - i] = x[(n - 1 - i) % n]
        out[reach + n + i] = x[i % n]


@compiled
def rotate(ring, shift, out):
    """out[i] = Σ_j shift[j] x[i - (j - reach)] where ``ring`` is x, wrapped."""
    last = shift.shape[0] - 1
    for i in range(out.shape[0]):
        out[i] = ZERO
    for j in range(last + 1):
        s = shift[j]
        for i in range(out.shape[0]):
            out[i] += s * ring[i + last - j]


@compiled
def norms(memory, out):
    """out[i] = 1/‖row i‖."""
    for i in range(out.shape[0]):
        out[i] = ZERO
    for d in range(memory.shape[0]):
        row = memory[d]
        for i in range(out.shape[0]):
            out[i] += row[i] * row[i]
    for i in range(out.shape[0]):
        root = np.sqrt(out[i])
        out[i] = ONE / (SHORT if root < SHORT else root)


@compiled
def content(memory, inverse, key, gain, cosine, out):
    """cosine[i] = cos(key, row i), out = softmax(gain·cosine)."""
    n = out.shape[0]
    root = length(key)
    unit = ONE / (SHORT if root < SHORT else root)
    for i in range(n):
        cosine[i] = ZERO
    for d in range(memory.shape[0]):
        k, row = key[d] * unit, memory[d]
        for i in range(n):
            cosine[i] += k * row[i]
    for i in range(n):
        cosine[i] *= inverse[i]
    top, total = largest(cosine), ZERO
    for i in range(n):
        out[i] = exp(gain * (cosine[i] - top))
        total += out[i]
    scale(out, ONE / total, out)


@compiled
def sharpen(rotated, exponent, out):
    """out = rotated^exponent / Σ."""
    top = max(largest(rotated), TINY)
    total = ZERO
    for i in range(out.shape[0]):
        x = rotated[i] / top
        out[i] = exp(exponent * log(FAINT if x < FAINT else x))
        total += out[i]
    scale(out, ONE / total, out)


@compiled
def forward(first, last, shifts, memory, before, raw, written, weights, read, saved, inverses):
    """A step of items first..last: address with every head, read with the first, write with the last.

    memory (B, W, N), before (B, H, N), raw (B, P) → written (B, W, N), weights (B, H, N), read (B, R, W). For the way
    back: saved (B, H, 3, N), the cosines, content weights and rotated weights, and inverses (B, N), 1/‖row‖.
    """
    width, rows = memory.shape[1:]
    heads, reads = weights.shape[1], read.shape[1]
    size, reach = width + 3 + shifts, shifts // 2
    shift, ring, mixed = np.empty(shifts, f32), np.empty(rows + 2 * reach, f32), np.empty(rows, f32)
    for b in range(first, last):
        norms(memory[b], inverses[b])
        for h in range(heads):
            params, w, back = raw[b, h * size : (h + 1) * size], before[b, h], saved[b, h]
            gain, gate, exponent = (
                softplus(params[width]),
                sigmoid(params[width + 1]),
                ONE + softplus(params[width + 2]),
            )
            content(memory[b], inverses[b], params[:width], gain, back[0], back[1])
            for i in range(rows):
                mixed[i] = gate * back[1, i] + (ONE - gate) * w[i]
            distribution(params[width + 3 :], shift)
            wrap(mixed, reach, ring)
            rotate(ring, shift, back[2])
            sharpen(back[2], exponent, weights[b, h])
        for h in range(reads):
            for d in range(width):
                read[b, h, d] = dot(weights[b, h], memory[b, d])
        written[b] = memory[b]
        for h in range(reads, heads):
            place = heads * size + (h - reads) * 2 * width
            for d in range(width):
                e, row, w = sigmoid(raw[b, place + d]), written[b, d], weights[b, h]
                for i in range(rows):
                    row[i] *= ONE - e * w[i]
        for h in range(reads, heads):
            place = heads * size + (h - reads) * 2 * width + width
            for d in range(width):
                a, row, w = tanh(raw[b, place + d]), written[b, d], weights[b, h]
                for i in range(rows):
                    row[i] += a * w[i]


@compiled
def backward(
    first,
    last,
    shifts,
    memory,
    before,
    raw,
    weights,
    saved,
    inverses,
    g_written,
    g_weights,
    g_read,
    g_memory,
    g_before,
    g_raw,
):
    """The gradients of :func:`forward` for items first..last."""
    width, rows = memory.shape[1:]
    heads, reads = weights.shape[1], g_read.shape[1]
    size, reach = width + 3 + shifts, shifts // 2
    shift, ring, mixed = np.empty(shifts, f32), np.empty(rows + 2 * reach, f32), np.empty(rows, f32)
    g_w = np.empty((heads, rows), f32)  # of the weights
    g_cosine, along = np.empty(rows, f32), np.empty(rows, f32)
    product, unit = np.empty(rows, f32), np.empty(width, f32)
    for b in range(first, last):
        m, g_m = memory[b], g_memory[b]
        g_w[:] = g_weights[b]
        # Reading and writing, column by column.
        for d in range(width):
            row, g_row, g_new = m[d], g_m[d], g_written[b, d]
            for i in range(rows):
                g_row[i] = g_new[i]
            for h in range(reads, heads):
                place = heads * size + (h - reads) * 2 * width + d
                e, a = sigmoid(raw[b, place]), tanh(raw[b, place + width])
                w, g = weights[b, h], g_w[h]
                for i in range(rows):
                    product[i] = g_new[i] * row[i]
                for other in range(reads, heads):
                    if other != h:
                        v, f = weights[b, other], sigmoid(raw[b, heads * size + (other - reads) * 2 * width + d])
                        for i in range(rows):
                            product[i] *= ONE - f * v[i]
                for i in range(rows):
                    g[i] += a * g_new[i] - e * product[i]
                    g_row[i] *= ONE - e * w[i]
                g_raw[b, place] = -dot(product, w) * e * (ONE - e)
                g_raw[b, place + width] = dot(g_new, w) * (ONE - a * a)
            for h in range(reads):
                r, w, g = g_read[b, h, d], weights[b, h], g_w[h]
                for i in range(rows):
                    g[i] += r * row[i]
                    g_row[i] += r * w[i]
        # Addressing, head by head.
        for i in range(rows):
            along[i] = ZERO
        for h in range(heads):
            params, g_params, back = raw[b, h * size : (h + 1) * size], g_raw[b, h * size : (h + 1) * size], saved[b, h]
            gain, gate, exponent = (
                softplus(params[width]),
                sigmoid(params[width + 1]),
                ONE + softplus(params[width + 2]),
            )
            distribution(params[width + 3 :], shift)
            cosine, alike, rotated, w, g = back[0], back[1], back[2], weights[b, h], g_w[h]
            # w = softmax(exponent · log max(rotated / top, FAINT))
            mean, top, g_power = dot(g, w), max(largest(rotated), TINY), ZERO
            for i in range(rows):
                x, y = rotated[i] / top, w[i] * (g[i] - mean)
                faint = x < FAINT
                g_power += y * log(FAINT if faint else x)
                g[i] = ZERO if faint else exponent * y / rotated[i]
            # rotated = mixed ∗ shift
            for i in range(rows):
                mixed[i] = gate * alike[i] + (ONE - gate) * before[b, h, i]
            wrap(mixed, reach, ring)
            total = ZERO
            for j in range(shifts):
                g_shift = dot(g, ring[shifts - 1 - j :])
                g_params[width + 3 + j] = shift[j] * g_shift
                total += shift[j] * g_shift
            for j in range(shifts):
                g_params[width + 3 + j] -= shift[j] * total
            wrap(g, reach, ring)
            rotate(ring, shift[::-1], mixed)
            # mixed = gate · alike + (1 - gate) · before
            g_gate = ZERO
            for i in range(rows):
                g_gate += mixed[i] * (alike[i] - before[b, h, i])
                g_before[b, h, i] = (ONE - gate) * mixed[i]
                mixed[i] *= gate
            # alike = softmax(gain · cosine)
            mean = dot(mixed, alike)
            g_gain = ZERO
            for i in range(rows):
                y = alike[i] * (mixed[i] - mean)
                g_gain += y * cosine[i]
                g_cosine[i] = gain * y * inverses[b, i]
                along[i] += gain * y * cosine[i]
            g_params[width] = g_gain * sigmoid(params[width])
            g_params[width + 1] = g_gate * gate * (ONE - gate)
            g_params[width + 2] = g_power * sigmoid(params[width + 2])
            # cosine[i] = key/‖key‖ · row[i]/‖row[i]‖
            root = length(params[:width])
            inverse = ONE / (SHORT if root < SHORT else root)
            turned = ZERO
            for d in range(width):
                unit[d] = params[d] * inverse
                g_params[d] = dot(g_cosine, m[d])
                turned += g_params[d] * unit[d]
                k, g_row = unit[d], g_m[d]
                for i in range(rows):
                    g_row[i] += k * g_cosine[i]
            turned = turned if root >= SHORT else ZERO
            for d in range(width):
                g_params[d] = inverse * (g_params[d] - turned * unit[d])
        for i in range(rows):
            # A row that is too short to have a direction is only scaled, by a constant.
            along[i] = ZERO if inverses[b, i] >= ONE / SHORT else along[i] * inverses[b, i] * inverses[b, i]
        for d in range(width):
            row, g_row = m[d], g_m[d]
            for i in range(rows):
                g_row[i] -= along[i] * row[i]
