from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from regard.attended import Attended
from regard.parts import Glimpse


class Bilinear(Glimpse):
    """Each place of a grid looks at the four pixels round it. Jaderberg et al. 2015, Spatial Transformer Networks
    (arXiv:1506.02025), eq. 5.

    V = Σₙₘ Uₙₘ max(0, 1 − |x − m|) max(0, 1 − |y − n|), with x and y in pixels. The grid holds (x, y) in [−1, 1],
    where −1 and 1 are the centres of the outer pixels, as in torch's ``affine_grid(…, align_corners=True)``. For a
    grid that was made with ``align_corners=False``, where they are the outer edges, say the same here. What lies
    outside the image is 0: a row of weights sums to 1 inside, to less beyond the outer pixels.
    Shapes: grid (…, height', width', 2), image (…, C, height, width) → context (…, C, height', width'),
    weights (…, height'·width', height·width), grid and pixels counted row by row.
    """

    equation = "Σₙₘ Uₙₘ max(0, 1 − |x − m|) max(0, 1 − |y − n|)"
    paper = "Jaderberg 2015 (STN)"
    example = (
        "grid = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 8, 8), align_corners=True)\n"
        "out = regard.glimpses.Bilinear()(grid, torch.rand(1, 1, 28, 28))"
    )

    def __init__(self, *, align_corners: bool = True):
        super().__init__()
        self.align_corners = align_corners

    def forward(self, grid: Tensor, image: Tensor) -> Attended:
        _check(grid, image)
        leading = image.shape[:-3]
        # Half precision cannot tell neighbouring pixels of a large image apart.
        dtype = torch.promote_types(torch.promote_types(grid.dtype, image.dtype), torch.float32)
        places, pixels = grid.to(dtype), image.to(dtype)

        def weights() -> Tensor:
            return self._kernel(places, image.shape[-2], image.shape[-1]).to(image.dtype)

        if grid.numel() and image.numel():
            items = math.prod(leading)
            seen = grid_sample(
                pixels.reshape(items, *pixels.shape[-3:]),
                places.reshape(items, *places.shape[-3:]),
                align_corners=self.align_corners,
            )
        else:  # grid_sample refuses images without pixels
            seen = pixels.flatten(-2) @ self._kernel(places, image.shape[-2], image.shape[-1]).mT
        context = seen.reshape(*leading, image.shape[-3], *grid.shape[-3:-1])
        return Attended(context.to(image.dtype), weights)

    def _kernel(self, grid: Tensor, height: int, width: int) -> Tensor:
        """(…, height'·width', height·width)."""

        def hats(place: Tensor, size: int) -> Tensor:
            pixel = (place + 1) / 2 * (size - 1) if self.align_corners else ((place + 1) * size - 1) / 2
            return (1 - (pixel.unsqueeze(-1) - torch.arange(size, device=grid.device)).abs()).clamp_min(0)

        x, y = grid.flatten(-3, -2).unbind(dim=-1)  # (…, height'·width')
        return (hats(y, height).unsqueeze(-1) * hats(x, width).unsqueeze(-2)).flatten(-2)

    def extra_repr(self) -> str:
        return "" if self.align_corners else "align_corners=False"


def _check(grid: Tensor, image: Tensor) -> None:
    if grid.ndim < 3 or grid.shape[-1] != 2:
        raise ValueError(f"a grid is (…, height, width, 2) with (x, y) last, not {tuple(grid.shape)}")
    if image.ndim < 3 or image.shape[:-3] != grid.shape[:-3]:
        raise ValueError(
            f"grid (…, height, width, 2) and image (…, C, height, width) must share their leading dimensions: "
            f"{tuple(grid.shape)} and {tuple(image.shape)}"
        )
    if image.device != grid.device:
        raise ValueError(f"grid is on {grid.device} but the image on {image.device}")
