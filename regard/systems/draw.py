"""DRAW: a network that paints a picture in several strokes, looking at a part of it at a time.

Gregor, Danihelka, Graves, Rezende & Wierstra 2015, *DRAW: A Recurrent Neural Network For Image Generation*
(arXiv:1502.04623).

An encoder sees the picture x and the error image x̂, what the canvas c still lacks; a decoder paints. In each of T
steps (eqs. 3-8)

    x̂ₜ = x − σ(cₜ₋₁),  rₜ = read(x, x̂ₜ, hᵈₜ₋₁),  hᵉₜ = LSTM(hᵉₜ₋₁, [rₜ, hᵈₜ₋₁])
    zₜ ~ N(μ(hᵉₜ), σ(hᵉₜ)²),  hᵈₜ = LSTM(hᵈₜ₋₁, zₜ),  cₜ = cₜ₋₁ + write(hᵈₜ)

Reading and writing go through N×N Gaussian filters (:class:`regard.glimpses.FilterBank`), which the decoder's state
places, spaces and sharpens: the filters are the queries, the places of pixels the keys, pixels the values. Writing
uses the transpose of a second such grid. Without ``attention`` the whole picture is read and written.

The loss is the variational bound in nats per picture, −log p(x | σ(c_T)) + Σₜ KL(zₜ ‖ N(0, 1)) (eqs. 9-12), of pixels
that are 0 or 1. New pictures are sampled by the decoder alone, from z ~ N(0, 1).

``goal = "classify"`` is the paper's section 3: one LSTM reads the image T times, and its last state gives the class.

Deviations: log σ², log δ̃ and log γ are kept within ±6 by a tanh. At first the N×N filters cover the picture evenly, so
that a grid as coarse as 2×2 sees more than the corners, and forget gates are open; the paper leaves both open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._lazy import nearest
from regard._settings import at_least
from regard.glimpses import FilterBank
from regard.layers.use import Use

Batch = dict[str, Tensor]
GOALS = ("generate", "classify")
FURTHEST = 6.0
"""The largest absolute value of log σ², log δ̃ and log γ."""


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for MNIST, but for T = 64 there."""

    channels: int
    height: int
    width: int
    classes: int
    goal: str = "generate"
    """generate or classify."""
    attention: bool = True
    steps: int = 10
    """T: strokes of a drawing, glimpses of a classifier."""
    hidden: int = 256
    """Units of each LSTM."""
    latent: int = 100
    """Width of z."""
    read: int = 2
    """N of the grid that reads."""
    write: int = 5
    """N of the grid that writes."""

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise ValueError(f"goal cannot be {self.goal!r}: {nearest(self.goal, GOALS)}")
        at_least(self, "channels", "height", "width", "classes", "steps", "hidden", "latent", "read", "write")
        for name in ("read", "write"):
            if self.attention and getattr(self, name) > min(self.height, self.width):
                raise ValueError(
                    f"{name} = {getattr(self, name)}: images of {self.height}×{self.width} are smaller than that"
                )


VARIANTS: dict[str, dict[str, Any]] = {
    "blind": {"attention": False},
    "classifier": {"goal": "classify", "steps": 8, "read": 12},
}
"""The control that reads and writes the whole picture, and the paper's classifier of cluttered digits."""


class Drawing(NamedTuple):
    """The steps in which pictures were drawn, or read.

    Attributes:
        canvas: (B, T, C, height, width): the probability that a pixel is 1, after each step; of a classifier, none.
        read: (B, T, 4): the box that was read, see :func:`box`; None where nothing or the whole picture was.
        write: the same of writing.
        patch: (B, T, C, N, N): what a classifier read.
    """

    canvas: Tensor | None
    read: Tensor | None
    write: Tensor | None
    patch: Tensor | None = None


class Step(NamedTuple):
    """One step of a drawing: the canvas (logits), KL in nats (B,), and where was read and written (B, 5)."""

    canvas: Tensor
    kl: Tensor
    read: Tensor | None
    write: Tensor | None


class Place(nn.Module):
    """Where a grid stands: h (B, hidden) → the five numbers of a :class:`FilterBank`.

    At first the grid covers the image evenly, δ = size / N and σ = δ / 2. Reading then gives local means; to write so
    that a patch of ones paints about ones takes γ = 1 / δ².
    """

    def __init__(self, hidden: int, filters: int, height: int, width: int, *, writes: bool = False):
        super().__init__()
        self.linear = nn.Linear(hidden, 5)
        nn.init.normal_(self.linear.weight, std=0.01)
        longest = max(height, width)
        stride = longest / filters
        part = stride * max(filters - 1, 1) / max(longest - 1, 1)
        logs = torch.tensor([2 * math.log(stride / 2), math.log(part), -2 * math.log(stride) if writes else 0.0])
        with torch.no_grad():
            self.linear.bias[:2] = 0.0
            self.linear.bias[2:] = FURTHEST * torch.atanh((logs / FURTHEST).clamp(-0.9, 0.9))

    def forward(self, hidden: Tensor) -> Tensor:
        centre, logs = self.linear(hidden).split([2, 3], -1)
        return torch.cat([centre, FURTHEST * torch.tanh(logs / FURTHEST)], -1)


