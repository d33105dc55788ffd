"""Rows of ``regard bench vision`` about DRAW: reading and writing through filter banks, and a whole drawing, against
plain einsum with the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from regard.bench.measure import Case
from regard.glimpses import FilterBank
from regard.systems.draw import DRAW, Config


def cases() -> Iterator[Callable[[], Case]]:
    """Built one by one, so that only one's tensors are in memory."""
    yield partial(glimpse, 128, 28, 5)
    yield partial(glimpse, 128, 60, 12)
    yield partial(drawing, 128, 28)


def glimpse(batch: int, side: int, filters: int) -> Case:
    """A patch is read from an image and the same is written to another."""
    bank = FilterBank(filters)
    image = torch.rand(batch, 1, side, side)
    parameters = (0.2 * torch.randn(batch, 5)).requires_grad_()

    def ours() -> Tensor:
        return bank.write(parameters, bank(parameters, image).context, side, side)

    def eager() -> Tensor:
        return einsum_write(parameters, einsum_read(parameters, image, filters), side, side)

    work = f"DRAW read and write, B={batch} {side}×{side}, {filters}×{filters} filters"
    return Case(work, {"ours": ours, "eager": eager}, [parameters], "", tolerance=1e-3)


def drawing(batch: int, side: int, steps: int = 10) -> Case:
    """The bound of a batch of images and its gradients."""
    model = DRAW(Config(1, side, side, 10, steps=steps))
    data = {
        "image": torch.rand(batch, 1, side, side).round(),
        "noise": torch.randn(batch, steps, model.config.latent),
    }
    contenders: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: model(data)["loss"],
        "eager": partial(einsum_bound, model, data),
    }
    work = f"DRAW, {steps} steps, B={batch} {side}×{side}, {model.config.hidden} units"
    return Case(work, contenders, list(model.parameters()), "", ("forward+backward",), tolerance=1e-3)


def einsum_filters(parameters: Tensor, filters: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """F_Y and F_X, (B, N, side), and γ, as the paper's equations read."""
    x, y, log_variance, log_stride, log_gamma = parameters.split(1, 1)
    stride = (side - 1) / (filters - 1) * log_stride.exp()
    places = torch.arange(1, side + 1)
    banks = []
    for centre in (y, x):
        mean = (side + 1) / 2 * (centre + 1) + (torch.arange(filters) - filters / 2 + 0.5) * stride
        bank = torch.exp(-((places - mean[:, :, None]) ** 2) / (2 * log_variance.exp()[:, :, None]))
        banks.append(bank / bank.sum(2, keepdim=True).clamp_min(1e-8))
    return banks[0], banks[1], log_gamma.exp()[:, :, None, None]


def einsum_read(parameters: Tensor, image: Tensor, filters: int) -> Tensor:
    """(B, C, side, side) → (B, C, N, N)."""
    down, across, gamma = einsum_filters(parameters, filters, image.shape[-1])
    return gamma * torch.einsum("bnh,bchw,bmw->bcnm", down, image, across)


def einsum_write(parameters: Tensor, patch: Tensor, height: int, width: int) -> Tensor:
    """(B, C, N, N) → (B, C, height, width)."""
    down, across, gamma = einsum_filters(parameters, patch.shape[-1], max(height, width))
    return torch.einsum("bnh,bcnm,bmw->bchw", down, patch, across) / gamma


def einsum_bound(model: DRAW, data: dict[str, Tensor]) -> Tensor:
    """The same bound, written plainly."""
    image, config = data["image"], model.config
    side, batch = config.height, len(image)
    h_encoder, c_encoder = (state.expand(batch, -1) for state in model.encoder_start)
    h_decoder, c_decoder = (state.expand(batch, -1) for state in model.decoder_start)
    canvas, kl = model.canvas_start.expand_as(image), image.new_zeros(())
    for noise in data["noise"].unbind(1):
        place = model.read_place(h_decoder)
        error = image - torch.sigmoid(canvas)
        read = [einsum_read(place, picture, config.read).flatten(1) for picture in (image, error)]
        h_encoder, c_encoder = model.encoder(torch.cat([*read, h_decoder], 1), (h_encoder, c_encoder))
        mean, log_deviation = model.posterior(h_encoder).chunk(2, 1)
        kl = kl + 0.5 * (mean**2 + (2 * log_deviation).exp() - 2 * log_deviation - 1).sum()
        h_decoder, c_decoder = model.decoder(mean + log_deviation.exp() * noise, (h_decoder, c_decoder))
        patch = model.paint(h_decoder).reshape(batch, 1, config.write, config.write)
        canvas = canvas + einsum_write(model.write_place(h_decoder), patch, side, side)
    nll = functional.binary_cross_entropy_with_logits(canvas, image, reduction="sum")
    return (nll + kl) / batch
