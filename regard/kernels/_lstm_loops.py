"""The loops of :mod:`regard.kernels.lstm`, compiled by numba for float32 arrays. Imported at first use.

What lies in a row has stride 1; rows may lie apart, so that states can be written where the next matrix product reads
them.
"""

import numpy as np

from regard.kernels._pool import compiled
from regard.kernels._turing_loops import exp, sigmoid, tanh

f32 = np.float32
ZERO, ONE, TWO = f32(0), f32(1), f32(2)
FAINT = f32(40)  # e to minus this is nothing beside a weight


@compiled
def cell(first, last, gates, before, after, hidden):
    """Gates (B, 4H), the sums of i, f, g and o, become their values; c → c' and h = o tanh c'."""
    width = before.shape[1]
    for b in range(first, last):
        for j in range(width):
            i, f = sigmoid(gates[b, j]), sigmoid(gates[b, width + j])
            g, o = tanh(gates[b, 2 * width + j]), sigmoid(gates[b, 3 * width + j])
            c = f * before[b, j] + i * g
            gates[b, j], gates[b, width + j], gates[b, 2 * width + j], gates[b, 3 * width + j] = i, f, g, o
            after[b, j] = c
            hidden[b, j] = o * tanh(c)


@compiled
def cell_back(first, last, gates, before, after, dh, dc, out, limit):
    """The gradients of the sums, within ±limit; dc goes from c' to c."""
    width = before.shape[1]
    for b in range(first, last):
        for j in range(width):
            i, f, g, o = gates[b, j], gates[b, width + j], gates[b, 2 * width + j], gates[b, 3 * width + j]
            t = tanh(after[b, j])
            d = dc[b, j] + dh[b, j] * o * (ONE - t * t)
            dc[b, j] = d * f
            di, df = d * g * i * (ONE - i), d * before[b, j] * f * (ONE - f)
            dg, do = d * i * (ONE - g * g), dh[b, j] * t * o * (ONE - o)
            out[b, j] = min(max(di, -limit), limit)
            out[b, width + j] = min(max(df, -limit), limit)
            out[b, 2 * width + j] = min(max(dg, -limit), limit)
            out[b, 3 * width + j] = min(max(do, -limit), limit)


@compiled
def window(first, last, raw, before, after, codes, lengths, phi, context):
    """raw (B, 3K) moves κ; phi (B, U + 1) is over the characters and one place behind them, context (B, C) what they
    are, one-hot."""
    mixtures = before.shape[1]
    for b in range(first, last):
        size = lengths[b]
        for u in range(phi.shape[1]):
            phi[b, u] = ZERO
        for c in range(context.shape[1]):
            context[b, c] = ZERO
        for k in range(mixtures):
            beta = np.exp(raw[b, mixtures + k])
            kappa = before[b, k] + np.exp(raw[b, 2 * mixtures + k])
            after[b, k] = kappa
            alpha = np.exp(raw[b, k])
            for u in range(size + 1):
                x = beta * (kappa - u) * (kappa - u)
                if x < FAINT:
                    phi[b, u] += alpha * exp(-x)
        for u in range(size):
            context[b, codes[b, u]] += phi[b, u]


@compiled
def window_back(first, last, raw, after, codes, lengths, dcontext, dkappa, out):
    """The gradient of raw; dkappa holds that of κ for the steps to come, and gets this step's."""
    mixtures = after.shape[1]
    for b in range(first, last):
        for k in range(mixtures):
            alpha, beta = np.exp(raw[b, k]), np.exp(raw[b, mixtures + k])
            kappa = after[b, k]
            da, db, dk = ZERO, ZERO, ZERO
            for u in range(lengths[b]):
                d = kappa - f32(u)
                x = beta * d * d
                if x < FAINT:
                    e = dcontext[b, codes[b, u]] * alpha * exp(-x)
                    da += e
                    db -= e * x
                    dk -= TWO * e * beta * d
            dkappa[b, k] += dk
            out[b, k] = da
            out[b, mixtures + k] = db
            out[b, 2 * mixtures + k] = dkappa[b, k] * np.exp(raw[b, 2 * mixtures + k])


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
        wanted, chosen = noise[b, 0] * total, mixtures - 1
        for m in range(mixtures):
            wanted -= exp(raw[b, 1 + m] * sharp - top)
            if wanted < ZERO:
                chosen = m
                break
        at = 1 + mixtures + chosen
        x, y = raw[b, at], raw[b, at + mixtures]
        sx = np.exp(max(raw[b, at + 2 * mixtures], low) - bias[b])
        sy = np.exp(max(raw[b, at + 3 * mixtures], low) - bias[b])
        rho = correlation * tanh(raw[b, at + 4 * mixtures])
        out[b, 0] = x + sx * noise[b, 2]
        out[b, 1] = y + sy * (rho * noise[b, 2] + np.sqrt(ONE - rho * rho) * noise[b, 3])
        out[b, 2] = ONE if noise[b, 1] < sigmoid(raw[b, 0] * sharp) else ZERO


