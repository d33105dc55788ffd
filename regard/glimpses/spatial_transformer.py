from __future__ import annotations

import torch
from torch import Tensor, nn

from regard._lazy import nearest
from regard.attended import Attended
from regard.glimpses.bilinear import Bilinear
from regard.parts import Glimpse


class SpatialTransformer(Glimpse):
    """A network looks at an image and says where to look: out comes the image as seen through a moved, turned or bent
    grid. Jaderberg, Simonyan, Zisserman & Kavukcuoglu 2015 (arXiv:1506.02025).

    θ = identity + localizer(U); the grid of the output, (xₜ, yₜ) in [−1, 1], is carried to (xₛ, yₛ) = T_θ(xₜ, yₜ), and
    there :class:`Bilinear` reads U. In PyTorch it stands before any layer that takes images::

        localizer = nn.Sequential(nn.Flatten(), nn.LazyLinear(32), nn.ReLU(), nn.Linear(32, 6))
        network = nn.Sequential(regard.SpatialTransformer(localizer, size=28), classifier)

    ==============  =========================================================  ==========
    kind            T_θ                                                        localizer
    ==============  =========================================================  ==========
    ``affine``      θ₁x + θ₂y + θ₃,  θ₄x + θ₅y + θ₆                            6
    ``attention``   s x + a,  s y + b, with θ = (s, a, b)                      3
    ``projective``  as affine, both divided by θ₇x + θ₈y + 1                   8
    ``thin_plate``  the smoothest map that moves ``points``² places by θ       2 ``points``²
    ==============  =========================================================  ==========

    A thin plate spline interpolates θ = (Δx, Δy) of a regular grid of control points, row by row, in the output's
    coordinates: φ(r) = r² log r and a plane, solved once.

    The localizer's last layer must be a ``Linear`` with as many outputs; it starts at 0, so that at first nothing
    moves. What lies behind the horizon of a projection (its denominator below 0.05) is pushed out of sight. An image
    that is read at far fewer places than it has pixels loses those between them: pool it first.

    Args:
        localizer: a module, image (…, C, height, width) → θ less identity (…, numbers).
        kind: affine, attention, projective or thin_plate.
        size: of the output, (height, width) or one number for both; the image's own if None.
        points: control points of a thin plate each way.
        align_corners: whether ±1 are the centres of the outer pixels, not their edges; torch's ``affine_grid`` and
            ``grid_sample`` have the same default.

    Shapes: image (…, C, height, width) → (…, C, height', width'). :meth:`look` gives the same as an ``Attended``, with
    weights (…, height'·width', height·width).
    """

    equation = "V = Bilinear(T_θ(grid), U), θ = identity + localizer(U)"
    paper = "Jaderberg 2015 (STN)"
    example = (
        "localizer = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 6))\n"
        "seen = regard.SpatialTransformer(localizer, size=28)(torch.rand(2, 1, 28, 28))"
    )

    def __init__(
        self,
        localizer: nn.Module,
        kind: str = "affine",
        size: int | tuple[int, int] | None = None,
        *,
        points: int = 4,
        align_corners: bool = False,
    ):
        super().__init__()
        self.kind, self.points, self.numbers = kind, points, numbers(kind, points)
        self.size = (size, size) if isinstance(size, int) else size
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise ValueError(f"size is (height, width) of the output, each at least 1, not {size}")
        self.localizer = localizer
        self.sampler = Bilinear(align_corners=align_corners)
        if kind == "thin_plate":
            self._spline = _spline(points)  # no buffer: it stays float64 when the module is cast
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The localizer's last layer 0: identity."""
        layers = [layer for layer in self.localizer.modules() if not list(layer.children())]
        last = layers[-1] if layers else self.localizer
        if not isinstance(last, nn.Linear) or last.out_features != self.numbers:
            raise ValueError(
                f"the localizer of a SpatialTransformer of kind {self.kind!r} must end in a Linear with {self.numbers} "
                f"outputs, not in {last}"
            )
        for parameter in last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, image: Tensor) -> Tensor:
        return self.look(image).context

    def look(self, image: Tensor) -> Attended:
        """The image as it is seen, and the weights of its pixels."""
        out: Attended = self.sampler(self.grid(image), image)
        return out

    def grid(self, image: Tensor) -> Tensor:
        """Where in the image each place of the output looks, (…, height', width', 2) with (x, y) last."""
        if image.ndim < 3:
            raise ValueError(f"a SpatialTransformer takes an image (…, C, height, width), not {tuple(image.shape)}")
        theta = self.localizer(image)
        wanted = (*image.shape[:-3], self.numbers)
        if theta.shape != wanted:
            raise ValueError(
                f"the localizer made {tuple(theta.shape)} of an image {tuple(image.shape)}: it should be {wanted}"
            )
        return self.place(theta, self.size or (image.shape[-2], image.shape[-1]))

    def place(self, theta: Tensor, size: tuple[int, int]) -> Tensor:
        """The grid (…, height', width', 2) of what a localizer says, (…, numbers)."""
        theta = theta.to(torch.promote_types(theta.dtype, torch.float32))[..., None, None, :]  # beside the grid
        target = self._target(size, theta)
        x, y = target.unbind(-1)  # each (height', width')
        if self.kind == "thin_plate":
            moves = theta.unflatten(-1, (-1, 2))[..., 0, 0, :, :]  # (…, K, 2)
            warped = _radial(target.reshape(-1, 2), self.points) @ self._spline.to(theta)
            return target + (warped @ moves).unflatten(-2, size)
        if self.kind == "attention":
            scale, shift = 1 + theta[..., :1], theta[..., 1:]
            return scale * target + shift
        a, b, c, d, e, f = theta[..., :6].unbind(-1)
        moved = torch.stack([x + a * x + b * y + c, y + d * x + e * y + f], -1)
        if self.kind == "affine":
            return moved
        depth = 1 + theta[..., 6] * x + theta[..., 7] * y
        return moved / depth.clamp_min(0.05).unsqueeze(-1)

    def _target(self, size: tuple[int, int], like: Tensor) -> Tensor:
        """The centres of the output's pixels, (height', width', 2)."""

        def centres(count: int) -> Tensor:
            steps = torch.arange(count, device=like.device, dtype=like.dtype)
            if self.sampler.align_corners:
                return 2 * steps / (count - 1) - 1 if count > 1 else torch.zeros_like(steps)
            return (2 * steps + 1) / count - 1

        y, x = torch.meshgrid(centres(size[0]), centres(size[1]), indexing="ij")
        return torch.stack([x, y], -1)

    def extra_repr(self) -> str:
        shown = [f"kind={self.kind!r}", f"size={self.size}"]
        return ", ".join(shown + [f"points={self.points}"] * (self.kind == "thin_plate"))


