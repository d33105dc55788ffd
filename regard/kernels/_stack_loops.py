"""A position of a whole stack of Transformer layers, compiled by numba for float32. Imported at first use only.

Tensors come as addresses, as in the loop over single queries that it calls. Weights are read in the order in which
linear layers store them, a row for each output, at the speed of the cache that holds them; several positions, of
different items, read them once.
"""

import numpy as np

from regard.kernels._loops import exp, single
from regard.kernels._pool import compiled, pointer

floats = pointer("float32")
f32, u64 = np.float32, np.uint64
ZERO, HALF, ONE, TWO = f32(0), f32(0.5), f32(1), f32(2)

# The rows of a layer's table: weight and bias of its norms and products. OWN and CROSS begin with what both have.
OWN, CROSS, THINK = 0, 5, 8
NORM, QUERY, OUT, KEY, VALUE = range(5)  # of OWN; CROSS has the first three
FIRST, SECOND = 1, 2  # of THINK
ROWS = 11
# What a layer's table of keys holds for its own keys and for those of a source, as `single` takes it.
KEYS, VALUES, ALLOWED, PLACE, LENGTH, TOGETHER, SCORES, PUT, LOOK = 0, 4, 8, 12, 15, 16, 17, 18, 22
OFFSET = f32(np.sqrt(0.5))
NEAR = 6144  # numbers of rows for which there is room beside weights

# 1 - erf(z) = (A1 t + … + A5 t⁵) e^(-z²), t = 1/(1 + P z), to 1.5e-7 for z >= 0: Abramowitz and Stegun 1964, 7.1.26.
P, A1, A2, A3 = map(f32, (0.3275911, 0.254829592, -0.284496736, 1.421413741))
A4, A5 = map(f32, (-1.453152027, 1.061405429))


@compiled
def one_product(w, x, width):
    """w·x."""
    total = ZERO
    for i in range(u64(width)):
        total += w[i] * x[i]
    return total


@compiled
def four_products(w, step, x, apart, width, out, o, away):
    """w·x of two rows of weights and four of x, added to four rows of out at o and behind it."""
    row, s, t, u = u64(step), u64(apart), u64(2 * apart), u64(3 * apart)
    a, b, c, d = ZERO, ZERO, ZERO, ZERO
    e, f, g, h = ZERO, ZERO, ZERO, ZERO
    for i in range(u64(width)):
        v, y = w[i], w[row + i]
        a += v * x[i]
        b += v * x[s + i]
        c += v * x[t + i]
        d += v * x[u + i]
        e += y * x[i]
        f += y * x[s + i]
        g += y * x[t + i]
        h += y * x[u + i]
    k, m, n, p = u64(o), u64(o + away), u64(o + 2 * away), u64(o + 3 * away)
    out[k] += a
    out[m] += b
    out[n] += c
    out[p] += d
    out[k + u64(1)] += e
    out[m + u64(1)] += f
    out[n + u64(1)] += g
    out[p + u64(1)] += h


@compiled
def two_products(w, x, apart, width, out, o, away):
    """w·x of a row of weights and two of x."""
    a, b, s = ZERO, ZERO, u64(apart)
    for i in range(u64(width)):
        a += w[i] * x[i]
        b += w[i] * x[s + i]
    out[u64(o)] += a
    out[u64(o + away)] += b


@compiled
def begin(bias, out, count):
    """out = bias, or zero without one."""
    if bias:
        b = floats(bias)
        for o in range(u64(count)):
            out[o] = b[o]
    else:
        for o in range(u64(count)):
            out[o] = ZERO


@compiled
def more(bias, out, count):
    """out += bias, if there is one."""
    if bias:
        b = floats(bias)
        for o in range(u64(count)):
            out[o] += b[o]


