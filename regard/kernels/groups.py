"""Query heads that share keys: H = G·R heads of queries look at G heads of keys. Shazeer 2019 (arXiv:1911.02150) with
G = 1, Ainslie et al. 2023 (arXiv:2305.13245) for any G.

To a score, the R query heads of a key head are R·T queries of that head. So nothing is repeated, every score can do it,
and each key is read once for all of them. Elsewhere, in masks, normalizers and weights, heads are those of the queries.
"""

from __future__ import annotations

from torch import Tensor


def fold(rows: Tensor, group: int) -> Tensor:
    """(…, G·R, T, D) → (…, G, R·T, D), where ``group`` is R."""
    if group == 1:
        return rows
    return rows.unflatten(-3, (rows.shape[-3] // group, group)).flatten(-3, -2)


def unfold(rows: Tensor, group: int) -> Tensor:
    """(…, G, R·T, D) → (…, G·R, T, D)."""
    if group == 1:
        return rows
    return rows.unflatten(-2, (group, rows.shape[-2] // group)).flatten(-4, -3)


def repeat(rows: Tensor, group: int) -> Tensor:
    """(…, G, S, D) → (…, G·R, S, D): for each query head the keys it looks at, or what is known of them."""
    return rows if group == 1 else rows.repeat_interleave(group, dim=-3)


def some(allowed: Tensor, group: int) -> Tensor:
    """(…, G·R, T, S) → (…, G, T, S): what one of the query heads of a key head may attend. Heads of one stay one."""
    if group == 1 or allowed.shape[-3] == 1:
        return allowed
    return allowed.unflatten(-3, (allowed.shape[-3] // group, group)).any(dim=-3)
