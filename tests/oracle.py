"""A second opinion: every equation as a float64 loop over math and numpy.

Written from the papers, never from the package: this file must not import regard or torch. Slow on purpose;
what it computes should be checkable against the PDF by eye. Functions work on ONE sequence (no batch), rows
are vectors: query (T, D), key (S, D), value (S, E), mask (T, S) of bools, True = may be attended.

A function here has the name of the part that it checks (``scaled_dot`` for ``ScaledDot``), so that the
contract tests find it. Parameters are plain numpy arrays passed by keyword.

* scores       ``name(q, keys, **parameters) -> [S scores]`` for one query row
* normalizers  ``name(scores, allowed, **parameters) -> [S weights]`` for one row
* windows      ``name(q, t, length, **parameters) -> position p``, beside ``name_factor(s, p, radius)``
* refiners     ``name(weights, allowed, previous, **extras) -> [S weights]`` for one row
* positions    ``name(row, place, **parameters) -> row`` for one query or key
* glimpses     see each function
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = Sequence[float]
Array = np.ndarray


# ---------------------------------------------------------------------------------------------------------
# small linear algebra, spelled out


def inner(a: Row, b: Row) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def matvec(matrix: Array, x: Row, bias: Row | None = None) -> list[float]:
    out = [inner(row, x) for row in matrix]
    return out if bias is None else [o + float(b) for o, b in zip(out, bias, strict=True)]


def distance(a: Row, b: Row) -> float:
    return math.sqrt(math.fsum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))


def norm(a: Row) -> float:
    return math.sqrt(inner(a, a))


def logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def log_logistic(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x >= 0 else x - math.log1p(math.exp(x))


# ---------------------------------------------------------------------------------------------------------
# scores: e_j = a(q, k_j)


def dot(q: Row, keys: Array) -> list[float]:
    """Luong et al. 2015 (1508.04025), eq. 8: e = q.k"""
    return [inner(q, k) for k in keys]


def scaled_dot(q: Row, keys: Array) -> list[float]:
    """Vaswani et al. 2017 (1706.03762), eq. 1: e = q.k / sqrt(d_k)"""
    return [inner(q, k) / math.sqrt(len(k)) for k in keys]


def general(q: Row, keys: Array, *, w: Array) -> list[float]:
    """Luong et al. 2015, eq. 8: e = q^T W k, W (query_dim, key_dim)"""
    return [math.fsum(float(q[i]) * inner(w[i], k) for i in range(len(q))) for k in keys]


def additive(q: Row, keys: Array, *, w: Array, v: Row) -> list[float]:
    """Bahdanau et al. 2015 (1409.0473), A.1.2, as Luong's concat: e = v.tanh(W [q; k])"""
    scores = []
    for k in keys:
        joined = [*q, *k]
        scores.append(math.fsum(float(v[h]) * math.tanh(inner(w[h], joined)) for h in range(len(v))))
    return scores


def perceptron(q: Row, keys: Array, *, w: Array, u: Array, v: Row) -> list[float]:
    """Bahdanau et al. 2015, A.1.2: e = v.tanh(W q + U k)"""
    wq = matvec(w, q)
    scores = []
    for k in keys:
        uk = matvec(u, k)
        scores.append(math.fsum(float(v[h]) * math.tanh(wq[h] + uk[h]) for h in range(len(v))))
    return scores


def concat(q: Row, keys: Array, *, w: Row) -> list[float]:
    """The lecture's degenerate form: e = w.[q; k]"""
    return [inner(w, [*q, *k]) for k in keys]


def cosine(q: Row, keys: Array, *, gain: float = 1.0) -> list[float]:
    """Graves et al. 2014 (1410.5401), eqs. 5-6: e = gain cos(q, k); a zero vector is like nothing, cos = 0"""
    scores = []
    for k in keys:
        size = norm(q) * norm(k)
        scores.append(gain * inner(q, k) / size if size > 0 else 0.0)
    return scores