def numbers(kind: str, points: int = 4) -> int:
    """How many numbers a localizer gives to a transformer of a kind."""
    counts = {"affine": 6, "attention": 3, "projective": 8, "thin_plate": 2 * points**2}
    if kind not in counts:
        raise ValueError(f"no spatial transformer is of the kind {kind!r}: {nearest(kind, counts)}")
    if kind == "thin_plate" and points < 2:
        raise ValueError(f"a thin plate needs at least 2 control points each way: points={points}")
    return counts[kind]


def _control(points: int) -> Tensor:
    """(K, 2): a regular grid over [−1, 1]², row by row."""
    line = torch.linspace(-1, 1, points, dtype=torch.float64)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x, y], -1).reshape(-1, 2)


def _radial(places: Tensor, points: int) -> Tensor:
    """φ of the distance to each control point, then 1, x, y: (M, 2) → (M, K + 3)."""
    control = _control(points).to(places)
    square = (places[:, None] - control).square().sum(-1)
    phi = torch.xlogy(square / 2, square)  # r² log r, and 0 at 0
    return torch.cat([phi, torch.ones_like(places[:, :1]), places], -1)


def _spline(points: int) -> Tensor:
    """(K + 3, K): what the spline's coefficients are for given moves of the control points."""
    control = _control(points)
    count = len(control)
    system = torch.zeros(count + 3, count + 3, dtype=torch.float64)
    system[:count] = _radial(control, points)
    system[count:, :count] = system[:count, count:].T
    return torch.linalg.inv(system)[:, :count]