@compiled
def products(weight, x, apart, rows, width, out, away, start, count):
    """out[r] += W x[r] in the columns from start to count: addresses of W (count, width), and of rows that lie
    ``apart`` and ``away``. Rows go in blocks that the nearest cache holds beside the weights."""
    if rows == 1:
        result = floats(out)
        for o in range(start, count):
            result[u64(o)] += one_product(floats(weight + 4 * o * width), floats(x), width)
        return
    block = max(8, NEAR // width // 4 * 4)
    for first in range(0, rows, block):
        some = min(block, rows - first)
        products_of_few(weight, x + 4 * first * apart, apart, some, width, out + 4 * first * away, away, start, count)


@compiled
def products_of_few(weight, x, apart, rows, width, out, away, start, count):
    """`products` of one block."""
    fours = rows - rows % 4
    twos = rows - rows % 2
    for o in range(start, count, 2):
        w, pair = weight + 4 * o * width, min(2, count - o)
        if pair == 2:
            for r in range(0, fours, 4):
                into = floats(out + 4 * r * away)
                four_products(floats(w), width, floats(x + 4 * r * apart), apart, width, into, o, away)
        for k in range(pair):
            for r in range(fours if pair == 2 else 0, twos, 2):
                into = floats(out + 4 * r * away)
                two_products(floats(w + 4 * k * width), floats(x + 4 * r * apart), apart, width, into, o + k, away)
            if twos < rows:
                total = one_product(floats(w + 4 * k * width), floats(x + 4 * twos * apart), width)
                floats(out + 4 * twos * away)[u64(o + k)] += total


@compiled
def linear(table, x, apart, rows, width, out, away, count, add):
    """out[r] = W x[r] + b, or with ``add`` out[r] += W x[r] + b; weight and bias as in a layer's table."""
    for r in range(rows):
        if add:
            more(table[1], floats(out + 4 * r * away), count)
        else:
            begin(table[1], floats(out + 4 * r * away), count)
    products(table[0], x, apart, rows, width, out, away, 0, count)


@compiled
def layer_norm(table, eps, x, out, rows, width):
    """(x − mean) / √(variance + ε) · weight + bias of rows that follow each other; in place where x is out."""
    weight, bias = floats(table[0]), floats(table[1])
    for r in range(rows):
        a, b = floats(x + 4 * r * width), floats(out + 4 * r * width)
        total, square = ZERO, ZERO
        for i in range(u64(width)):
            total += a[i]
        mean = total / f32(width)
        for i in range(u64(width)):
            square += (a[i] - mean) * (a[i] - mean)
        scale = ONE / np.sqrt(square / f32(width) + eps)
        for i in range(u64(width)):
            b[i] = (a[i] - mean) * scale * weight[i] + bias[i]


@compiled
def gelu(x, count):
    """x Φ(x) in place, Φ the distribution function of a normal variable."""
    for i in range(u64(count)):
        v = x[i]
        z = abs(v) * OFFSET
        t = ONE / (ONE + P * z)
        tail = HALF * ((((A5 * t + A4) * t + A3) * t + A2) * t + A1) * t * exp(-z * z)
        x[i] = v * (tail if v < ZERO else ONE - tail)


@compiled
def relu(x, count):
    """max(x, 0) in place. NaN stays NaN."""
    for i in range(u64(count)):
        x[i] = ZERO if x[i] < ZERO else x[i]


@compiled
def turn(x, turns, heads, width):
    """Pairs of columns of each head turned by the angles of which ``turns`` has cos and sin."""
    by = floats(turns)
    for h in range(heads):
        row = floats(x + 4 * h * width)
        for i in range(u64(0), u64(width), u64(2)):
            a, b = row[i], row[i + u64(1)]
            row[i] = a * by[i] - b * by[i + u64(1)]
            row[i + u64(1)] = a * by[i + u64(1)] + b * by[i]


@compiled
def attend(first, last, look, heads, group, width, query, scale, scores, context):
    """softmax(scale q·k) v of the heads of rows first..last."""
    together, length = look[TOGETHER], look[LENGTH]
    sizes = (heads, together, group, length, width, width)
    where = (query, heads * width, width, width)
    keys = (look[0], look[1], look[2], look[3])
    values = (look[4], look[5], look[6], look[7])
    allowed = (look[8], look[9], look[10], look[11])
    place = (look[12], look[13], look[14])
    into = look[SCORES] if look[SCORES] else scores
    units, none = heads // together, (0, 0)
    single(
        *(first * units, last * units, 0, sizes, where, keys, values, none, allowed, place),
        *(scale, 1.0, into, 0, context),
    )


@compiled
def step(first, last, sizes, pre, gelus, eps, scale, turns, weights, looks, norm, x, work, out):
    """Rows first..last of one position through all layers.

    Args:
        sizes: rows, width, heads, group, width of a head, width of the feed-forward network.
        pre: are norms before sub-layers, and one after the last layer? Else they are after them.
        gelus: GELU or ReLU?
        turns: address of cos and sin of rotary positions, or 0.
        weights: (layers, ROWS, 2), addresses of weights and biases.
        looks: (layers, 2, LOOK), where keys and values of the layer's own rows and of the source are, the source
            without a length if there is none, and where the row's own key and value are put: PUT has two addresses
            and the strides from row to row.
        norm: (1, 2), the last norm.
        x: address of the rows, (N, width), which are overwritten.
        work: address of N · (3 width + hidden) numbers and as many as there are scores.
        out: address of the result, (N, width).
    """
    total, width, heads, group, depth, hidden = sizes
    eps, rows, shared = f32(eps), last - first, heads // group * depth
    place = 4 * first * width
    x, out = x + place, out + place
    normed, query = work + place, work + 4 * total * width
    context, wide = query + 4 * total * width, query + 8 * total * width + 4 * first * hidden
    scores = query + 8 * total * width + 4 * total * hidden
    for layer in range(weights.shape[0]):
        for kind in range(3):
            start = OWN if kind == 0 else CROSS if kind == 1 else THINK
            if weights[layer, start, 0] == 0:
                continue
            table, inputs = weights[layer, start:], x
            if pre:
                layer_norm(table[NORM], eps, x, normed, rows, width)
                inputs = normed
            if kind < 2:
                look = looks[layer, kind]
                linear(table[QUERY], inputs, width, rows, width, query + place, width, width, False)
                if kind == 0:
                    for side in range(2):
                        away = look[PUT + 2 + side]
                        into = look[PUT + side] + 4 * first * away
                        linear(table[KEY + side], inputs, width, rows, width, into, away, shared, False)
                    if turns:
                        turn(query + place, turns, rows * heads, depth)
                        for r in range(first, last):
                            turn(look[PUT] + 4 * r * look[PUT + 2], turns, heads // group, depth)
                attend(first, last, look, heads, group, depth, query, scale, scores, context)
                linear(table[OUT], context + place, width, rows, width, x, width, width, True)
            else:
                linear(table[FIRST], inputs, width, rows, width, wide, hidden, hidden, False)
                if gelus:
                    gelu(floats(wide), rows * hidden)
                else:
                    relu(floats(wide), rows * hidden)
                linear(table[SECOND], wide, hidden, rows, hidden, x, width, width, True)
            if not pre:
                layer_norm(table[NORM], eps, x, x, rows, width)
    if pre:
        layer_norm(norm[0], eps, x, out, rows, width)
    else:
        source, target = floats(x), floats(out)
        for i in range(u64(rows * width)):
            target[i] = source[i]


@compiled
def columns(first, last, piece, weight, bias, x, rows, width, out, count):
    """Pieces first..last of the columns of out (rows, count) = x Wᵀ + b."""
    start, end = first * piece, min(last * piece, count)
    for r in range(rows):
        begin(bias + 4 * start if bias else 0, floats(out + 4 * (r * count + start)), end - start)
    products(weight, x, width, rows, width, out, count, start, end)