def location(q: Row, keys: Array, *, w: Array) -> list[float]:
    """Luong et al. 2015, eq. 9: e_s = (W q)_s, W (max_length, query_dim), cut to the number of keys"""
    return [inner(w[s], q) for s in range(len(keys))]


def inverse_distance(q: Row, keys: Array, *, scale: float = 1.0) -> list[float]:
    """The weather stations: e = scale / |q - k|; closer than 1e-6 counts as 1e-6, so that it stays finite"""
    return [scale / max(distance(q, k), 1e-6) for k in keys]


def gaussian(q: Row, keys: Array, *, width: float = 1.0) -> list[float]:
    """Nadaraya 1964, Watson 1964: softmax of e = -|q - k|^2 / (2 width^2)"""
    return [-(distance(q, k) ** 2) / (2.0 * width**2) for k in keys]


def mlp(x: Row, layers: Sequence[tuple[Array, Row | None]]) -> list[float]:
    """Linear, ReLU, Linear, ReLU, ..., Linear"""
    h: list[float] = list(x)
    for i, (weight, bias) in enumerate(layers):
        h = matvec(weight, h, bias)
        if i + 1 < len(layers):
            h = [max(0.0, a) for a in h]
    return h


def mlp_dot(q: Row, keys: Array, *, phi: Sequence, psi: Sequence) -> list[float]:
    """Chan et al. 2015 (1508.01211), eq. 9: e = <phi(q), psi(k)>; MLPs are given as (weight, bias) pairs"""
    pq = mlp(q, phi)
    return [inner(pq, mlp(k, psi)) for k in keys]


def leaky(x: float, slope: float) -> float:
    return x if x > 0 else slope * x


def leaky_concat(q: Row, keys: Array, *, query: Row, key: Row, slope: float = 0.2) -> list[float]:
    """Velickovic et al. 2018 (1710.10903), eq. 3: e = LeakyReLU(a.[q; k]), a = [query; key]"""
    a = [*query, *key]
    return [leaky(inner(a, [*q, *k]), slope) for k in keys]


def leaky_additive(q: Row, keys: Array, *, v: Row, slope: float = 0.2) -> list[float]:
    """Brody et al. 2021 (2105.14491), eq. 7: e = a.LeakyReLU(q + k)"""
    return [math.fsum(float(v[d]) * leaky(float(q[d]) + float(k[d]), slope) for d in range(len(v))) for k in keys]


