"""The loops of :mod:`regard.kernels.lstm`, compiled by numba for float32 arrays in C order. Imported at first use.

A loop over one gate of one row reads and writes few arrays, so that LLVM can tell them apart, and makes vectors of it.
"""

import numpy as np

from regard.kernels._pool import compiled
from regard.kernels._turing_loops import dot, exp, sigmoid, tanh

f32 = np.float32
ZERO, ONE, TWO = f32(0), f32(1), f32(2)
FAINT = f32(40)  # e to minus this is nothing beside a weight


@compiled
def cell(first, last, from_input, from_state, gates, before, after, states, begin):
    """from_input + from_state (B, 4H) are the sums of i, f, g and o, and gates their values; c → c', and h = o tanh c'
    comes into the states, from column ``begin`` on."""
    width = before.shape[1]
    for b in range(first, last):
        x, y, out = from_input[b], from_state[b], gates[b]
        squash(x[: 2 * width], y[: 2 * width], out[: 2 * width])
        bend(x[2 * width : 3 * width], y[2 * width : 3 * width], out[2 * width : 3 * width])
        squash(x[3 * width :], y[3 * width :], out[3 * width :])
        keep(out[:width], out[width : 2 * width], out[2 * width : 3 * width], before[b], after[b])
        show(out[3 * width :], after[b], states[b, begin : begin + width])


@compiled
def squash(x, y, out):
    """σ(x + y)."""
    for j in range(out.shape[0]):
        out[j] = sigmoid(x[j] + y[j])


@compiled
def bend(x, y, out):
    """tanh(x + y)."""
    for j in range(out.shape[0]):
        out[j] = tanh(x[j] + y[j])


@compiled
def keep(i, f, g, before, after):
    """c' = f c + i g."""
    for j in range(after.shape[0]):
        after[j] = f[j] * before[j] + i[j] * g[j]


@compiled
def show(o, c, h):
    """h = o tanh c."""
    for j in range(h.shape[0]):
        h[j] = o[j] * tanh(c[j])


@compiled
def cell_back(first, last, gates, before, after, grad, fed, begin, from_window, dc, out, limit):
    """The gradients of the sums, within ±limit; dc goes from c' to c. That of h is the sum of grad, of fed from column
    ``begin`` on, and of the window."""
    width = before.shape[1]
    for b in range(first, last):
        a, d, row = gates[b], dc[b], out[b]
        i, f, g, o = a[:width], a[width : 2 * width], a[2 * width : 3 * width], a[3 * width :]
        dh = row[:width]
        add(grad[b], fed[b, begin : begin + width], from_window[b], dh)
        show_back(o, after[b], dh, d, row[3 * width :], limit)
        squash_back(i, g, d, row[:width], limit)
        squash_back(f, before[b], d, row[width : 2 * width], limit)
        bend_back(g, i, d, row[2 * width : 3 * width], limit)
        for j in range(width):
            d[j] *= f[j]


@compiled
def add(x, y, z, out):
    """x + y + z."""
    for j in range(out.shape[0]):
        out[j] = x[j] + y[j] + z[j]


@compiled
def within(x, limit):
    """x, or ±limit where it is beyond."""
    return min(max(x, -limit), limit)


@compiled
def show_back(o, c, dh, dc, out, limit):
    """dc, and the gradient of o's sum."""
    for j in range(out.shape[0]):
        t = tanh(c[j])
        dc[j] += dh[j] * o[j] * (ONE - t * t)
        out[j] = within(dh[j] * t * o[j] * (ONE - o[j]), limit)


@compiled
def squash_back(y, factor, dc, out, limit):
    """The gradient of x where y = σ(x), and y·factor went into c'."""
    for j in range(out.shape[0]):
        out[j] = within(dc[j] * factor[j] * y[j] * (ONE - y[j]), limit)


@compiled
def bend_back(y, factor, dc, out, limit):
    """The same where y = tanh x."""
    for j in range(out.shape[0]):
        out[j] = within(dc[j] * factor[j] * (ONE - y[j] * y[j]), limit)


@compiled
def window(first, last, raw, before, after, codes, lengths, phi, context, begin, characters):
    """raw (B, 3K) moves κ; phi (B, U + 1) is over the characters and one place behind them. What they are, one-hot,
    comes into the context from column ``begin`` on."""
    mixtures = before.shape[1]
    for b in range(first, last):
        size, read = lengths[b], context[b, begin : begin + characters]
        phi[b] = ZERO
        read[:] = ZERO
        for k in range(mixtures):
            beta = np.exp(raw[b, mixtures + k])
            kappa = before[b, k] + np.exp(raw[b, 2 * mixtures + k])
            after[b, k] = kappa
            hill(np.exp(raw[b, k]), beta, kappa, phi[b, : size + 1])
        for u in range(size):
            read[codes[b, u]] += phi[b, u]


