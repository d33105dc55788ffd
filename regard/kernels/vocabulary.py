"""What a search asks of a vocabulary, in one pass over the logits, for float32 on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import _pool

ENTRY = 0.3  # nanoseconds of one thread


def fits(logits: Tensor) -> bool:
    """May the fused pass be taken? It has no gradient."""
    learned = torch.is_grad_enabled() and logits.requires_grad
    return not learned and not torch.compiler.is_compiling() and kernels._fits_numba(logits)


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(N, V) → the ``count`` greatest entries of each row's log-softmax, greatest first, and where they are.

    NaN or +inf in a row, or nothing but −inf, makes its results NaN.
    """
    from regard.kernels import _decoding_loops

    log_prob = logits.new_empty(len(logits), count)
    which = torch.empty(len(logits), count, dtype=torch.int64)
    given = [*_pool.arrays(logits), log_prob.numpy(), which.numpy()]
    _pool.run(_decoding_loops.likeliest, len(logits), ENTRY * logits.numel(), *given)
    return log_prob, which
