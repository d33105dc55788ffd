"""What a loss and a search ask of a vocabulary, in one pass over the logits, for float32 on the CPU."""

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


def trains(rows: Tensor, weight: Tensor) -> bool:
    """May a loss of logits rows·weight be computed, and its gradient, by :func:`errors_`? The products may be those of
    bfloat16; the small gradients of float16 need a larger loss, which is not known yet."""
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return False
    if not torch.is_autocast_enabled("cpu"):
        return kernels._fits_numba(rows, weight)
    supported = rows.dtype in (torch.float32, torch.bfloat16) and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return supported and kernels._fits_numba(weight)


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(N, V) → the ``count`` greatest entries of each row's log-softmax, greatest first, and where they are.

    NaN or +inf in a row, or nothing but −inf, makes its results NaN.
    """
    from regard.kernels import _text_loops

    log_prob = logits.new_empty(len(logits), count)
    which = torch.empty(len(logits), count, dtype=torch.int64)
    arrays = [*_pool.arrays(logits), log_prob.numpy(), which.numpy()]
    _pool.run(_text_loops.likeliest, len(logits), ENTRY * logits.numel(), *arrays)
    return log_prob, which


def errors_(logits: Tensor, wanted: Tensor, smoothing: float, learning: bool) -> Tensor:
    """(N, V) → (N, 3): −log p of ``wanted`` (N,), −Σ log p over the vocabulary, and 1 where nothing is likelier.

    If ``learning``, the logits are overwritten by the gradient of (1 − ε) · the first + ε/V · the second.
    """
    from regard.kernels import _text_loops

    out = logits.new_empty(len(logits), 3)
    arguments = (logits.numpy(), wanted.numpy(), _text_loops.f32(smoothing), learning, out.numpy())
    _pool.run(_text_loops.errors, len(logits), 2 * ENTRY * logits.numel(), *arguments)
    return out
