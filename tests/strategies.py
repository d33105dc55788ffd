"""Hypothesis strategies: shapes, masks and numbers for one attention call.

Hypothesis draws the shapes, which shrink to something one can read, and a seed. Whatever else there is to choose
(numbers, the kind of mask, parts) follows from the seed: hypothesis favours some choices and would visit others
rarely or never, while a seed is fair to all. Shapes are small: the oracle is loops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import oracle

BATCHES = ((), (1,), (2,), (3,), (2, 2), (1, 3))


@dataclass
class Problem:
    """Numbers for one call, as float64 arrays; ``mask`` has a public shape, ``rows`` is it written out."""

    batch: tuple[int, ...]
    query: np.ndarray  # (*batch, T, query_dim)
    key: np.ndarray  # (*batch, S, key_dim)
    value: np.ndarray  # (*batch, S, E)
    mask: np.ndarray | None
    rows: np.ndarray  # (*batch, T, S)
    seed: int

    @property
    def queries(self) -> int:
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        return self.key.shape[-2]

    def rng(self) -> np.random.Generator:
        """A generator of its own for further numbers, different from the one that made the inputs."""
        return np.random.default_rng((self.seed, 1))

    def __repr__(self) -> str:
        mask = None if self.mask is None else self.mask.astype(int).tolist()
        return (
            f"Problem(query={self.query.shape}, key={self.key.shape}, value={self.value.shape}, "
            f"mask={mask}, seed={self.seed})"
        )


def numbers(rng: np.random.Generator, shape: tuple[int, ...], style: str) -> np.ndarray:
    """normal, large (saturates tanh and softmax) or ties (small integers, so that scores coincide)"""
    if style == "ties":
        return rng.integers(-2, 3, shape).astype(float)
    return rng.normal(0, 4.0 if style == "large" else 1.0, shape)


def masks(rng: np.random.Generator, batch: tuple[int, ...], queries: int, keys: int) -> np.ndarray | None:
    """A mask in one of the public shapes; rows that allow nothing are likely."""
    kinds = ["none", "none", "keys", "causal", "dead"]
    kinds += ["padding", "batch", "full"] if batch else ["rows"]
    kinds += ["heads"] if len(batch) == 2 else []
    kind = rng.choice(kinds)
    density = rng.choice([0.2, 0.5, 0.8])

    def coin(*shape: int) -> np.ndarray:
        return rng.random(shape) < density

    match kind:
        case "none":
            return None
        case "keys":
            return coin(keys)
        case "dead":
            return np.zeros(keys, bool)
        case "causal":
            causal = oracle.mask_causal(queries, keys)
            return np.repeat(causal[None], batch[0], 0) if batch else causal
        case "rows":
            return coin(queries, keys)
        case "padding":
            return oracle.mask_lengths(rng.integers(0, keys + 1, batch[0]).tolist(), keys)
        case "batch":
            return coin(batch[0], keys)
        case "full":
            return coin(batch[0], queries, keys)
    return coin(*batch, queries, keys)


seeds = st.integers(0, 2**32 - 1)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    seed: int | None = None,
    same_width: bool = False,
    batches: tuple[tuple[int, ...], ...] = BATCHES,
    least: int = 1,
    most: int = 6,
    width: int | None = None,
    queries: int | None = None,
) -> Problem:
    """A call with T and S between ``least`` and ``most``. ``same_width``: queries are as wide as keys."""
    batch = draw(st.sampled_from(batches))
    queries = queries or draw(st.integers(least, most))
    keys = draw(st.integers(least, most))
    key_dim = width or draw(st.integers(1, 4))
    query_dim = key_dim if same_width or width else draw(st.integers(1, 4))
    seed = draw(seeds) if seed is None else seed
    rng = np.random.default_rng(seed)
    value_dim = int(rng.choice([key_dim, key_dim, 1, 3]))
    style = str(rng.choice(["normal", "normal", "large", "ties"]))
    mask = masks(rng, batch, queries, keys)
    return Problem(
        batch,
        numbers(rng, (*batch, queries, query_dim), style),
        numbers(rng, (*batch, keys, key_dim), style),
        numbers(rng, (*batch, keys, value_dim), "normal"),
        mask,
        oracle.mask_rows(mask, batch, queries, keys),
        seed,
    )
