"""A second opinion on attention along edges: loops in float64, written from the papers, without regard or torch.

Veličković et al. 2018 (1710.10903), eqs. 2-4: target i looks at the sources j of its edges,
α_ij = exp(e_ij) / Σ_k exp(e_ik), h'_i = Σ_j α_ij v_j, for each head apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Score = Callable[[Array, Array], list[float]]
"""(q, keys) → the scores of one query row, as in oracle.py."""


def attend(
    query: Array,
    key: Array,
    value: Array,
    edges: Sequence[tuple[int, int]],
    scores: Sequence[Score],
    normalizer: str = "softmax",
    temperature: float = 1.0,
    for_key: Array | None = None,
    for_value: Array | None = None,
) -> tuple[Array, Array, Array]:
    """query (N_t, H, D), key (N_s, H, D), value (N_s, H, F), edges (source, target), a score for each head →
    context (N_t, H, F), weights (E, H), scores (E, H). What is added to the key and to the value of each edge are
    for_key (E, H, D) and for_value (E, H, F)."""
    for_key = np.zeros((len(edges), *key.shape[1:])) if for_key is None else for_key
    for_value = np.zeros((len(edges), *value.shape[1:])) if for_value is None else for_value
    heads = query.shape[1]
    context = np.zeros((query.shape[0], heads, value.shape[2]))
    weights, found = np.zeros((len(edges), heads)), np.zeros((len(edges), heads))
    for h in range(heads):
        for i in range(query.shape[0]):
            mine = [e for e, (_, target) in enumerate(edges) if target == i]
            row = [scores[h](query[i, h], (key[edges[e][0], h] + for_key[e, h])[None])[0] for e in mine]
            if normalizer == "softmax":
                top = max(row, default=0.0)
                raised = [math.exp((x - top) / temperature) for x in row]
                each = [x / math.fsum(raised) for x in raised]
            else:
                each = [1 / (1 + math.exp(-x)) for x in row]
            for e, x, weight in zip(mine, row, each, strict=True):
                found[e, h], weights[e, h] = x, weight
                context[i, h] += weight * (value[edges[e][0], h] + for_value[e, h])
    return context, weights, found


def self_loops(edges: Sequence[tuple[int, int]], nodes: int) -> list[tuple[int, int]]:
    """The edges without those from a node to itself, and then one such for every node."""
    return [(s, t) for s, t in edges if s != t] + [(n, n) for n in range(nodes)]


def project(features: Array, weight: Array) -> Array:
    """features (E, K), weight (H, D, K) → (E, H, D), number by number."""
    heads, width, _ = weight.shape
    out = np.zeros((len(features), heads, width))
    for e, row in enumerate(features):
        for h in range(heads):
            for d in range(width):
                out[e, h, d] = math.fsum(x * w for x, w in zip(row, weight[h, d], strict=True))
    return out


def loop_features(features: Array, edges: Sequence[tuple[int, int]], nodes: int) -> Array:
    """Features as :func:`self_loops` has edges; a self-loop has the mean over the edges that come to its node."""
    kept = [row for row, (s, t) in zip(features, edges, strict=True) if s != t]
    for n in range(nodes):
        mine = [row for row, (s, t) in zip(features, edges, strict=True) if s != t and t == n]
        kept.append(sum(mine) / len(mine) if mine else np.zeros(features.shape[1]))
    return np.array(kept)


def reaches(edges: Sequence[tuple[int, int]], target: int) -> set[int]:
    """The sources that a target sees."""
    return {s for s, t in edges if t == target}
