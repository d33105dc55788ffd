"""Convolutional networks: the baseline that glimpses are compared with, which reads every pixel of the image.

Mnih, Heess, Graves & Kavukcuoglu 2014 (arXiv:1406.6247), section 4.1: a convolution with 8 filters of 10 × 10 and
stride 5, then a layer of 256 units, all with ReLU; or, with ``filters = 0``, two layers of 256 units. ``widths`` is a
stronger network than theirs: convolutions of 3 × 3, each with half-size max pooling behind it, then the layer of
``hidden`` units. Several objects of an image are named by an output layer for each (Goodfellow et al. 2014,
arXiv:1312.6082).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard._settings import at_least
from regard.layers import objects
from regard.layers.glimpse import check_images
from regard.layers.use import Use

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes; the defaults are the paper's.

    Attributes:
        channels, height, width, classes: of the images.
        objects, end: the most objects that are named in order, and whether the last class is *end*.
        filters, kernel, stride: of the convolution; 0 filters is a layer of ``hidden`` units instead.
        widths: filters of each convolution of 3 × 3 instead.
        hidden: units of the layer before the classes.
        dropout: of its output.
        standardize: give the pixels of each image a mean of 0 and a variance of 1, for images whose brightness differs.
    """

    channels: int
    height: int
    width: int
    classes: int
    objects: int = 1
    end: bool = False
    filters: int = 8
    kernel: int = 10
    stride: int = 5
    widths: tuple[int, ...] = ()
    hidden: int = 256
    dropout: float = 0.0
    standardize: bool = False

    def __post_init__(self) -> None:
        at_least(self, "channels", "height", "width", "classes", "objects", "kernel", "stride", "hidden")
        if any(width < 1 for width in self.widths):
            raise ValueError(f"widths must be at least 1, not {list(self.widths)}")
        smaller = min(self.height, self.width)
        if self.widths and smaller < 2 ** len(self.widths):
            raise ValueError(f"{len(self.widths)} times half of {smaller} pixels is nothing: fewer widths")
        if self.filters and not self.widths and self.kernel > smaller:
            raise ValueError(
                f"a filter of {self.kernel} × {self.kernel} is larger than an image of {self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {"fully_connected": {"filters": 0}}


class CNN(nn.Module):
    """An image in, a class or a sequence of them out; see the module's docstring.

    A batch has ``image`` (B, C, height, width), and ``label`` (B,) or, of several objects, ``target`` (B, S) with −1
    after the last.
    """

    uses: ClassVar[dict[str, Use]] = {}

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.first = _first(config)
        with torch.no_grad():
            blank = torch.zeros(1, config.channels, config.height, config.width)
            width = self.first(blank).numel()
        self.second = nn.Linear(width, config.hidden)
        self.action = nn.Linear(config.hidden, config.objects * config.classes)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per image: the loss, which is ``nll``, and ``error``, where not all objects were named right."""
        config, target = self.config, batch["target"] if "target" in batch else batch["label"][:, None]
        if target.ndim != 2 or target.shape[1] != config.objects:
            raise ValueError(f"target is {tuple(target.shape)}, but {config.objects} objects are named")
        log_prob = self.log_prob(batch["image"])
        numbers, _ = objects.likeliest([log_prob], config.end)
        wrong = (numbers != objects.without_end(target, config.end)).any(1)
        count = target.new_tensor(len(target), dtype=torch.float32)
        share = 1 / max(len(target), 1)
        nll = objects.nll(log_prob, target).sum() * share
        return {"loss": nll, "count": count, "nll": nll.detach(), "error": wrong.float().sum() * share}

    def log_prob(self, image: Tensor) -> Tensor:
        """(B, S, classes)."""
        config = self.config
        check_images(image, config.channels, config.height, config.width)
        if config.standardize:
            mean, std = image.mean((1, 2, 3), keepdim=True), image.std((1, 2, 3), keepdim=True)
            image = (image - mean) / std.clamp_min(1e-3)
        hidden = torch.relu(self.second(torch.relu(self.first(image)).flatten(1)))
        scores = self.action(functional.dropout(hidden, config.dropout, self.training))
        return scores.unflatten(-1, (config.objects, config.classes)).log_softmax(-1)

    def predict(self, batch: Batch) -> Tensor | dict[str, Tensor]:
        """(B, classes): the probability of each class. Of several objects ``chosen`` (B, S), −1 after the last, and
        ``probabilities`` (B, S, classes)."""
        numbers, probabilities = objects.likeliest([self.log_prob(batch["image"])], self.config.end)
        if self.config.objects == 1:
            return probabilities[:, 0]
        return {"chosen": numbers, "probabilities": probabilities}

    def multiplications(self) -> int:
        """Multiplications for one image."""
        total, side = 0, (self.config.height, self.config.width)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                kernel, stride, margin = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
                high, wide = (1 + (length + 2 * margin - kernel) // stride for length in side)
                total += high * wide * layer.weight.numel()
                side = (high // 2, wide // 2) if self.config.widths else (high, wide)
            elif isinstance(layer, nn.Linear):
                total += layer.weight.numel()
        return total


def _first(config: Config) -> nn.Module:
    if config.widths:
        layers: list[nn.Module] = []
        for before, after in zip((config.channels, *config.widths), config.widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    if config.filters:
        return nn.Conv2d(config.channels, config.filters, config.kernel, config.stride)
    return nn.Sequential(nn.Flatten(), nn.Linear(config.channels * config.height * config.width, config.hidden))