class DRAW(nn.Module):
    """Encoder, decoder, canvas; see the module's docstring.

    A batch has ``image`` (B, C, height, width) with numbers from 0 to 1 and, to classify, ``label`` (B,). It may bring
    ``noise`` (B, T, latent), the ε of z = μ + σ ε; otherwise it is drawn.
    """

    uses: ClassVar[dict[str, Use]] = {
        "reader": Use(
            *("grid of filters, placed by h", "places of the pixels", "pixels", "filter_bank", "sum to 1"),
            rows="filters",
            columns="pixels",
        ),
    }
    view: ClassVar[str] = "canvas"

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        image, hidden = (config.channels, config.height, config.width), config.hidden
        size, generates = math.prod(image), config.goal == "generate"
        patch = config.channels * config.read**2 if config.attention else size
        self.encoder = nn.LSTMCell(2 * patch + hidden if generates else patch, hidden)
        self.encoder_start = nn.Parameter(torch.zeros(2, hidden))
        if config.attention:
            self.reader = FilterBank(config.read)
            self.read_place = Place(hidden, config.read, config.height, config.width)
        _begin(self.encoder, 2 * patch if generates else patch)
        if not generates:
            self.output = nn.Linear(hidden, config.classes)
            return
        self.posterior = nn.Linear(hidden, 2 * config.latent)
        self.decoder = nn.LSTMCell(config.latent, hidden)
        _begin(self.decoder, config.latent)
        self.decoder_start = nn.Parameter(torch.zeros(2, hidden))
        self.canvas_start = nn.Parameter(torch.zeros(image))
        self.paint = nn.Linear(hidden, config.channels * config.write**2 if config.attention else size)
        if config.attention:
            self.writer = FilterBank(config.write)
            self.write_place = Place(hidden, config.write, config.height, config.width, writes=True)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """To generate: the bound in nats per picture; its terms are ``nll``, the reconstruction of
        the picture, and ``kl``, the code. To
        classify: cross entropy, and the share of wrong answers."""
        image = batch["image"]
        self._check(image)
        count = image.new_tensor(len(image), dtype=torch.float32)
        share = 1 / count.clamp(min=1)
        if self.config.goal == "classify":
            logits, labels = self.logits(batch), batch["label"]
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            return {"loss": loss * share, "count": count, "error": (logits.argmax(-1) != labels).sum() * share}
        steps = list(self.steps(image, self._noise(batch)))
        nll = functional.binary_cross_entropy_with_logits(steps[-1].canvas, image, reduction="sum") * share
        kl = torch.stack([step.kl for step in steps]).sum() * share
        return {"loss": nll + kl, "count": count, "bound": (nll + kl).detach(), "nll": nll.detach(), "kl": kl.detach()}

    def steps(self, image: Tensor | None, noise: Tensor) -> Iterator[Step]:
        """T steps of a drawing; without an image a new one is sampled: z is the noise (B, T, latent) itself."""
        config, batch = self.config, len(noise)
        encoder, decoder = self._start(self.encoder_start, batch), self._start(self.decoder_start, batch)
        canvas = self.canvas_start.expand(batch, -1, -1, -1)
        for sample in noise.unbind(1):
            z, kl, read, write = sample, noise.new_zeros(batch), None, None
            if image is not None:
                both = torch.cat([image, image - torch.sigmoid(canvas)], 1)
                if config.attention:
                    read = self.read_place(decoder[0])
                    both = self.reader(read, both).context
                encoder = self.encoder(torch.cat([both.flatten(1), decoder[0]], -1), encoder)
                mean, log_deviation = self.posterior(encoder[0]).chunk(2, -1)
                deviation = log_deviation.exp()
                z = mean + deviation * sample
                kl = 0.5 * (mean.square() + deviation.square() - 2 * log_deviation - 1).sum(-1)
            decoder = self.decoder(z, decoder)
            stroke = self.paint(decoder[0])
            if config.attention:
                write = self.write_place(decoder[0])
                patch = stroke.unflatten(-1, (config.channels, config.write, config.write))
                canvas = canvas + self.writer.write(write, patch, config.height, config.width)
            else:
                canvas = canvas + stroke.unflatten(-1, canvas.shape[1:])
            yield Step(canvas, kl, read, write)

    def glimpses(self, image: Tensor) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
        """T glimpses of a classifier: h (B, hidden), the grid's parameters (B, 5), and the patch (B, C, N, N)."""
        state = self._start(self.encoder_start, len(image))
        for _ in range(self.config.steps):
            place, patch = None, image
            if self.config.attention:
                place = self.read_place(state[0])
                patch = self.reader(place, image).context
            state = self.encoder(patch.flatten(1), state)
            yield state[0], place, patch

    def logits(self, batch: Batch) -> Tensor:
        """(B, classes), of a classifier."""
        *_, (hidden, _, _) = self.glimpses(batch["image"])
        logits: Tensor = self.output(hidden)
        return logits

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """(B, C, height, width), each pixel's probability of being 1 in the drawing of a picture; of a classifier
        (B, classes)."""
        self._check(batch["image"])
        if self.config.goal == "classify":
            return self.logits(batch).log_softmax(-1).exp()
        *_, last = self.steps(batch["image"], self._noise(batch))
        return torch.sigmoid(last.canvas)

    @torch.no_grad()
    def trace(self, batch: Batch) -> Drawing:
        """How the pictures of a batch are drawn, or read."""
        self._check(batch["image"])
        if self.config.goal == "generate":
            return self._drawing(self.steps(batch["image"], self._noise(batch)))
        glimpses = list(self.glimpses(batch["image"]))
        patch = torch.stack([patch for _, _, patch in glimpses], 1) if self.config.attention else None
        return Drawing(None, self._boxes([place for _, place, _ in glimpses], self.config.read), None, patch)

    @torch.no_grad()
    def imagine(self, count: int, *, generator: torch.Generator | None = None) -> Drawing:
        """Sample N new pictures."""
        if self.config.goal == "classify":
            raise ValueError("this system was built to classify: it reads, but cannot draw")
        shape, device = (count, self.config.steps, self.config.latent), self.canvas_start.device
        return self._drawing(self.steps(None, torch.randn(shape, generator=generator, device=device)))

    def _drawing(self, steps: Iterator[Step]) -> Drawing:
        taken = list(steps)
        canvas = torch.sigmoid(torch.stack([step.canvas for step in taken], 1))
        read, write = [step.read for step in taken], [step.write for step in taken]
        return Drawing(canvas, self._boxes(read, self.config.read), self._boxes(write, self.config.write))

    def _boxes(self, places: list[Tensor | None], filters: int) -> Tensor | None:
        present = [place for place in places if place is not None]
        return box(torch.stack(present, 1), filters, self.config.height, self.config.width) if present else None

    def _start(self, start: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        hidden, cell = start.unbind()
        return hidden.expand(batch, -1), cell.expand(batch, -1)

    def _noise(self, batch: Batch) -> Tensor:
        image, shape = batch["image"], (len(batch["image"]), self.config.steps, self.config.latent)
        noise = batch.get("noise")
        if noise is None:
            return torch.randn(shape, device=image.device, dtype=self.canvas_start.dtype)
        if noise.shape != shape:
            raise ValueError(f"noise is {tuple(noise.shape)}, but these images need {shape}")
        return noise

    def _check(self, image: Tensor) -> None:
        shape = (self.config.channels, self.config.height, self.config.width)
        if image.ndim != 4 or tuple(image.shape[1:]) != shape:
            raise ValueError(f"images are {tuple(image.shape)}, but the system is built for (B, {shape})")


def _begin(cell: nn.LSTMCell, inputs: int) -> None:
    """Weights that keep the variance of the first ``seen`` inputs, and open forget gates. With PyTorch's default, which
    is small where inputs are many, the patch hardly reaches the code, and noise drowns it."""
    nn.init.normal_(cell.weight_ih[:, :inputs], std=inputs**-0.5)
    for bias in (cell.bias_ih, cell.bias_hh):
        nn.init.zeros_(bias)
    nn.init.ones_(cell.bias_ih[cell.hidden_size : 2 * cell.hidden_size])


def box(parameters: Tensor, filters: int, height: int, width: int) -> Tensor:
    """What a grid of filters covers, in pixels counted from 0: (…, 5) → x and y of its centre, its side N·δ, and σ."""
    x, y, log_variance, log_stride, _ = parameters.unbind(-1)
    stride = (max(height, width) - 1) / max(filters - 1, 1) * log_stride.exp()
    centre = ((width + 1) / 2 * (x + 1) - 1, (height + 1) / 2 * (y + 1) - 1)
    return torch.stack([*centre, filters * stride, (log_variance / 2).exp()], -1)
