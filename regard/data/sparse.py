"""Features of nodes, (N, F), strided or sparse CSR."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

SPARSE = 0.1
"""Features with a smaller share of nonzeros are kept sparse."""


def is_sparse(features: Tensor) -> bool:
    """Is it a sparse CSR tensor?"""
    return features.layout == torch.sparse_csr


def csr(starts: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor of float32."""
    parts = [torch.as_tensor(part) for part in (starts, columns, values)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        starts, places, numbers = parts[0].long(), parts[1].long(), parts[2].float()
        return torch.sparse_csr_tensor(starts, places, numbers, shape, check_invariants=True)


def compact(features: Tensor) -> Tensor:
    """Features as float32, sparse CSR if there is little in them."""
    if features.layout != torch.strided:
        whole = features.to_sparse_csr() if features.layout != torch.sparse_csr else features
        return csr(whole.crow_indices(), whole.col_indices(), whole.values(), tuple(features.shape))  # type: ignore[arg-type]
    if features.ndim == 2 and features.numel() and int(features.count_nonzero()) < SPARSE * features.numel():
        rows, columns = features.nonzero(as_tuple=True)
        counts = torch.bincount(rows, minlength=features.shape[0])
        return csr(starts_of(counts), columns, features[rows, columns], tuple(features.shape))  # type: ignore[arg-type]
    return features.float()


def rows_to_one(features: Tensor) -> Tensor:
    """Features divided by the sum of their row, where that is not 0."""
    total = sums(features)
    total = torch.where(total == 0, 1.0, total)
    if not is_sparse(features):
        return features / total[:, None]
    starts = features.crow_indices()
    scaled = features.values() / torch.repeat_interleave(total, starts.diff())
    return csr(starts, features.col_indices(), scaled, tuple(features.shape))  # type: ignore[arg-type]


def sums(features: Tensor) -> Tensor:
    """(N,), of each row."""
    if not is_sparse(features):
        return features.sum(1)
    counts = features.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return features.values().new_zeros(len(counts)).index_add_(0, row, features.values())


def take(features: Tensor, rows: Tensor) -> Tensor:
    """Some rows, in that order."""
    if not is_sparse(features):
        return features[rows]
    starts, columns, values = features.crow_indices(), features.col_indices(), features.values()
    counts = starts.diff()[rows]
    places = ranges(starts[rows].numpy(), counts.numpy())
    return csr(starts_of(counts), columns[places], values[places], (len(rows), features.shape[1]))


def stack(parts: Sequence[Tensor]) -> Tensor:
    """Features of several graphs, one below the other."""
    if not any(map(is_sparse, parts)):
        return torch.cat(list(parts))
    sparse = [part if is_sparse(part) else part.to_sparse_csr() for part in parts]
    counts = torch.cat([part.crow_indices().diff() for part in sparse])
    columns, values = (torch.cat([getattr(part, name)() for part in sparse]) for name in ("col_indices", "values"))
    return csr(starts_of(counts), columns, values, (len(counts), parts[0].shape[1]))


def starts_of(counts: Tensor) -> Tensor:
    """(N,) → (N + 1,): where the entries of each row begin, and where the last ones end."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …"""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts)
