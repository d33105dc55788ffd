"""The loops of the location-aware score, compiled by numba for float32 arrays in C order. Imported at first use only.

Filters come in rows of a length that vectors divide, filled up with zeros, and the weights of the query before with
zeros on either side, so that a convolution is a product of two stretches. Nothing of size S·D is written but the
gradient of the keys: the D numbers of a key stay in the nearest cache while they are needed. Helpers take whole arrays
and say which rows they mean, because a view of a row costs as much as some tens of its numbers.
"""

import numpy as np

from regard.kernels._loops import ONE, ZERO, fill, tanh
from regard.kernels._pool import compiled

f32 = np.float32
FOUR = 4  # keys, or features, that share a pass over what they add to


@compiled
def convolved(filters, padded, s, features, i):
    """features[:, i] = filters · padded[s:], the stretch of the weights around key s."""
    count, length = filters.shape
    near = padded[s : s + length]
    for f in range(count):
        total = ZERO
        for j in range(length):
            total += filters[f, j] * near[j]
        features[f, i] = total


@compiled
def mixed(key, s, features, i, mix, row):
    """row = key[s] + features[:, i] · mix: (S, D), (F, 4), (F, D) → (D,)."""
    count, width = mix.shape
    for d in range(width):
        row[d] = key[s, d]
    whole = count - count % FOUR
    for f in range(0, whole, FOUR):
        w, x, y, z = features[f, i], features[f + 1, i], features[f + 2, i], features[f + 3, i]
        for d in range(width):
            row[d] += w * mix[f, d] + x * mix[f + 1, d] + y * mix[f + 2, d] + z * mix[f + 3, d]
    for f in range(whole, count):
        x = features[f, i]
        for d in range(width):
            row[d] += x * mix[f, d]


@compiled
def scores(first, last, pieces, query, key, weight, padded, filters, mix, out):
    """Pieces first..last of the keys of N·pieces: out[n, t, s] = weight · tanh(query + key + mix · (filters ∗ padded)).

    query (N, T, D), key (N, S, D), weight (D,), padded (N, S + L + 2), filters (F, L), mix (F, D).
    """
    queries, width = query.shape[1:]
    keys = key.shape[1]
    features, row = np.empty((len(filters), 1), f32), np.empty(width, f32)
    for item in range(first, last):
        n, piece = item // pieces, item % pieces
        for s in range(keys * piece // pieces, keys * (piece + 1) // pieces):
            convolved(filters, padded[n], s, features, 0)
            mixed(key[n], s, features, 0, mix, row)
            for t in range(queries):
                total = ZERO
                for d in range(width):
                    total += weight[d] * tanh(query[n, t, d] + row[d])
                out[n, t, s] = total


@compiled
def sloped(grad, s, query, row, weight, i, curve, slope, grad_query, grad_weight):
    """The gradients of the scores of key s: of what tanh is taken of, to slope[i]; of queries and weight.

    In loops that each write to one array: of more, LLVM would not trust that they lie apart, and forgo vectors."""
    width = weight.shape[0]
    for t in range(query.shape[0]):
        e = grad[t, s]
        if e != ZERO:  # else it is masked, perhaps
            for d in range(width):
                curve[d] = tanh(query[t, d] + row[d])
            for d in range(width):
                grad_weight[d] += e * curve[d]
            for d in range(width):
                curve[d] = e * weight[d] * (ONE - curve[d] * curve[d])
            for d in range(width):
                grad_query[t, d] += curve[d]
            for d in range(width):
                slope[i, d] += curve[d]


@compiled
def back_to_features(slope, i, mix, back):
    """back[:, i] = mix · slope[i]."""
    count, width = mix.shape
    for f in range(count):
        total = ZERO
        for d in range(width):
            total += slope[i, d] * mix[f, d]
        back[f, i] = total


@compiled
def back_to_padded(grad_padded, s, filters, back, i):
    """grad_padded[s:] += back[:, i] · filters."""
    count, length = filters.shape
    near, whole = grad_padded[s : s + length], count - count % FOUR
    for f in range(0, whole, FOUR):
        w, x, y, z = back[f, i], back[f + 1, i], back[f + 2, i], back[f + 3, i]
        for j in range(length):
            near[j] += w * filters[f, j] + x * filters[f + 1, j] + y * filters[f + 2, j] + z * filters[f + 3, j]
    for f in range(whole, count):
        x = back[f, i]
        for j in range(length):
            near[j] += x * filters[f, j]


@compiled
def back_to_filters(grad_filters, padded, s, back):
    """grad_filters += back[:, i] · padded[s + i:], over four keys."""
    count, length = grad_filters.shape
    a, b, c, d = (padded[s : s + length], padded[s + 1 : s + 1 + length], padded[s + 2 :], padded[s + 3 :])
    for f in range(count):
        w, x, y, z = back[f, 0], back[f, 1], back[f, 2], back[f, 3]
        for j in range(length):
            grad_filters[f, j] += w * a[j] + x * b[j] + y * c[j] + z * d[j]


@compiled
def back_to_mix(grad_mix, features, slope):
    """grad_mix += features · slope: (F, 4), (4, D) → (F, D)."""
    count, width = grad_mix.shape
    for f in range(count):
        w, x, y, z = features[f, 0], features[f, 1], features[f, 2], features[f, 3]
        for d in range(width):
            grad_mix[f, d] += w * slope[0, d] + x * slope[1, d] + y * slope[2, d] + z * slope[3, d]


@compiled
def scores_backward(first, last, grad, query, key, weight, padded, filters, mix, into):
    """Items first..last of N. ``into`` are the gradients of all but grad, each with N rows of its own. Keys come in
    fours, so that what all of them add to is read and written once for four."""
    grad_query, grad_key, grad_weight, grad_padded, grad_filters, grad_mix = into
    width, keys, count = query.shape[2], key.shape[1], len(filters)
    features, back = np.empty((count, FOUR), f32), np.empty((count, FOUR), f32)
    row, curve, slope = np.empty(width, f32), np.empty(width, f32), np.empty((FOUR, width), f32)
    for n in range(first, last):
        fill(grad_query[n], ZERO)
        fill(grad_weight[n], ZERO)
        fill(grad_padded[n], ZERO)
        fill(grad_filters[n], ZERO)
        fill(grad_mix[n], ZERO)
        for start in range(0, keys, FOUR):
            fill(slope, ZERO)
            fill(features, ZERO)
            fill(back, ZERO)
            for i in range(min(FOUR, keys - start)):
                s = start + i
                convolved(filters, padded[n], s, features, i)
                mixed(key[n], s, features, i, mix, row)
                sloped(grad[n], s, query[n], row, weight, i, curve, slope, grad_query[n], grad_weight[n])
                for d in range(width):
                    grad_key[n, s, d] = slope[i, d]
                back_to_features(slope, i, mix, back)
                back_to_padded(grad_padded[n], s, filters, back, i)
            back_to_filters(grad_filters[n], padded[n], start, back)
            back_to_mix(grad_mix[n], features, slope)