@compiled
def hill(alpha, beta, kappa, phi):
    """A Gaussian more."""
    for u in range(phi.shape[0]):
        d = kappa - f32(u)
        x = beta * d * d
        if x < FAINT:
            phi[u] += alpha * exp(-x)


@compiled
def window_back(first, last, raw, after, codes, lengths, grad, fed, dphi, dkappa, out):
    """The gradient of raw. That of the context is the sum of grad and of fed's first columns; dkappa holds that of κ
    for the steps to come, and gets this step's. dphi (B, U) is room."""
    mixtures = after.shape[1]
    for b in range(first, last):
        d = dphi[b, : lengths[b]]
        for u in range(d.shape[0]):
            d[u] = grad[b, codes[b, u]] + fed[b, codes[b, u]]
        for k in range(mixtures):
            alpha, beta = np.exp(raw[b, k]), np.exp(raw[b, mixtures + k])
            da, db, dk = hill_back(alpha, beta, after[b, k], d)
            dkappa[b, k] += dk
            out[b, k] = da
            out[b, mixtures + k] = db
            out[b, 2 * mixtures + k] = dkappa[b, k] * np.exp(raw[b, 2 * mixtures + k])


@compiled
def hill_back(alpha, beta, kappa, dphi):
    """The gradients of log α, log β and κ."""
    da, db, dk = ZERO, ZERO, ZERO
    for u in range(dphi.shape[0]):
        d = kappa - f32(u)
        x = beta * d * d
        if x < FAINT:
            e = dphi[u] * alpha * exp(-x)
            da += e
            db -= e * x
            dk -= TWO * e * beta * d
    return da, db, dk


@compiled
def sums(first, last, inputs, below, state, weight, recurrent, out):
    """What units first..last of a layer add up for their gates, (4H,), without their bias: of the inputs, of the
    state below, which the lowest layer has not, and of their own state."""
    width, size = len(state), len(inputs)
    x = np.empty(weight.shape[1], np.float32)
    x[:size] = inputs
    x[size:] = below
    for j in range(first, last):
        i, f, g, o = four(weight, j, width, x)
        more_i, more_f, more_g, more_o = four(recurrent, j, width, state)
        out[j], out[width + j] = i + more_i, f + more_f
        out[2 * width + j], out[3 * width + j] = g + more_g, o + more_o


@compiled
def four(weight, j, width, x):
    """x times the rows of a unit's four gates."""
    i, f, g, o = weight[j], weight[width + j], weight[2 * width + j], weight[3 * width + j]
    di, df, dg, do = ZERO, ZERO, ZERO, ZERO
    for k in range(len(x)):
        di += i[k] * x[k]
        df += f[k] * x[k]
        dg += g[k] * x[k]
        do += o[k] * x[k]
    return di, df, dg, do


@compiled
def linear(first, last, x, weight, bias, out):
    """Entries first..last of W x + b."""
    for r in range(first, last):
        out[r] = bias[r] + dot(weight[r], x)


@compiled
def draw(first, last, raw, noise, bias, least, correlation, out):
    """A point (B, 3) of a mixture (B, 1 + 6M): pen, weights, means x and y, log deviations x and y, correlations.
    noise (B, 4): two numbers between 0 and 1, which choose the Gaussian and the pen, and two normal ones."""
    mixtures = (raw.shape[1] - 1) // 6
    for b in range(first, last):
        sharp, low = ONE + bias[b], least
        top = raw[b, 1] * sharp
        for m in range(1, mixtures):
            top = max(top, raw[b, 1 + m] * sharp)
        total = ZERO
        for m in range(mixtures):
            total += exp(raw[b, 1 + m] * sharp - top)
        remaining, component = noise[b, 0] * total, mixtures - 1
        for m in range(mixtures):
            remaining -= exp(raw[b, 1 + m] * sharp - top)
            if remaining < ZERO:
                component = m
                break
        at = 1 + mixtures + component
        x, y = raw[b, at], raw[b, at + mixtures]
        sx = np.exp(max(raw[b, at + 2 * mixtures], low) - bias[b])
        sy = np.exp(max(raw[b, at + 3 * mixtures], low) - bias[b])
        rho = correlation * tanh(raw[b, at + 4 * mixtures])
        out[b, 0] = x + sx * noise[b, 2]
        out[b, 1] = y + sy * (rho * noise[b, 2] + np.sqrt(ONE - rho * rho) * noise[b, 3])
        out[b, 2] = ONE if noise[b, 1] < sigmoid(raw[b, 0] * sharp) else ZERO
