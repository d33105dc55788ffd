from __future__ import annotations

import torch
from torch import Tensor

from regard.attended import Attended
from regard.kernels import retina as kernel
from regard.parts import Glimpse


class Retina(Glimpse):
    """Sharp where it looks, coarser round it. Mnih et al. 2014, Recurrent Models of Visual Attention (arXiv:1406.6247).

    At a location l = (x, y), each from −1, the left or upper edge of the image, to 1, ``scales`` squares are seen, all
    with l in their middle. The first has ``size`` × ``size`` pixels, each further one twice the side; all are shown as
    ``size`` × ``size`` cells, the mean of the pixels in a cell. The squares lie on whole pixels: the upper left corner
    of one of side s is ⌊(l + 1)/2 · width − s/2 + ½⌋. What lies outside the image is 0, so that a row of weights sums
    to 1 inside and to less beyond the edges.

    Where it looks is a choice and not a number to be nudged: the gradient for the location is 0. That for the image is
    exact. On the CPU in float32, and where the image needs no gradient, one compiled loop reads just the pixels that
    are seen, so that time does not grow with the image.
    Shapes: location (…, 2), image (…, C, height, width) → context (…, C, scales, size, size), weights
    (…, scales·size·size, height·width), cells and pixels counted row by row.
    """

    equation = "mean of the pixels in cell (i, j) of the k-th square, of side 2ᵏ⁻¹·size, round l"
    paper = "Mnih 2014 (RAM)"
    example = "out = regard.glimpses.Retina(size=8, scales=3)(torch.zeros(2, 2), torch.rand(2, 1, 28, 28))"

    def __init__(self, size: int, scales: int = 1):
        super().__init__()
        if size < 1 or scales < 1:
            raise ValueError(f"a retina sees at least one pixel at one scale: size={size}, scales={scales}")
        self.size, self.scales = size, scales

    def forward(self, location: Tensor, image: Tensor) -> Attended:
        self._check(location, image)
        height, width, dtype = *image.shape[-2:], image.dtype

        def weights() -> Tensor:
            down, across = self._boxes(location, height, width)
            outer = down[..., :, None, :, None] * across[..., None, :, None, :]  # (…, K, N, N, height, width)
            return outer.flatten(-2).flatten(-4, -2).to(dtype)

        if kernel.fits(location, image):
            return Attended(kernel.read(location, image, self.size, self.scales), weights)
        down, across = (box.to(dtype).unsqueeze(-4) for box in self._boxes(location, height, width))
        return Attended(down @ image.unsqueeze(-3) @ across.mT, weights)

    def corners(self, location: Tensor, height: int, width: int) -> Tensor:
        """(…, scales, 2): row and column of the upper left pixel of each square; beyond the edges they go on."""
        # A place must be told from its neighbour in a large image; not every device knows float64.
        wide = torch.float64 if location.device.type == "cpu" else torch.promote_types(location.dtype, torch.float32)
        place = location.detach().to(wide)
        middle = torch.stack([(place[..., 1] + 1) * (height / 2), (place[..., 0] + 1) * (width / 2)], -1)
        halves = [self.size * 2**scale / 2 - 0.5 for scale in range(self.scales)]
        offset = torch.tensor(halves, dtype=wide, device=place.device)
        # Squares that are out of sight need not be told apart, and whole numbers have an end.
        reach = float(max(height, width) + self.size * 2**self.scales)
        return (middle.unsqueeze(-2) - offset.unsqueeze(-1)).floor().clamp(-reach, reach).nan_to_num().long()

    def _boxes(self, location: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """(…, scales, size, height) and (…, scales, size, width): the share of each row and column in a cell."""
        sides = 2 ** torch.arange(self.scales, device=location.device)  # of a cell
        steps = sides[:, None] * torch.arange(self.size, device=location.device)  # (K, N)
        # Nowhere is no place: not a number in, not a number out.
        wide = torch.promote_types(location.dtype, torch.float32)
        nowhere = (location.to(wide) * 0).sum(-1)[..., None, None, None]

        def box(corner: Tensor, pixels: int) -> Tensor:
            place = torch.arange(pixels, device=corner.device) - (corner.unsqueeze(-1) + steps).unsqueeze(-1)
            side = sides[:, None, None]
            return ((place >= 0) & (place < side)).to(wide) / side + nowhere

        y, x = self.corners(location, height, width).unbind(-1)  # (…, K)
        return box(y, height), box(x, width)

    def _check(self, location: Tensor, image: Tensor) -> None:
        if location.shape[-1:] != (2,):
            raise ValueError(f"a location is (…, 2), x and y, not {tuple(location.shape)}")
        if image.ndim < 3 or image.shape[:-3] != location.shape[:-1]:
            raise ValueError(
                f"location (…, 2) and image (…, C, height, width) must share their leading dimensions: "
                f"{tuple(location.shape)} and {tuple(image.shape)}"
            )
        if min(image.shape[-2:]) < self.size:
            raise ValueError(f"an image {tuple(image.shape)} is smaller than a glimpse of {self.size} × {self.size}")
        if image.device != location.device:
            raise ValueError(f"location is on {location.device} but the image on {image.device}")
