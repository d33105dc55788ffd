"""What a retina sees, read where it lies: one pass over the batch and all scales, for float32 on the CPU.

The plain twin is in :mod:`regard.glimpses.retina`. An image that needs a gradient takes that one.
"""

from __future__ import annotations

from torch import Tensor

from regard import kernels
from regard.kernels import _pool

PIXEL = 0.4  # nanoseconds of one thread


def fits(location: Tensor, image: Tensor) -> bool:
    """May the fused pass be taken? Where something has a gradient, or torch is tracing, the plain one is. Autocast
    would round the products of the plain one; pixels that are read stay as they are."""
    return kernels.bare(location, image, cast=False)


def read(location: Tensor, image: Tensor, size: int, scales: int) -> Tensor:
    """location (…, 2), image (…, C, H, W) → (…, C, scales, size, size)."""
    from regard.kernels import _retina_loops

    location, image = location.contiguous(), image.contiguous()
    *leading, channels, height, width = image.shape
    out = image.new_empty(*leading, channels, scales, size, size)
    cost = PIXEL * out.numel() * 4 ** (scales - 1)
    sizes, where = (channels, height, width, scales, size), (location.data_ptr(), image.data_ptr(), out.data_ptr())
    _pool.run(_retina_loops.read, location.numel() // 2, cost, sizes, *where)
    return out
