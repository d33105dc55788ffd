"""Spatial transformer networks: a classifier that first crops, scales and turns its image by a learned grid.

Jaderberg, Simonyan, Zisserman & Kavukcuoglu 2015, *Spatial Transformer Networks* (arXiv:1506.02025).

    θ = identity + f_loc(U),  V = Bilinear(T_θ(grid), U),  y = softmax(body(V))

A localizer f_loc reads the whole image U and moves a grid; every place of the grid attends to the pixels round it
(query: the place; keys: the places of the pixels; values: the pixels). The classifier sees only V. The localizer has no
labels of its own: it is trained by the gradient of the class through the positions (eqs. 6-7).

``body`` is a fully connected network with two hidden layers (``fcn``) or one that convolves twice first (``cnn``); the
localizer is of the same kind. Several ``transformers`` stand side by side: each has a localizer of its own that sees
all channels, and the classifier sees all of their crops. The paper adds two digits that way. Its transformers pass on
all channels, and each comes to follow one digit; where training is short they follow the middle of both instead, unless
the channels are ``dealt`` out to them.

``transformer = "none"`` is the control: the same body on the image itself. All networks of a comparison have equally
many ``parameters``: the hidden layer of the body is as wide as the localizers leave room for.

Deviations: ReLU and convolutions of 5×5 with padding throughout, where the paper's first are 9×9 and 7×7 without; its
FCN localizer has three hidden layers, ours two.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._lazy import nearest
from regard._settings import at_least
from regard.glimpses.spatial_transformer import SpatialTransformer, numbers
from regard.layers.use import Use

Batch = dict[str, Tensor]
BODIES = ("cnn", "fcn")
TRANSFORMERS = ("none", "affine", "attention", "projective", "thin_plate")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are near the paper's for distorted digits."""

    channels: int
    height: int
    width: int
    classes: int
    body: str = "cnn"
    transformer: str = "affine"
    """The kind of transformation, or none for the control."""
    transformers: int = 1
    """How many stand side by side."""
    crop: int = 0
    """Height and width of what a transformer passes on; 0 is as large as the image."""
    points: int = 4
    """Control points of a thin plate each way."""
    filters: int = 32
    """Filters of the first convolution; the second has twice as many."""
    parameters: int = 400_000
    """The most parameters of the whole network, localizers included."""
    dropout: float = 0.0
    """Before the last layer."""
    leak: float = 0.0
    """Negative slope of the localizers' LeakyReLU; with 0 all units can die early."""
    pace: float = 1.0
    """Learning-rate multiplier of the localizers against the classifier (the output of f_loc is scaled by it)."""
    spring: float = 0.0
    """Weight of a penalty on the mean squared distance of the sampling grid from its initial position. Where the class
    says little about the place at first, as in a sum of digits, a grid can otherwise leave the image for good."""
    dealt: bool = False
    """Each of K transformers passes on only the channels k, k + K, k + 2 K, …; otherwise all."""

    def __post_init__(self) -> None:
        if self.body not in BODIES:
            raise ValueError(f"body cannot be {self.body!r}: {nearest(self.body, BODIES)}")
        if self.transformer not in TRANSFORMERS:
            raise ValueError(f"transformer cannot be {self.transformer!r}: {nearest(self.transformer, TRANSFORMERS)}")
        at_least(self, "channels", "height", "width", "classes", "transformers", "filters", "parameters")
        if not self.pace > 0:
            raise ValueError(f"pace must be more than 0, not {self.pace}")
        if not self.spring >= 0:
            raise ValueError(f"spring must not be less than 0, but is {self.spring}")
        if not 0 <= self.leak < 1:
            raise ValueError(f"leak is from 0 to less than 1, not {self.leak}")
        if self.dealt and self.channels % self.transformers:
            raise ValueError(f"{self.channels} channels cannot be dealt out evenly to {self.transformers} transformers")
        smallest = min(self.height, self.width, self.crop or self.height)
        if smallest < 4:
            raise ValueError(
                f"images of {self.height}×{self.width} with crop = {self.crop}: two poolings need 4 pixels each way"
            )


VARIANTS: dict[str, dict[str, Any]] = {
    "cnn": {"transformer": "none"},
    "fcn": {"transformer": "none", "body": "fcn"},
    "st-fcn": {"body": "fcn"},
}


class Sight(NamedTuple):
    """Where K transformers looked, and what they saw.

    Attributes:
        grids: (B, K, height', width', 2), places (x, y) in [−1, 1], which are the outer edges of the image.
        crops: (B, K, C, height', width'), 0 in channels that are not passed on.
    """

    grids: Tensor
    crops: Tensor


