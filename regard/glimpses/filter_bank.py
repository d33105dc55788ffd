from __future__ import annotations

import torch
from torch import Tensor

from regard.attended import Attended
from regard.parts import Glimpse


class FilterBank(Glimpse):
    """An N×N grid of Gaussian filters over an image. Gregor et al. 2015, DRAW (arXiv:1502.04623), eqs. 19-29.

    Five numbers place the grid on an image of A×B (width × height) pixels: (g̃_X, g̃_Y, log σ², log δ̃, log γ).
    Its centre is g_X = (A + 1)/2 · (g̃_X + 1), likewise g_Y; its stride δ = (max(A, B) − 1)/(N − 1) · δ̃; filter
    i = 1 … N stands at μ_X = g_X + (i − N/2 − ½) δ, and F_X[i, a] = exp(−(a − μ_X)² / 2σ²) / Z. Pixels count from
    a = 1, so that g̃ = 0 is the middle of the image. Rows of F sum to 1, unless a filter lies so far outside that
    Z < 1e-8.

    Reading gives γ F_Y x F_Xᵀ, writing F_Yᵀ w F_X / γ. ``weights`` are without γ, so that their rows sum to 1; grid
    and pixels are counted row by row. Nothing is clamped: a network that emits the parameters should keep |log σ²|
    and |log δ̃| moderate, 6 say.
    Shapes: parameters (…, 5), image (…, C, height, width) ↔ patch (…, C, N, N), weights (…, N·N, height·width).
    """

    equation = "γ F_Y x F_Xᵀ, F[i, a] = exp(−(a − μᵢ)² / 2σ²) / Z"
    paper = "Gregor 2015 (DRAW)"
    example = "out = regard.glimpses.FilterBank(size=12)(torch.zeros(2, 5), torch.rand(2, 1, 28, 28))"

    def __init__(self, size: int):
        super().__init__()
        if size < 1:
            raise ValueError(f"a filter bank has at least one filter each way: size={size}")
        self.size = size

    def filters(self, parameters: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """F_Y (…, N, height), F_X (…, N, width) and γ (…,), in float32 or better."""
        if parameters.shape[-1:] != (5,):
            shape = tuple(parameters.shape)
            raise ValueError(f"parameters are (…, 5): g̃_X, g̃_Y, log σ², log δ̃ and log γ, not {shape}")
        # Half precision cannot tell neighbouring pixels apart, nor does it know 1e-8.
        wide = parameters.to(torch.promote_types(parameters.dtype, torch.float32))
        x, y, log_variance, log_stride, log_gamma = wide.unbind(dim=-1)
        stride = (max(width, height) - 1) / max(self.size - 1, 1) * log_stride.exp()  # one filter needs no stride
        variance = log_variance.exp()

        def bank(centre: Tensor, pixels: int) -> Tensor:
            steps = torch.arange(self.size, device=wide.device, dtype=wide.dtype) - self.size / 2 + 0.5
            mu = ((pixels + 1) / 2 * (centre + 1)).unsqueeze(-1) + steps * stride.unsqueeze(-1)  # (…, N)
            places = torch.arange(1, pixels + 1, device=wide.device)
            rows = torch.exp(-(places - mu.unsqueeze(-1)).square() / (2 * variance[..., None, None]))
            return rows / rows.sum(dim=-1, keepdim=True).clamp_min(1e-8)

        return bank(y, height), bank(x, width), log_gamma.exp()

    def forward(self, parameters: Tensor, image: Tensor) -> Attended:
        _check("image", parameters, image)
        filters = self.filters(parameters, image.shape[-2], image.shape[-1])
        down, across, gamma = (t.to(image.dtype) for t in filters)
        patch = down.unsqueeze(-3) @ image @ across.unsqueeze(-3).mT

        def weights() -> Tensor:
            outer = down[..., :, None, :, None] * across[..., None, :, None, :]  # (…, N, N, height, width)
            return outer.flatten(-2).flatten(-3, -2)

        return Attended(gamma[..., None, None, None] * patch, weights)

    def read(self, parameters: Tensor, image: Tensor) -> Attended:
        """The patch (…, C, N, N) that the grid sees in an image (…, C, height, width)."""
        out: Attended = self(parameters, image)
        return out

    def write(self, parameters: Tensor, patch: Tensor, height: int, width: int) -> Tensor:
        """The image (…, C, height, width) that paints a patch (…, C, N, N) where the grid stands."""
        _check("patch", parameters, patch)
        if tuple(patch.shape[-2:]) != (self.size, self.size):
            wanted = f"(…, C, {self.size}, {self.size})"
            raise ValueError(f"this FilterBank writes patches {wanted}, not {tuple(patch.shape)}")
        down, across, gamma = (t.to(patch.dtype) for t in self.filters(parameters, height, width))
        return (down.unsqueeze(-3).mT @ patch @ across.unsqueeze(-3)) / gamma[..., None, None, None]


def _check(name: str, parameters: Tensor, image: Tensor) -> None:
    if image.ndim < 3 or image.shape[:-3] != parameters.shape[:-1]:
        raise ValueError(
            f"parameters (…, 5) and {name} (…, C, height, width) must share their leading dimensions: "
            f"{tuple(parameters.shape)} and {tuple(image.shape)}"
        )
    if image.device != parameters.device:
        raise ValueError(f"parameters are on {parameters.device} but the {name} on {image.device}")
