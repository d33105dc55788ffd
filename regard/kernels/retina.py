"""What a retina sees, read where it lies: one pass over the batch and all scales, for float32 on the CPU.

The plain twin is in :mod:`regard.glimpses.retina`. An image that needs a gradient takes that one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import _pool

PIXEL = 0.6  # nanoseconds of one thread


def fits(location: Tensor, image: Tensor) -> bool:
    """May the fused pass be taken? Where the image has a gradient, or torch is tracing, the plain one is."""
    learned = torch.is_grad_enabled() and (image.requires_grad or location.requires_grad)
    return not torch.compiler.is_compiling() and not learned and kernels._fits_numba(location, image)


def read(location: Tensor, image: Tensor, size: int, scales: int) -> Tensor:
    """location (…, 2), image (…, C, H, W) → (…, C, scales, size, size)."""
    from regard.kernels import _retina_loops

    leading, channels = image.shape[:-3], image.shape[-3]
    items = math.prod(leading)
    out = image.new_empty(*leading, channels, scales, size, size)
    where, pixels = location.reshape(items, 2), image.reshape(items, channels, *image.shape[-2:])
    cost = PIXEL * out.numel() * 4 ** (scales - 1)
    _pool.run(_retina_loops.read, items, cost, *_pool.arrays(where, pixels, out.view(items, *out.shape[-4:])))
    return out