class STN(nn.Module):
    """Transformers, then a classifier; see the module's docstring.

    A batch has ``image`` (B, C, height, width) and ``label`` (B,).
    """

    uses: ClassVar[dict[str, Use]] = {
        "transformers.*.sampler": Use(
            *("places of the grid T_θ", "places of the pixels", "pixels", "bilinear", "none"),
            rows="places",
            columns="pixels",
        ),
    }
    view: ClassVar[str] = "rectified"

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        image = (config.channels, config.height, config.width)
        self.transformers = nn.ModuleList()
        if config.transformer != "none":
            crop = (config.crop, config.crop) if config.crop else (config.height, config.width)
            for _ in range(config.transformers):
                localizer = localize(config, image)
                self.transformers.append(SpatialTransformer(localizer, config.transformer, crop, points=config.points))
            image = (config.channels * (1 if config.dealt else config.transformers), *crop)
        room = config.parameters - size(self.transformers)

        def built(hidden: int) -> nn.Sequential:
            return classify(config, image, hidden)

        def count(hidden: int) -> int:
            with torch.device("meta"):
                return size(built(hidden))

        hidden = bisect_right(range(1, config.parameters + 1), room, key=count)
        if not hidden:
            least = size(self.transformers) + count(1)
            raise ValueError(f"parameters = {config.parameters} are too few: the smallest such network has {least}")
        self.body = built(hidden)

    def counts(self) -> dict[str, int]:
        """How many parameters each half has."""
        return {"localizers": size(self.transformers), "classifier": size(self.body)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy in nats, and the share of wrong answers; in training with the penalty ``spring``."""
        (logits, grids), labels = self._answer(batch), batch["label"]
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        if self.training and self.config.spring:
            loss = loss + self.config.spring * self._displaced(grids)
        wrong = (logits.argmax(-1) != labels).sum()
        count = labels.new_tensor(len(labels), dtype=torch.float32)
        share = 1 / count.clamp(min=1)
        return {"loss": loss * share, "count": count, "error": wrong * share}

    def logits(self, batch: Batch) -> Tensor:
        """(B, classes)."""
        return self._answer(batch)[0]

    def _answer(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Logits, and the grids they come from."""
        image, config = batch["image"], self.config
        expected = (config.channels, config.height, config.width)
        if image.ndim != 4 or tuple(image.shape[1:]) != expected:
            raise ValueError(f"images are {tuple(image.shape)}, but the system is built for (B, {expected})")
        grids: list[Tensor] = []
        if self.transformers:
            grids, crops = self._crops(image)
            image = torch.cat(crops, 1)
        logits: Tensor = self.body(image)
        return logits, grids

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """(B, classes): the probability of each class."""
        return self.logits(batch).log_softmax(-1).exp()

    @torch.no_grad()
    def sight(self, batch: Batch) -> Sight:
        """The grids of the transformers in each image, and their crops."""
        if not self.transformers:
            raise ValueError("this network has no transformer, and sees the image as it is")
        image = batch["image"]
        grids, passed = self._crops(image)
        crops = image.new_zeros(len(image), len(grids), image.shape[1], *passed[0].shape[2:])
        for k, crop in enumerate(passed):
            crops[:, k, self._dealt(k)] = crop
        return Sight(torch.stack(grids, 1), crops)

    def _crops(self, image: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The grid and the crop of each transformer."""
        grids, crops = [], []
        for k, transformer in enumerate(self.transformers):
            assert isinstance(transformer, SpatialTransformer)
            grids.append(transformer.grid(image))
            crops.append(transformer.sampler(grids[-1], image[:, self._dealt(k)]).context)
        return grids, crops

    def _displaced(self, grids: list[Tensor]) -> Tensor:
        """The mean squared distance of a grid from its initial position, summed over images and transformers."""
        total = grids[0].new_zeros(())
        for transformer, grid in zip(self.transformers, grids, strict=True):
            assert isinstance(transformer, SpatialTransformer)
            still = transformer.place(grid.new_zeros(transformer.numbers), (grid.shape[1], grid.shape[2]))
            total = total + (grid - still).square().sum(-1).mean((1, 2)).sum()
        return total

    def _dealt(self, k: int) -> slice:
        """The channels that the k-th transformer passes on."""
        return slice(k, None, len(self.transformers)) if self.config.dealt else slice(None)


class Convolution(nn.Conv2d):
    """nn.Conv2d with weights and output in channels-last order, the fastest on CPUs."""

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight.to(memory_format=torch.channels_last)
        return functional.conv2d(input, weight, self.bias, self.stride, self.padding)


class Scaled(nn.Linear):
    """A linear layer times a number. Adam's steps do not depend on the size of the gradient, so that it acts as a
    learning-rate multiplier."""

    def __init__(self, inputs: int, outputs: int, by: float):
        super().__init__(inputs, outputs)
        self.by = by

    def forward(self, input: Tensor) -> Tensor:
        return self.by * super().forward(input)


def localize(config: Config, image: tuple[int, int, int]) -> nn.Sequential:
    """f_loc: (B, C, height, width) → (B, numbers of a transformer)."""
    channels, height, width = image
    leak = config.leak
    last = Scaled(32, numbers(config.transformer, config.points), config.pace)
    if config.body == "fcn":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(channels * height * width, 32), nn.LeakyReLU(leak),
            nn.Linear(32, 32), nn.LeakyReLU(leak), last,
        )  # fmt: skip
    return nn.Sequential(
        nn.MaxPool2d(2), Convolution(channels, 20, 5, padding=2), nn.LeakyReLU(leak),
        nn.MaxPool2d(2), Convolution(20, 20, 5, padding=2), nn.LeakyReLU(leak),
        nn.Flatten(), nn.Linear(20 * (height // 4) * (width // 4), 32), nn.LeakyReLU(leak), last,
    )  # fmt: skip


def classify(config: Config, image: tuple[int, int, int], hidden: int) -> nn.Sequential:
    """The classifier's body: (B, C, height, width) → (B, classes)."""
    channels, height, width = image
    last = [nn.Dropout(config.dropout), nn.Linear(hidden, config.classes)]
    if config.body == "fcn":
        layers = [nn.Flatten(), nn.Linear(channels * height * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden)]
        return nn.Sequential(*layers, nn.ReLU(), *last)
    filters, more_filters = config.filters, 2 * config.filters
    return nn.Sequential(
        Convolution(channels, filters, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        Convolution(filters, more_filters, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(more_filters * (height // 4) * (width // 4), hidden), nn.ReLU(),
        *last,
    )  # fmt: skip


def size(module: nn.Module) -> int:
    """How many parameters a module has."""
    return sum(parameter.numel() for parameter in module.parameters())
