"""The loops of the fused kernels, compiled by numba for float32 arrays in C order. Imported at first use only.

Each kernel takes a range of work items, first..last, writes only what belongs to them, and leaves threads, shapes and
allocation to its caller. Forward kernels split queries. Backward kernels split the D columns, in which all gradients
are independent, so that no two threads ever add to the same place and the result is the same on any number of them.
The helpers live here too, since numba renews its copy on disk only when the file of the kernel itself changes.

`single` takes tensors as addresses and strides, as whole numbers: a step of a decoder takes well under a
millisecond, of which making views and arrays of its tensors would be a good part.
"""

import numpy as np

from regard.kernels._pool import compiled, pointer, prefetch

floats, flags, numbers = map(pointer, ("float32", "uint8", "int64"))
hint = prefetch()
f32, u64 = np.float32, np.uint64
ZERO, HALF, ONE, TWO = f32(0), f32(0.5), f32(1), f32(2)

# tanh(x) = x·P(x²)/Q(x²) to a relative 1.5e-7 for |x| <= 8, and 1 - tanh(8) = 2e-7. A minimax fit by Lawson's
# iteration: least squares of (P - Q·tanh(x)/x) / (Q'·tanh(x)/x) over Chebyshev points of 0..8, Q' being the Q of the
# sweep before and each point's weight growing with its error. tests/kernels/test_additive.py fits it again.
P0, P1, P2, P3 = map(f32, (0.9999998544, 0.1292565997, 2.951020587e-3, 1.142839027e-5))
Q1, Q2, Q3, Q4 = map(f32, (0.4625887557, 2.381554098e-2, 2.386687247e-4, 2.459200553e-7))
SATURATED = f32(8)

# In tanh(q+k) = 1 - 2/(e^2q·e^2k + 1) the exponentials cost O(T+S) and the O(T·S) rest is cheap. The product stays
# finite while |q|, |k| <= REACH. Beyond CEILING, 2/(…+1) is lost in the rounding of 1; below it, the product of two
# such denominators is finite and its reciprocal a normal number, so that two elements can share one division.
REACH = f32(20)
CEILING = f32(2.0**60)
HEAVY = f32(2.0**60)  # sums with weights above it could overflow where torch's would not

LOG2_E = f32(1 / np.log(2))
LN2_HIGH = f32(0.693359375)  # nine bits, so that its product with an exponent is exact
LN2_LOW = f32(np.log(2) - 0.693359375)
C2, C3, C4, C5, C6, C7 = (f32(1 / c) for c in (2, 6, 24, 120, 720, 5040))
LEAST = f32(-87)  # below it e^x is no normal number

NEVER = f32(-np.inf)
DOT, SQUARE, ADDITIVE = range(3)  # how `single` compares: q·k, ‖q − k‖², v·tanh(q + k)
NARROW = 32  # numbers of a row up to which eight rows at once are faster than four
LINE = 16  # numbers in a line of the cache
FOUR = 4  # queries of a group that read a key together
BLOCK = 16  # keys of a head before it is the next one's turn, where heads lie side by side
PIECE = 4096  # keys whose scores stay in the nearest cache; its unit of cutting, whatever the number of threads


@compiled
def tanh(x):
    """tanh to a relative 5e-7, in steps that vectorize. NaN fails both comparisons and stays NaN."""
    u = x * x
    p = ((P3 * u + P2) * u + P1) * u + P0
    q = (((Q4 * u + Q3) * u + Q2) * u + Q1) * u + ONE
    y = x * p / q
    y = ONE if x > SATURATED else y
    return -ONE if x < -SATURATED else y


@compiled(reassociate=False)
def exp_twice(x):
    """e^2x for |x| <= REACH: 2^n·e^f with |f| <= ln(2)/2, the scores set in the exponent bits."""
    y = x + x
    n = np.floor(y * LOG2_E + HALF)
    f = (y - n * LN2_HIGH) - n * LN2_LOW
    p = ((((((C7 * f + C6) * f + C5) * f + C4) * f + C3) * f + C2) * f + ONE) * f + ONE
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(f32)


@compiled
def exp(x):
    """e^x for x <= 0. NaN stays NaN."""
    return exp_twice(HALF * (LEAST if x < LEAST else x))


@compiled
def exponentials(x, out):
    """out = e^2x of a vector."""
    for d in range(x.shape[0]):
        out[d] = exp_twice(x[d])