def location_aware(
    q: Row, keys: Array, *, w: Array, v: Array, u: Array, f: Array, out: Row, previous: Row
) -> list[float]:
    """Chorowski et al. 2015 (1506.07503), eqs. 8-9: e_j = out.tanh(W q + V k_j + U f_j), f = F * previous.

    f (filters, kernel) with odd kernel; torch's "convolution" is a correlation, and so is this one:
    f_j[c] = sum_r F[c, r] previous[j + r - kernel // 2], zero outside.
    """
    wq, n = matvec(w, q), len(keys)
    filters, kernel = f.shape
    scores = []
    for j, k in enumerate(keys):
        features = [
            math.fsum(
                float(f[c, r]) * float(previous[j + r - kernel // 2])
                for r in range(kernel)
                if 0 <= j + r - kernel // 2 < n
            )
            for c in range(filters)
        ]
        vk, uf = matvec(v, k), matvec(u, features)
        scores.append(math.fsum(float(out[h]) * math.tanh(wq[h] + vk[h] + uf[h]) for h in range(len(out))))
    return scores


# ---------------------------------------------------------------------------------------------------------
# normalizers: scores of the allowed keys become weights; every other weight is 0, a row without any is 0


def over_allowed(rule: Callable[..., list[float]]) -> Callable[..., list[float]]:
    """Apply a rule for a list of scores to the allowed ones, leaving 0 elsewhere."""

    def normalize(scores: Row, allowed: Sequence[bool], **parameters: Any) -> list[float]:
        picked = [s for s in range(len(scores)) if allowed[s]]
        out = [0.0] * len(scores)
        if picked:
            weights = rule([float(scores[s]) for s in picked], **parameters)
            for s, weight in zip(picked, weights, strict=True):
                out[s] = weight
        return out

    normalize.__name__, normalize.__doc__ = rule.__name__, rule.__doc__
    return normalize


def log_softmax(e: Row) -> list[float]:
    top = max(e)
    logsum = math.log(math.fsum(math.exp(x - top) for x in e))
    return [x - top - logsum for x in e]


@over_allowed
def softmax(e: Row, *, temperature: float = 1.0) -> list[float]:
    """a_i = exp(e_i / temperature) / sum"""
    return [math.exp(x) for x in log_softmax([x / temperature for x in e])]


def _threshold(mass: Callable[[float], float]) -> float:
    """The tau in [-1, 0] with mass(tau) = 1, for a decreasing mass, by bisection to the last bit."""
    low, high = -1.0, 0.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mass(middle) >= 1.0 else (low, middle)
    return 0.5 * (low + high)


@over_allowed
def sparsemax(e: Row) -> list[float]:
    """Martins & Astudillo 2016 (1602.02068), eq. 3: a_i = max(0, e_i - tau), tau so that they sum to 1"""
    z = [x - max(e) for x in e]
    tau = _threshold(lambda t: math.fsum(max(0.0, x - t) for x in z))
    return [max(0.0, x - tau) for x in z]


@over_allowed
def entmax15(e: Row) -> list[float]:
    """Peters et al. 2019 (1905.05702), eq. 10 with alpha = 1.5: a_i = max(0, e_i / 2 - tau)^2, sum 1"""
    z = [0.5 * (x - max(e)) for x in e]
    tau = _threshold(lambda t: math.fsum(max(0.0, x - t) ** 2 for x in z))
    return [max(0.0, x - tau) ** 2 for x in z]


@over_allowed
def sigmoid(e: Row) -> list[float]:
    """a_i = 1 / (1 + exp(-e_i)), each key on its own; a row sums to anything between 0 and S"""
    return [logistic(x) for x in e]


@over_allowed
def smoothed(e: Row) -> list[float]:
    """Chorowski et al. 2015, eq. 13: a_i = sigmoid(e_i) / sum_j sigmoid(e_j)"""
    logs = [log_logistic(x) for x in e]
    return [math.exp(x) for x in log_softmax(logs)]


def hard(scores: Row, allowed: Sequence[bool], *, observed: Row | None = None) -> list[float]:
    """Xu et al. 2015 (1502.03044), 4.1: one-hot on one allowed key: where ``observed`` weights say that the draw
    fell, by default the first best one"""
    out = [0.0] * len(scores)
    picked = [s for s in range(len(scores)) if allowed[s]]
    if picked:
        by = scores if observed is None else observed
        out[max(picked, key=lambda s: (float(by[s]), -s))] = 1.0
    return out


def hard_log_prob(scores: Row, allowed: Sequence[bool], *, observed: Row) -> float:
    """log softmax(e)_i of the drawn i among the allowed keys; 0 where there was nothing to draw"""
    picked = [s for s in range(len(scores)) if allowed[s]]
    if not picked:
        return 0.0
    drawn = hard(scores, allowed, observed=observed).index(1.0)
    return log_softmax([float(scores[s]) for s in picked])[picked.index(drawn)]


def gumbel(
    scores: Row,
    allowed: Sequence[bool],
    *,
    noise: Row | None = None,
    observed: Row | None = None,
    temperature: float = 1.0,
) -> list[float]:
    """Jang et al. 2017 (1611.01144), eq. 2: a = softmax((e + g) / temperature), g standard Gumbel noise, or the
    noise that ``observed`` weights tell of"""
    if observed is not None:
        noise = gumbel_noise(scores, observed, temperature=temperature)
    noisy = list(scores) if noise is None else [e + g for e, g in zip(scores, noise, strict=True)]
    return softmax(noisy, allowed, temperature=temperature)


def gumbel_noise(scores: Row, weights: Row, *, temperature: float = 1.0) -> list[float]:
    """The noise that led from scores to weights, up to a constant: temperature log a - e"""
    return [temperature * math.log(a) - float(e) if a > 0 else -1e300 for e, a in zip(scores, weights, strict=True)]


# ---------------------------------------------------------------------------------------------------------
# windows: a position p per query; a key s is a candidate iff |s - p| <= radius


def local_monotonic(q: Row, t: int, length: int) -> float:
    """Luong et al. 2015, 3.2, local-m: p_t = t"""
    return float(t)


def local_monotonic_factor(s: int, p: float, radius: int) -> float:
    return 1.0


def local_predictive(q: Row, t: int, length: int, *, w: Array, v: Row) -> float:
    """Luong et al. 2015, eq. 9 of 3.2, local-p: p_t = length sigmoid(v.tanh(W q))"""
    return length * logistic(math.fsum(float(v[h]) * math.tanh(inner(w[h], q)) for h in range(len(v))))


def local_predictive_factor(s: int, p: float, radius: int) -> float:
    """Luong et al. 2015, eq. 10: exp(-(s - p)^2 / (2 sigma^2)), sigma = radius / 2; not renormalized"""
    return math.exp(-((s - p) ** 2) / (2.0 * (radius / 2.0) ** 2))


# ---------------------------------------------------------------------------------------------------------
# refiners


def shift_sharpen(
    weights: Row, allowed: Sequence[bool], previous: Row, *, gate: float, shift: Row, sharpen: float
) -> list[float]:
    """Graves et al. 2014, eqs. 7-9, on the ring of the n allowed keys.

    w_g = gate w + (1 - gate) previous;  w_s(i) = sum_j w_g(i - j mod n) shift(j), j = -K//2 .. K//2;
    w(i) = w_s(i)^sharpen / sum.
    """
    ring = [s for s in range(len(weights)) if allowed[s]]
    n, half = len(ring), len(shift) // 2
    gated = [gate * weights[s] + (1.0 - gate) * previous[s] for s in ring]
    shifted = [math.fsum(float(shift[j + half]) * gated[(i - j) % n] for j in range(-half, half + 1)) for i in range(n)]
    out = [0.0] * len(weights)
    top = max(shifted, default=0.0)
    # w / top, so that large powers stay in range. Without any weight on the ring the paper has 0 / 0: all are alike.
    powers = [(w / top) ** sharpen if top > 0 else 1.0 for w in shifted]
    for s, power in zip(ring, powers, strict=True):
        out[s] = power / math.fsum(powers)
    return out


# ---------------------------------------------------------------------------------------------------------
# the recipe: window -> score -> mask -> normalize -> refine -> sum


@dataclass
class Seen:
    """What one call gives, for one sequence."""

    context: Array  # (T, E)
    weights: Array  # (T, S)
    scores: Array  # (T, S), every key, also those that may not be attended
    allowed: Array  # (T, S), where weights may be: mask and window, or what the mask leaves to a refiner
    candidates: Array  # (T, S), mask and window: the keys that were scored and normalized
    sound: Array  # (T,), False from where a refiner was given only crumbs, which rounding decides about


@dataclass
class Window:
    position: Callable[..., float]
    factor: Callable[[int, float, int], float]
    radius: int
    first: int = 0  # the t of the first query, for local-m


def attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    *,
    score: Callable[..., list[float]],
    normalizer: Callable[..., list[float]],
    window: Window | None = None,
    refiner: Callable[..., list[float]] | None = None,
    refiner_extras: Sequence[dict[str, Any]] | None = None,
    score_extras: Sequence[dict[str, Any]] | None = None,
    observed: Array | None = None,
    remembers: bool = False,
    start_score: Row | None = None,
    start_refiner: Row | None = None,
) -> Seen:
    """The whole recipe for one sequence, without dropout, one query after another.

    ``observed`` (T, S) weights tell a sampling normalizer what was drawn; this is for attentions without a refiner.
    ``remembers``: the score is given ``previous``, the weights of the query before (at first ``start_score``:
    uniform over the keys that the memory allows). The refiner gets its own previous weights (at first
    ``start_refiner``: one-hot on the first of them).
    """
    t_all, s_all, width = len(query), len(key), value.shape[1]
    mask = np.ones((t_all, s_all), bool) if mask is None else np.asarray(mask, bool)
    shapes = (t_all, width), (t_all, s_all), (t_all, s_all)
    out = Seen(*map(np.zeros, shapes), *(np.zeros((t_all, s_all), bool) for _ in range(2)), np.ones(t_all, bool))
    looked, refined = start_score, start_refiner
    for t in range(t_all):
        allowed = [bool(a) for a in mask[t]]
        factors = [1.0] * s_all
        if window is not None:
            p = window.position(query[t], t + window.first, sum(allowed))
            allowed = [allowed[s] and abs(s - p) <= window.radius for s in range(s_all)]
            factors = [window.factor(s, p, window.radius) if allowed[s] else 0.0 for s in range(s_all)]
        out.candidates[t] = allowed
        extras = dict(score_extras[t]) if score_extras is not None else {}
        if remembers:
            extras["previous"] = looked
        scores = score(query[t], key, **extras)
        drawn = {}
        if observed is not None:
            drawn["observed"] = [float(w) / f if f > 0 else 0.0 for w, f in zip(observed[t], factors, strict=True)]
        weights = normalizer(scores, allowed, **drawn)
        weights = [w * f for w, f in zip(weights, factors, strict=True)]
        if refiner is not None:
            # A refiner may move attention out of the window: only the mask says what is allowed to it.
            allowed = [bool(a) for a in mask[t]]
            given = max((max(weights[s], refined[s]) for s in range(s_all) if allowed[s]), default=1.0)
            out.sound[t:] &= given > 1e-9
            weights = refiner(weights, allowed, refined, **(refiner_extras[t] if refiner_extras else {}))
        looked = refined = weights
        out.scores[t], out.weights[t], out.allowed[t] = scores, weights, allowed
        for s in range(s_all):
            for e in range(width):
                if allowed[s]:
                    out.context[t, e] += weights[s] * float(value[s, e])
    return out


def uniform_start(allowed: Sequence[bool]) -> list[float]:
    n = sum(map(bool, allowed))
    return [1.0 / n if a else 0.0 for a in allowed]


def first_start(allowed: Sequence[bool]) -> list[float]:
    out = [0.0] * len(allowed)
    for s, a in enumerate(allowed):
        if a:
            out[s] = 1.0
            break
    return out


def multi_head(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    *,
    heads: int,
    scores: Sequence[Callable[..., list[float]]],
    normalizer: Callable[..., list[float]],
    project: dict[str, tuple[Array, Row | None]],
    key_heads: int | None = None,
) -> tuple[Array, Array]:
    """Vaswani et al. 2017, 3.2.2: heads attend in slices of the projected width, are joined and projected.

    With ``key_heads`` below ``heads``, query head h looks at key head floor(h * key_heads / heads) (Ainslie et al.
    2023, 2305.13245, section 2.2).

    ``project`` holds (weight, bias) for query, key, value, out; weights are (to, from). ``mask`` is (T, S) or
    (H, T, S). Returns context (T, dim) and weights (H, T, S).
    """
    rows = {
        name: np.array([matvec(project[name][0], row, project[name][1]) for row in array]).reshape(len(array), -1)
        for name, array in (("query", query), ("key", key), ("value", value))
    }
    count = {"query": heads, "key": key_heads or heads, "value": key_heads or heads}
    widths = {name: project[name][0].shape[0] // count[name] for name in rows}
    contexts, weights = [], []
    for h in range(heads):
        q, k, v = (
            rows[n].reshape(len(rows[n]), count[n], widths[n])[:, h * count[n] // heads]
            for n in ("query", "key", "value")
        )
        seen = attend(
            q,
            k,
            v,
            mask[h] if mask is not None and mask.ndim == 3 else mask,
            score=scores[h],
            normalizer=normalizer,
        )
        contexts.append(seen.context)
        weights.append(seen.weights)
    joined = np.concatenate(contexts, 1)
    weight, bias = project["out"]
    context = np.array([matvec(weight, row, bias) for row in joined]).reshape(len(query), weight.shape[0])
    return context, np.array(weights)


# ---------------------------------------------------------------------------------------------------------
# positions: where queries and keys stand


def rotary(row: Row, place: float, *, base: float = 10000.0, halves: bool = False) -> list[float]:
    """Su et al. 2021 (2104.09864), eqs. 14-15: each pair of columns is multiplied by the matrix of a rotation"""
    width = len(row)
    out = [0.0] * width
    for i in range(width // 2):
        one, two = (i, i + width // 2) if halves else (2 * i, 2 * i + 1)
        angle = place * base ** (-2 * i / width)
        out[one] = math.cos(angle) * float(row[one]) - math.sin(angle) * float(row[two])
        out[two] = math.sin(angle) * float(row[one]) + math.cos(angle) * float(row[two])
    return out


# ---------------------------------------------------------------------------------------------------------
# glimpses: attention by position


def mixture_window(h: Array, length: int, *, w: Array, b: Row, start: Row | None = None) -> tuple[Array, Array]:
    """Graves 2013 (1308.0850), eqs. 46-51: (a^, b^, k^) = W h + b; phi(u) = sum a exp(-b (kappa - u)^2).

    Positions u = 0 .. length - 1. ``h`` (T, D), ``w`` (3K, D). Returns weights (T, length) and kappa (K,)
    after the last row; kappa starts at 0 and grows by exp(k^). Nothing is normalized over u.
    """
    mixtures = w.shape[0] // 3
    kappa = [0.0] * mixtures if start is None else [float(x) for x in start]
    phi = np.zeros((len(h), length))
    for t, row in enumerate(h):
        raw = matvec(w, row, b)
        alpha = [math.exp(x) for x in raw[:mixtures]]
        beta = [math.exp(x) for x in raw[mixtures : 2 * mixtures]]
        kappa = [k + math.exp(x) for k, x in zip(kappa, raw[2 * mixtures :], strict=True)]
        for u in range(length):
            phi[t, u] = math.fsum(alpha[k] * math.exp(-beta[k] * (kappa[k] - u) ** 2) for k in range(mixtures))
    return phi, np.array(kappa)


def filter_bank(parameters: Row, size: int, height: int, width: int) -> tuple[Array, Array, float]:
    """Gregor et al. 2015 (1502.04623), eqs. 19-26: F_Y (N, height), F_X (N, width) and the intensity gamma.

    ``parameters`` = (g~_X, g~_Y, log variance, log stride, log gamma). Pixels are counted from 1, as in the
    paper: (A + 1) / 2 is the middle of 1..A.
    """
    gx_, gy_, log_variance, log_stride, log_gamma = (float(x) for x in parameters)
    gx, gy = (width + 1) / 2 * (gx_ + 1), (height + 1) / 2 * (gy_ + 1)
    # A single filter has stride 1 / (N - 1) = 1 / 0, which multiplies i - N/2 - 1/2 = 0: any number will do.
    stride = (max(width, height) - 1) / max(size - 1, 1) * math.exp(log_stride)
    variance = math.exp(log_variance)

    def bank(centre: float, pixels: int) -> Array:
        rows = np.zeros((size, pixels))
        for i in range(1, size + 1):
            mu = centre + (i - size / 2 - 0.5) * stride
            row = [math.exp(-((a - mu) ** 2) / (2 * variance)) for a in range(1, pixels + 1)]
            total = max(math.fsum(row), 1e-8)
            rows[i - 1] = [x / total for x in row]
        return rows

    return bank(gy, height), bank(gx, width), math.exp(log_gamma)


def filter_bank_read(image: Array, parameters: Row, size: int) -> Array:
    """gamma F_Y x F_X^T, (N, N), of an image (height, width)"""
    fy, fx, gamma = filter_bank(parameters, size, *image.shape)
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            out[i, j] = gamma * math.fsum(
                fy[i, y] * image[y, x] * fx[j, x] for y in range(image.shape[0]) for x in range(image.shape[1])
            )
    return out


def filter_bank_write(patch: Array, parameters: Row, height: int, width: int) -> Array:
    """F_Y^T w F_X / gamma, (height, width), of a patch (N, N)"""
    size = patch.shape[0]
    fy, fx, gamma = filter_bank(parameters, size, height, width)
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            out[y, x] = math.fsum(fy[i, y] * patch[i, j] * fx[j, x] for i in range(size) for j in range(size)) / gamma
    return out


def bilinear(x: float, y: float, height: int, width: int) -> Array:
    """Jaderberg et al. 2015 (1506.02025), eq. 5: max(0, 1 - |x - m|) max(0, 1 - |y - n|), in pixels"""
    out = np.zeros((height, width))
    for n in range(height):
        for m in range(width):
            out[n, m] = max(0.0, 1 - abs(x - m)) * max(0.0, 1 - abs(y - n))
    return out


def to_pixels(z: float, size: int, *, align_corners: bool = False) -> float:
    """A normalized coordinate in [-1, 1] in pixels counted from 0: -1 and 1 are the outer edges of the image,
    or with ``align_corners`` the centres of its outer pixels."""
    return (z + 1) / 2 * (size - 1) if align_corners else ((z + 1) * size - 1) / 2


def bilinear_read(image: Array, grid: Array, *, align_corners: bool = False) -> Array:
    """Sample an image (height, width) at ``grid`` (..., 2) of normalized (x, y); outside it is 0"""
    height, width = image.shape
    out = np.zeros(grid.shape[:-1])
    for index in np.ndindex(*grid.shape[:-1]):
        x = to_pixels(float(grid[index][0]), width, align_corners=align_corners)
        y = to_pixels(float(grid[index][1]), height, align_corners=align_corners)
        kernel = bilinear(x, y, height, width)
        out[index] = math.fsum(kernel[n, m] * image[n, m] for n in range(height) for m in range(width))
    return out


def affine_grid(theta: Array, height: int, width: int, *, align_corners: bool = False) -> Array:
    """Jaderberg et al. 2015, eq. 1: (x_s, y_s) = theta (x_t, y_t, 1) for each target pixel"""

    def centre(i: int, size: int) -> float:
        if align_corners:
            return -1.0 + 2.0 * i / (size - 1) if size > 1 else 0.0
        return (2.0 * i + 1.0) / size - 1.0

    out = np.zeros((height, width, 2))
    for i in range(height):
        for j in range(width):
            out[i, j] = matvec(theta, [centre(j, width), centre(i, height), 1.0])
    return out


def spatial_transformer(theta: Row, kind: str, x: float, y: float, points: int = 4) -> tuple[float, float]:
    """Jaderberg et al. 2015, section 3.2: where the place (x, y) of the output looks. ``theta`` is what moves it:
    all 0 is the identity."""
    t = [float(number) for number in theta]
    if kind == "attention":
        return (1 + t[0]) * x + t[1], (1 + t[0]) * y + t[2]
    if kind in ("affine", "projective"):
        w = max(t[6] * x + t[7] * y + 1, 0.05) if kind == "projective" else 1.0
        return ((1 + t[0]) * x + t[1] * y + t[2]) / w, (t[3] * x + (1 + t[4]) * y + t[5]) / w
    line = [-1 + 2 * i / (points - 1) for i in range(points)]
    control = [(p, q) for q in line for p in line]

    def basis(at: tuple[float, float]) -> list[float]:
        distances = [math.hypot(at[0] - p, at[1] - q) for p, q in control]
        return [r**2 * math.log(r) if r else 0.0 for r in distances] + [1.0, *at]

    count = len(control)
    system = np.zeros((count + 3, count + 3))
    for i, place in enumerate(control):
        system[i] = basis(place)
        system[count:, i] = system[i, count:]
    moved = []
    for axis in (0, 1):
        ends = [place[axis] + t[2 * i + axis] for i, place in enumerate(control)] + [0.0, 0.0, 0.0]
        coefficients = np.linalg.solve(system, np.array(ends))
        moved.append(math.fsum(c * b for c, b in zip(coefficients, basis((x, y)))))
    return moved[0], moved[1]


# ---------------------------------------------------------------------------------------------------------
# masks, True = may be attended


def mask_lengths(lengths: Sequence[int], size: int) -> Array:
    """(B, S): key s of sequence b is there iff s < lengths[b]"""
    return np.array([[s < n for s in range(size)] for n in lengths], bool).reshape(len(lengths), size)


def mask_causal(queries: int, keys: int) -> Array:
    """(T, S), aligned to the end: the last query sees every key, each one before it one key fewer"""
    return np.array([[s - (keys - queries) <= t for s in range(keys)] for t in range(queries)], bool).reshape(
        queries, keys
    )


def mask_window(queries: int, keys: int, radius: int) -> Array:
    """(T, S): |t + (S - T) - s| <= radius, query and key positions aligned to the end as for causal"""
    return np.array(
        [[abs(t + keys - queries - s) <= radius for s in range(keys)] for t in range(queries)], bool
    ).reshape(queries, keys)


def mask_segments(ids: Sequence[int], queries: int) -> Array:
    """(T, S): T queries at the last of S places see the keys with the same number, unless that is negative"""
    last = list(ids)[len(ids) - queries :]
    found = [[mine == other and other >= 0 for other in ids] for mine in last]
    return np.array(found, bool).reshape(queries, len(ids))


def mask_rows(mask: Array | None, batch: tuple[int, ...], queries: int, keys: int) -> Array:
    """Any mask the public rule allows, written out as (*batch, T, S).

    Rank decides: (S,), (B, S), (B, T, S), (B, H, T, S); missing dimensions are inserted after B. Without a
    batch, two dimensions are (T, S).
    """
    if mask is None:
        return np.ones((*batch, queries, keys), bool)
    mask = np.asarray(mask, bool)
    if batch and mask.ndim == 2:
        mask = mask.reshape(mask.shape[0], *([1] * len(batch)), mask.shape[1])
    elif batch and mask.ndim == 3:
        mask = mask.reshape(mask.shape[0], *([1] * (len(batch) - 1)), *mask.shape[1:])
    return np.array(np.broadcast_to(mask, (*batch, queries, keys)))


def retina(location: Row, size: int, scales: int, height: int, width: int) -> Array:
    """Mnih et al. 2014 (1406.6247), the sensor: scales squares round a place, each twice as wide as the one before,
    shown as size x size cells; weights (scales, size, size, height, width), the mean of a cell. Outside is nothing."""
    x, y = (float(z) for z in location)
    out = np.zeros((scales, size, size, height, width))
    for k in range(scales):
        cell = 2**k
        left = math.floor((x + 1) / 2 * width - size * cell / 2 + 0.5)
        top = math.floor((y + 1) / 2 * height - size * cell / 2 + 0.5)
        for row, column in np.ndindex(size * cell, size * cell):
            if 0 <= top + row < height and 0 <= left + column < width:
                out[k, row // cell, column // cell, top + row, left + column] = 1 / cell**2
    return out
