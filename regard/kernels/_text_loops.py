"""The loops of systems that write, compiled by numba for float32 arrays in C order: over a vocabulary, and over the
keys of each hypothesis. Imported at first use only."""

import numpy as np

from regard.kernels._pool import compiled

f32 = np.float32
ZERO, HALF, ONE = f32(0), f32(0.5), f32(1)
LANES = 64  # sums and maxima side by side: their order within a lane is the written one, so that they vectorize
NEVER = f32(-np.inf)
LEAST = f32(-87)  # below it e^x is no normal number
LOG2_E = f32(1 / np.log(2))
LN2_HIGH = f32(0.693359375)  # nine bits, so that its product with an exponent is exact
LN2_LOW = f32(np.log(2) - 0.693359375)
C2, C3, C4, C5, C6, C7 = (f32(1 / c) for c in (2, 6, 24, 120, 720, 5040))


@compiled(reassociate=False)
def exp(x):
    """e^x for x <= 0: 2^n·e^f with |f| <= ln(2)/2, the share set in the exponent bits. NaN stays NaN."""
    y = LEAST if x < LEAST else x
    n = np.floor(y * LOG2_E + HALF)
    f = (y - n * LN2_HIGH) - n * LN2_LOW
    p = ((((((C7 * f + C6) * f + C5) * f + C4) * f + C3) * f + C2) * f + ONE) * f + ONE
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(f32)


@compiled
def insert(value, index, best, which):
    """Put a value among the best, greatest first; the last falls out."""
    place = best.shape[0] - 1
    while place > 0 and best[place - 1] < value:
        best[place], which[place] = best[place - 1], which[place - 1]
        place -= 1
    best[place], which[place] = value, index


@compiled
def threshold(row, whole, best, which):
    """A number that enough entries of a row reach: of the maxima of its lanes, the last that is wanted."""
    lanes = np.full(LANES, NEVER, f32)
    for first in range(0, whole, LANES):
        part = row[first : first + LANES]  # an index that cannot be negative, or nothing vectorizes
        for lane in range(LANES):
            lanes[lane] = part[lane] if part[lane] > lanes[lane] else lanes[lane]
    best[:] = NEVER
    for lane in range(LANES):
        if lanes[lane] > best[best.shape[0] - 1]:
            insert(lanes[lane], lane, best, which)
    return best[best.shape[0] - 1]


@compiled
def greatest(row, best, which):
    """The greatest entries of a row and where they are. Only a stretch in which one reaches a threshold is looked at
    entry by entry."""
    whole = row.shape[0] - row.shape[0] % LANES
    least = threshold(row, whole, best, which)
    best[:] = NEVER
    which[:] = 0
    for first in range(0, whole, LANES):
        part, reached = row[first : first + LANES], 0
        for lane in range(LANES):
            reached += part[lane] >= least
        if reached:
            for lane in range(LANES):
                if part[lane] > best[best.shape[0] - 1]:
                    insert(part[lane], first + lane, best, which)
    for index in range(whole, row.shape[0]):
        if row[index] > best[best.shape[0] - 1]:
            insert(row[index], index, best, which)


@compiled
def exponentials(row, top):
    """The sum of e^(x − top) over a row."""
    lanes = np.zeros(LANES, f32)
    whole = row.shape[0] - row.shape[0] % LANES
    for first in range(0, whole, LANES):
        part = row[first : first + LANES]
        for lane in range(LANES):
            lanes[lane] += exp(part[lane] - top)
    for index in range(whole, row.shape[0]):
        lanes[index - whole] += exp(row[index] - top)
    return lanes.sum()


@compiled(reassociate=False)
def likeliest(first, last, logits, log_prob, which):
    """The greatest log-softmax of rows first..last, and where they are."""
    for row in range(first, last):
        greatest(logits[row], log_prob[row], which[row])
        top = log_prob[row, 0]
        total = np.log(exponentials(logits[row], top))
        for place in range(log_prob.shape[1]):
            log_prob[row, place] = (log_prob[row, place] - top) - total


@compiled
def errors(first, last, logits, targets, smoothing, learning, out):
    """Of the rows first..last into out (N, 3): −log p of the targets, −Σ log p over the vocabulary, and whether
    nothing is likelier. If ``learning``, the logits become ∂loss/∂logits = p − (1 − ε)·targets − ε/V."""
    kinds = logits.shape[1]
    whole = kinds - kinds % LANES
    lanes, sums = np.empty(LANES, f32), np.empty(LANES, f32)
    best, which = np.empty(1, f32), np.empty(1, np.int64)
    for n in range(first, last):
        row = logits[n]
        top = threshold(row, whole, best, which)
        for index in range(whole, kinds):
            top = row[index] if row[index] > top else top
        lanes[:] = ZERO
        sums[:] = ZERO
        target_logit = row[targets[n]]
        for start in range(0, whole, LANES):
            part = row[start : start + LANES]
            for lane in range(LANES):
                x = part[lane] - top
                sums[lane] += x
                share = exp(x)
                lanes[lane] += share
                if learning:
                    part[lane] = share
        for index in range(whole, kinds):
            x = row[index] - top
            sums[index - whole] += x
            share = exp(x)
            lanes[index - whole] += share
            if learning:
                row[index] = share
        total = lanes.sum()
        out[n, 0] = np.log(total) + (top - target_logit)
        out[n, 1] = kinds * np.log(total) - sums.sum()
        out[n, 2] = target_logit >= top
        if learning:
            share, rest = ONE / total, smoothing / kinds
            for index in range(kinds):
                row[index] = row[index] * share - rest
            row[targets[n]] -= ONE - smoothing