@compiled
def fill(array, value):
    """array = value."""
    flat = array.reshape(array.size)
    for i in range(array.size):
        flat[i] = value


@compiled
def within(array, limit):
    """Is every entry within ±limit? NaN is not."""
    outside = 0
    for x in array.reshape(array.size):
        outside += not (abs(x) <= limit)
    return outside == 0


@compiled
def capped(x):
    """min(x, CEILING)."""
    return CEILING if x > CEILING else x


@compiled
def load(x, raw, out):
    """out = x or e^2x."""
    if not raw:
        return exponentials(x, out)
    for d in range(x.shape[0]):
        out[d] = x[d]


@compiled
def product(x, y, out):
    """out = x·y elementwise."""
    for d in range(out.shape[0]):
        out[d] = x[d] * y[d]


@compiled
def additive_row(query, key, weight):
    """weight · tanh(query + key) of three vectors."""
    total = ZERO
    for d in range(query.shape[0]):
        total += weight[d] * tanh(query[d] + key[d])
    return total


@compiled
def additive(first, last, parts, query, key, weight, out):
    """Scores of items first..last of N·parts: of the queries of row n, the part p. By exponentials where they fit."""
    queries, width = query.shape[1:]
    keys = key.shape[1]
    pairs = (queries + 1) // 2  # the unit of cutting, so that no result depends on the number of parts
    a = np.empty((pairs // parts * 2 + 2, width), f32)  # e^2q
    b = np.empty((keys, width), f32)  # e^2k
    for item in range(first, last):
        n, part = item // parts, item % parts
        start, end = pairs * part // parts * 2, min(pairs * (part + 1) // parts * 2, queries)
        q, k, v, e = query[n], key[n], weight[n % weight.shape[0]], out[n]
        if not (within(q, REACH) and within(k, REACH) and within(v, HEAVY)):
            for t in range(start, end):
                for s in range(keys):
                    e[t, s] = additive_row(q[t], k[s], v)
            continue
        for t in range(start, end):
            exponentials(q[t], a[t - start])
        if (end - start) % 2:
            fill(a[end - start], ONE)  # a partner for an odd last query
        for s in range(keys):
            exponentials(k[s], b[s])
        total = ZERO
        for d in range(width):
            total += v[d]
        for t in range(start, end, 2):
            i = t - start
            for s in range(keys):
                sum_0, sum_1 = ZERO, ZERO
                for d in range(width):
                    x_0 = capped(a[i, d] * b[s, d] + ONE)
                    x_1 = capped(a[i + 1, d] * b[s, d] + ONE)
                    r = v[d] / (x_0 * x_1)
                    sum_0 += r * x_1
                    sum_1 += r * x_0
                e[t, s] = total - TWO * sum_0
                if t + 1 < end:
                    e[t + 1, s] = total - TWO * sum_1


@compiled
def additive_backward(first, last, query, key, weight, grad, grad_query, grad_key, grad_weight):
    """Gradients of items first..last of N·parts. The columns are cut: query is (N, T, parts, D/parts), and so on.

    With y = tanh(q+k): dq = v Σ_s e(1-y²), dk = v Σ_t e(1-y²), dv = Σ_ts e·y, one row of grad_weight for each n.
    """
    _, queries, parts, width = query.shape
    keys = key.shape[1]
    # Rows of different lengths, because the processor mistakes a load for one of what was just stored 4 KiB away.
    a, sum_a = np.ones((queries + 1, width + 16), f32), np.empty((queries + 1, width + 112), f32)
    b, sum_b = np.empty((keys, width + 16), f32), np.empty((keys, width + 112), f32)
    row = np.empty(width, f32)  # dv is summed in two levels: T·S terms at one go would lose digits
    for item in range(first, last):
        n, part = item // parts, item % parts
        v, e, sum_v = weight[n % weight.shape[0], part], grad[n], grad_weight[n, part]
        direct = not (within(query[n], REACH) and within(key[n], REACH))
        for t in range(queries):
            load(query[n, t, part], direct, a[t])
        for s in range(keys):
            load(key[n, s, part], direct, b[s])
        fill(sum_a, ZERO)
        fill(sum_b, ZERO)
        fill(sum_v, ZERO)
        for t in range(0, queries, 1 if direct else 2):
            fill(row, ZERO)
            if direct:
                backward_direct(t, e, a, b, sum_a, sum_b, row)
            else:
                backward_pair(t, e, a, b, sum_a, sum_b, row)
            for d in range(width):
                sum_v[d] += row[d]
        for t in range(queries):
            product(v, sum_a[t], grad_query[n, t, part])
        for s in range(keys):
            product(v, sum_b[s], grad_key[n, s, part])


@compiled
def backward_direct(t, e, a, b, sum_a, sum_b, row):
    """What query t adds to the sums, from a = q and b = k."""
    for s in range(e.shape[1]):
        e_ts = e[t, s]
        for d in range(row.shape[0]):
            y = tanh(a[t, d] + b[s, d])
            g = e_ts * (ONE - y * y)
            row[d] += e_ts * y
            sum_a[t, d] += g
            sum_b[s, d] += g


@compiled
def backward_pair(t, e, a, b, sum_a, sum_b, row):
    """What queries t and t+1 add to the sums, from a = e^2q and b = e^2k. The partner of an odd last query adds 0."""
    for s in range(e.shape[1]):
        e_0 = e[t, s]
        e_1 = e[t + 1, s] if t + 1 < e.shape[0] else ZERO
        for d in range(row.shape[0]):
            x_0 = capped(a[t, d] * b[s, d] + ONE)
            x_1 = capped(a[t + 1, d] * b[s, d] + ONE)
            r = TWO / (x_0 * x_1)
            y_0, y_1 = ONE - r * x_1, ONE - r * x_0
            g_0, g_1 = e_0 * (ONE - y_0 * y_0), e_1 * (ONE - y_1 * y_1)
            row[d] += e_0 * y_0 + e_1 * y_1
            sum_a[t, d] += g_0
            sum_a[t + 1, d] += g_1
            sum_b[s, d] += g_0 + g_1


# Loops over the rows of keys and values, four or eight at once so that narrow ones fill vectors too, and then the
# rest. They are functions because LLVM makes less of them inside a larger one. Rows that follow each other are faster:
# those in a list have to be compared, one by one, with where the result is.


@compiled
def fetch(base, stride, first, last, width):
    """Have rows brought to the cache meanwhile, where they lie apart: the processor foresees only what follows."""
    for s in range(first, last):
        for line in range(0, width, LINE):
            hint(base + 4 * (s * stride + line))


@compiled
def dot(query, keys, a, width):
    """q·k of the key at a place."""
    total = ZERO
    for i in range(u64(width)):
        total += query[i] * keys[a + i]
    return total


@compiled
def square(query, keys, a, width):
    """‖q − k‖²."""
    total = ZERO
    for i in range(u64(width)):
        total += (query[i] - keys[a + i]) * (query[i] - keys[a + i])
    return total


@compiled
def dots_in_line(query, keys, stride, first, last, width, scores, at):
    """scores[at + s] = q·k of the s-th key, from first to last."""
    step, fours = u64(stride), u64(last - (last - first) % 4)
    for s in range(u64(first), fours, u64(4)):
        a = s * step
        b, c, d = a + step, a + u64(2) * step, a + u64(3) * step
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        for i in range(u64(width)):
            w += query[i] * keys[a + i]
            x += query[i] * keys[b + i]
            y += query[i] * keys[c + i]
            z += query[i] * keys[d + i]
        j = at + s
        scores[j], scores[j + u64(1)], scores[j + u64(2)], scores[j + u64(3)] = w, x, y, z
    for s in range(fours, u64(last)):
        scores[at + s] = dot(query, keys, s * step, width)


@compiled
def four_dots_in_line(query, apart, keys, stride, first, last, width, scores, at, wide):
    """`dots_in_line` for four queries that share keys: they lie ``apart``, and what they get ``wide`` apart."""
    step, twos, q = u64(stride), u64(last - (last - first) % 2), u64(apart)
    f, g, h = at + u64(wide), at + u64(2 * wide), at + u64(3 * wide)
    for s in range(u64(first), twos, u64(2)):
        a = s * step
        b = a + step
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        k, m, n, o = ZERO, ZERO, ZERO, ZERO
        for i in range(u64(width)):
            first_number, second_number = keys[a + i], keys[b + i]
            w += query[i] * first_number
            k += query[i] * second_number
            x += query[q + i] * first_number
            m += query[q + i] * second_number
            y += query[u64(2) * q + i] * first_number
            n += query[u64(2) * q + i] * second_number
            z += query[u64(3) * q + i] * first_number
            o += query[u64(3) * q + i] * second_number
        scores[at + s], scores[f + s], scores[g + s], scores[h + s] = w, x, y, z
        t = s + u64(1)
        scores[at + t], scores[f + t], scores[g + t], scores[h + t] = k, m, n, o
    for s in range(twos, u64(last)):
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        a = s * step
        for i in range(u64(width)):
            first_number = keys[a + i]
            w += query[i] * first_number
            x += query[q + i] * first_number
            y += query[u64(2) * q + i] * first_number
            z += query[u64(3) * q + i] * first_number
        scores[at + s], scores[f + s], scores[g + s], scores[h + s] = w, x, y, z


@compiled
def dots_of_rows(query, keys, stride, rows, first, last, width, scores, at):
    """The same of keys in a list: the s-th is row rows[s]. A loop that both called would be a tenth slower."""
    fours = u64(last - (last - first) % 4)
    for s in range(u64(first), fours, u64(4)):
        a, b = u64(rows[s] * stride), u64(rows[s + u64(1)] * stride)
        c, d = u64(rows[s + u64(2)] * stride), u64(rows[s + u64(3)] * stride)
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        for i in range(u64(width)):
            w += query[i] * keys[a + i]
            x += query[i] * keys[b + i]
            y += query[i] * keys[c + i]
            z += query[i] * keys[d + i]
        j = at + s
        scores[j], scores[j + u64(1)], scores[j + u64(2)], scores[j + u64(3)] = w, x, y, z
    for s in range(fours, u64(last)):
        scores[at + s] = dot(query, keys, u64(rows[s] * stride), width)


@compiled
def squares_of_rows(query, keys, stride, rows, first, last, width, scores, at):
    """‖q − k‖² of the same."""
    fours = u64(last - (last - first) % 4)
    for s in range(u64(first), fours, u64(4)):
        a, b = u64(rows[s] * stride), u64(rows[s + u64(1)] * stride)
        c, d = u64(rows[s + u64(2)] * stride), u64(rows[s + u64(3)] * stride)
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        for i in range(u64(width)):
            w += (query[i] - keys[a + i]) * (query[i] - keys[a + i])
            x += (query[i] - keys[b + i]) * (query[i] - keys[b + i])
            y += (query[i] - keys[c + i]) * (query[i] - keys[c + i])
            z += (query[i] - keys[d + i]) * (query[i] - keys[d + i])
        j = at + s
        scores[j], scores[j + u64(1)], scores[j + u64(2)], scores[j + u64(3)] = w, x, y, z
    for s in range(fours, u64(last)):
        scores[at + s] = square(query, keys, u64(rows[s] * stride), width)


@compiled
def additive_of_rows(query, keys, stride, rows, first, last, width, weight, scores, at):
    """v·tanh(q + k) of the same."""
    for s in range(u64(first), u64(last)):
        a, total = u64(rows[s] * stride), ZERO
        for i in range(u64(width)):
            total += weight[i] * tanh(query[i] + keys[a + i])
        scores[at + s] = total


@compiled
def add(out, values, a, depth, w):
    """out += w times the row at a place."""
    for e in range(u64(depth)):
        out[e] += w * values[a + e]


@compiled
def sum_in_line(out, values, stride, first, last, depth, scores, at):
    """out += scores[at + s] times the s-th row of the values, from first to last."""
    step, ahead = u64(stride), first if depth > NARROW else last - (last - first) % 8
    for s in range(u64(first), u64(ahead), u64(8)):
        a = s * step
        b, c, d = a + step, a + u64(2) * step, a + u64(3) * step
        f, g, h, k = a + u64(4) * step, a + u64(5) * step, a + u64(6) * step, a + u64(7) * step
        i = at + s
        p, q, r, t = scores[i], scores[i + u64(1)], scores[i + u64(2)], scores[i + u64(3)]
        w, x, y, z = scores[i + u64(4)], scores[i + u64(5)], scores[i + u64(6)], scores[i + u64(7)]
        for e in range(u64(depth)):
            left = (p * values[a + e] + q * values[b + e]) + (r * values[c + e] + t * values[d + e])
            right = (w * values[f + e] + x * values[g + e]) + (y * values[h + e] + z * values[k + e])
            out[e] += left + right
    fours = u64(last - (last - ahead) % 4)
    for s in range(u64(ahead), fours, u64(4)):
        a, i = s * step, at + s
        b, c, d = a + step, a + u64(2) * step, a + u64(3) * step
        w, x, y, z = scores[i], scores[i + u64(1)], scores[i + u64(2)], scores[i + u64(3)]
        for e in range(u64(depth)):
            out[e] += (w * values[a + e] + x * values[b + e]) + (y * values[c + e] + z * values[d + e])
    for s in range(fours, u64(last)):
        add(out, values, s * step, depth, scores[at + s])


@compiled
def four_sums_in_line(out, apart, values, stride, first, last, depth, scores, at, wide):
    """`sum_in_line` for four queries that share values: what they get lies ``apart``, their weights ``wide`` apart."""
    step, fours, o = u64(stride), u64(last - (last - first) % 4), u64(apart)
    f, g, h = at + u64(wide), at + u64(2 * wide), at + u64(3 * wide)
    for s in range(u64(first), fours, u64(4)):
        a = s * step
        b, c, d = a + step, a + u64(2) * step, a + u64(3) * step
        t, u, v = s + u64(1), s + u64(2), s + u64(3)
        w0, x0, y0, z0 = scores[at + s], scores[at + t], scores[at + u], scores[at + v]
        w1, x1, y1, z1 = scores[f + s], scores[f + t], scores[f + u], scores[f + v]
        w2, x2, y2, z2 = scores[g + s], scores[g + t], scores[g + u], scores[g + v]
        w3, x3, y3, z3 = scores[h + s], scores[h + t], scores[h + u], scores[h + v]
        for e in range(u64(depth)):
            i, j, k, m = values[a + e], values[b + e], values[c + e], values[d + e]
            out[e] += (w0 * i + x0 * j) + (y0 * k + z0 * m)
            out[o + e] += (w1 * i + x1 * j) + (y1 * k + z1 * m)
            out[u64(2) * o + e] += (w2 * i + x2 * j) + (y2 * k + z2 * m)
            out[u64(3) * o + e] += (w3 * i + x3 * j) + (y3 * k + z3 * m)
    for s in range(fours, u64(last)):
        for n in range(u64(4)):
            weight = scores[at + n * u64(wide) + s]
            for e in range(u64(depth)):
                out[n * o + e] += weight * values[s * step + e]


@compiled
def sum_of_rows(out, values, stride, rows, first, last, depth, scores, at):
    """The same of rows in a list."""
    fours = u64(last - (last - first) % 4)
    for s in range(u64(first), fours, u64(4)):
        a, b = u64(rows[s] * stride), u64(rows[s + u64(1)] * stride)
        c, d = u64(rows[s + u64(2)] * stride), u64(rows[s + u64(3)] * stride)
        i = at + s
        w, x, y, z = scores[i], scores[i + u64(1)], scores[i + u64(2)], scores[i + u64(3)]
        for e in range(u64(depth)):
            out[e] += (w * values[a + e] + x * values[b + e]) + (y * values[c + e] + z * values[d + e])
    for s in range(fours, u64(last)):
        add(out, values, u64(rows[s] * stride), depth, scores[at + s])


@compiled
def inside(start, width, keys):
    """The offsets low..high of a window that fall on existing keys, low <= high. ``start`` may be any integer."""
    start = min(max(start, -width), keys)
    return start, max(0, -start), max(0, -start, min(width, keys - start))


@compiled
def local_dot(first, last, query, key, starts, out):
    """Windows first..last of the N·T: out[w] = query · key[start + w]."""
    queries, width = out.shape[1:]
    for item in range(first, last):
        n, t = item // queries, item % queries
        start, low, high = inside(starts[n, t], width, key.shape[1])
        fill(out[n, t], ZERO)
        q = floats(query.ctypes.data + 4 * item * query.shape[2])
        keys = floats(key.ctypes.data + 4 * (n * key.shape[1] + start) * key.shape[2])
        dots_in_line(q, keys, key.shape[2], low, high, key.shape[2], out[n, t], u64(0))


@compiled
def local_sum(first, last, weights, value, starts, out):
    """Windows first..last of the N·T: out = Σ_w weights[w] value[start + w]."""
    queries, width = weights.shape[1:]
    for item in range(first, last):
        n, t = item // queries, item % queries
        start, low, high = inside(starts[n, t], width, value.shape[1])
        fill(out[n, t], ZERO)
        total = floats(out.ctypes.data + 4 * item * out.shape[2])
        values = floats(value.ctypes.data + 4 * (n * value.shape[1] + start) * value.shape[2])
        sum_in_line(total, values, value.shape[2], low, high, value.shape[2], weights[n, t], u64(0))


@compiled
def local_scatter(first, last, weights, rows, starts, out):
    """Items first..last of N·parts, columns cut as in `additive_backward`: out[start + w] += weights[w] row."""
    _, queries, width = weights.shape
    _, keys, parts, columns = out.shape
    for item in range(first, last):
        n, part = item // parts, item % parts
        for s in range(keys):
            fill(out[n, s, part], ZERO)
        for t in range(queries):
            start, low, high = inside(starts[n, t], width, keys)
            for w in range(low, high):
                weight = weights[n, t, w]
                for d in range(columns):
                    out[n, start + w, part, d] += weight * rows[n, t, part, d]


@compiled
def local_additive(first, last, query, key, weight, starts, out):
    """Windows first..last of the N·T: out[w] = weight · tanh(query + key[start + w])."""
    queries, width = out.shape[1:]
    for item in range(first, last):
        n, t = item // queries, item % queries
        start, low, high = inside(starts[n, t], width, key.shape[1])
        fill(out[n, t], ZERO)
        for w in range(low, high):
            out[n, t, w] = additive_row(query[n, t], key[n, start + w], weight[n % weight.shape[0]])


@compiled
def local_additive_backward(first, last, query, key, weight, starts, grad, grad_query, grad_key, grad_weight):
    """Items first..last of N·parts, columns cut as in `additive_backward`, which see."""
    queries, width = grad.shape[1:]
    _, keys, parts, columns = key.shape
    for item in range(first, last):
        n, part = item // parts, item % parts
        v = weight[n % weight.shape[0], part]
        fill(grad_weight[n, part], ZERO)
        for s in range(keys):
            fill(grad_key[n, s, part], ZERO)
        for t in range(queries):
            fill(grad_query[n, t, part], ZERO)
            start, low, high = inside(starts[n, t], width, keys)
            for w in range(low, high):
                s, e = start + w, grad[n, t, w]
                for d in range(columns):
                    y = tanh(query[n, t, part, d] + key[n, s, part, d])
                    g = e * v[d] * (ONE - y * y)
                    grad_query[n, t, part, d] += g
                    grad_key[n, s, part, d] += g
                    grad_weight[n, part, d] += e * y


@compiled
def scaled_in_place(scores, at, count, scale, out):
    """Scores from a place on times ``scale``, there and in ``out``."""
    for s in range(u64(count)):
        x = scores[at + s] * scale
        scores[at + s] = x
        out[s] = x


@compiled
def softmax_in_place(scores, first, count, sharpness):
    """The softmax of ``count`` scores in their place, and the logarithm of the sum of their exponentials."""
    top, a, b, c, total = NEVER, NEVER, NEVER, NEVER, ZERO
    for s in range(u64(first), u64(first + count - count % 4), u64(4)):  # four at a time do not wait for each other
        top = scores[s] if scores[s] > top else top  # NaN is left to the sum
        a = scores[s + u64(1)] if scores[s + u64(1)] > a else a
        b = scores[s + u64(2)] if scores[s + u64(2)] > b else b
        c = scores[s + u64(3)] if scores[s + u64(3)] > c else c
    for s in range(u64(first + count - count % 4), u64(first + count)):
        top = scores[s] if scores[s] > top else top
    top = max(top, a, b, c)
    for s in range(u64(first), u64(first + count)):
        scores[s] = exp((scores[s] - top) * sharpness)
        total += scores[s]
    share = ONE / total
    for s in range(u64(first), u64(first + count)):
        scores[s] *= share
    return top * sharpness + np.log(total)


@compiled
def single(first, last, kind, sizes, query, key, value, weight, allowed, place, scale, sharpness, scores, logs, out):
    """One query of each head, which looks at the S keys of its item. The unit of work is a batch item n, ``together``
    of its heads and a piece of the keys.

    Args:
        kind: how query and key are compared; a score is ``scale`` times that.
        sizes: heads, together, group, S, D, E. Heads go together where their rows lie side by side; as many heads as
            there are in a group share keys, values and weight.
        query, key, value, allowed: address and strides of n, head and key; without address everything is allowed.
        weight: address and stride of head.
        place: address, and strides of n and key: which row a key is. Without address it is the s-th.
        sharpness: 1/τ.
        scores, logs, out: addresses of (N, H, S), of (N, H, pieces), the logarithm of the sum of a piece's
            exponentials, if wanted, and of (N, H, pieces, E), the context of each piece by itself; there is none where
            E is 0.
    """
    heads, together, share, length, width, depth = sizes
    scale, sharpness = f32(scale), f32(sharpness)
    pieces, groups, wide = (length + PIECE - 1) // PIECE, heads // together, min(length, PIECE)
    block = PIECE if together == 1 else BLOCK
    rows = np.empty(wide, np.int64)
    weights = np.empty(together * wide, f32)  # scores and then weights, ``wide`` of each head
    for item in range(first, last):
        piece, group, n = item % pieces, item // pieces % groups, item // pieces // groups
        start, head = piece * PIECE, group * together
        count = min(length - start, PIECE)
        several = FOUR if kind == DOT and not place[0] and together % FOUR == share % FOUR == 0 else 1
        for s in range(count):
            rows[s] = start + s
        if place[0]:
            where = numbers(place[0] + 8 * (n * place[1] + start * place[2]))
            for s in range(count):
                rows[s] = where[s * place[2]]
        for s in range(0, count, block):
            end = min(s + block, count)
            for h in range(0, together, several):
                q = floats(query[0] + 4 * (n * query[1] + (head + h) * query[2]))
                base, at = key[0] + 4 * (n * key[1] + (head + h) // share * key[2]), u64(h * wide)
                if several > 1 and key[3] > width:
                    fetch(base + 4 * start * key[3], key[3], end, min(end + block, count), width)
                if several > 1:
                    keys = floats(base + 4 * start * key[3])
                    four_dots_in_line(q, query[2], keys, key[3], s, end, width, weights, at, wide)
                elif kind == DOT and place[0] == 0:
                    dots_in_line(q, floats(base + 4 * start * key[3]), key[3], s, end, width, weights, at)
                elif kind == DOT:
                    dots_of_rows(q, floats(base), key[3], rows, s, end, width, weights, at)
                elif kind == SQUARE:
                    squares_of_rows(q, floats(base), key[3], rows, s, end, width, weights, at)
                else:
                    v = floats(weight[0] + 4 * ((head + h) // share) * weight[1])
                    additive_of_rows(q, floats(base), key[3], rows, s, end, width, v, weights, at)
        for h in range(together):
            kept_scores = floats(scores + 4 * ((n * heads + head + h) * length + start))
            scaled_in_place(weights, u64(h * wide), count, scale, kept_scores)
        if depth == 0:
            continue
        allowed_count = count
        if allowed[0]:  # from here on, what may be attended is all there is
            permitted, allowed_count = flags(allowed[0] + n * allowed[1] + head * allowed[2] + start * allowed[3]), 0
            for s in range(count):
                if permitted[s * allowed[3]]:
                    rows[allowed_count] = rows[s]
                    for h in range(together):
                        weights[h * wide + allowed_count] = weights[h * wide + s]
                    allowed_count += 1
        for h in range(together):
            index = (n * heads + head + h) * pieces + piece
            total = softmax_in_place(weights, h * wide, allowed_count, sharpness) if allowed_count else NEVER
            if logs:
                floats(logs)[index] = total
            context = floats(out + 4 * index * depth)
            for e in range(depth):
                context[e] = ZERO
        lined = (
            place[0] == 0 and allowed_count > 0 and rows[allowed_count - 1] == start + allowed_count - 1
        )  # also where the rest is padding
        several = FOUR if lined and together % FOUR == share % FOUR == 0 else 1
        for s in range(0, allowed_count, block):
            end = min(s + block, allowed_count)
            for h in range(0, together, several):
                context = floats(out + 4 * ((n * heads + head + h) * pieces + piece) * depth)
                base, at = value[0] + 4 * (n * value[1] + (head + h) // share * value[2]), u64(h * wide)
                if several > 1 and value[3] > depth:
                    fetch(base + 4 * start * value[3], value[3], end, min(end + block, allowed_count), depth)
                if several > 1:
                    values, apart = floats(base + 4 * start * value[3]), pieces * depth
                    four_sums_in_line(context, apart, values, value[3], s, end, depth, weights, at, wide)
                elif lined:
                    sum_in_line(context, floats(base + 4 * start * value[3]), value[3], s, end, depth, weights, at)
                else:
                    sum_of_rows(context, floats(base), value[3], rows, s, end, depth, weights, at)
