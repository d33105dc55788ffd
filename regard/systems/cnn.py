"""The networks that RAM is compared with: they take in the whole image at once, and pay for every pixel.

Mnih, Heess, Graves & Kavukcuoglu 2014 (arXiv:1406.6247), section 4.1: a convolution with 8 filters of 10 × 10 and
stride 5, then a layer of 256 units, all with ReLU; or, with ``filters = 0``, two layers of 256 units. No attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.glimpse import check_images
from regard.layers.use import Use

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes; the defaults are the paper's.

    Attributes:
        channels, height, width, classes: of the images.
        filters, kernel, stride: of the convolution; 0 filters is a layer of ``hidden`` units instead.
        hidden: units of the layer before the classes.
        dropout: of its output.
    """

    channels: int
    height: int
    width: int
    classes: int
    filters: int = 8
    kernel: int = 10
    stride: int = 5
    hidden: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("channels", "height", "width", "classes", "kernel", "stride", "hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.filters and self.kernel > min(self.height, self.width):
            raise ValueError(
                f"a filter of {self.kernel} × {self.kernel} is larger than an image of {self.height} × {self.width}"
            )


VARIANTS: dict[str, dict[str, Any]] = {"fully_connected": {"filters": 0}}


class CNN(nn.Module):
    """An image in, a class out; see the module's docstring.

    A batch has ``image`` (B, C, height, width) and ``label`` (B,).
    """

    uses: ClassVar[dict[str, Use]] = {}

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        if config.filters:
            first: nn.Module = nn.Conv2d(config.channels, config.filters, config.kernel, config.stride)
            rows, columns = (1 + (side - config.kernel) // config.stride for side in (config.height, config.width))
            self.first, width = first, config.filters * rows * columns
        else:
            flat = config.channels * config.height * config.width
            self.first, width = nn.Sequential(nn.Flatten(), nn.Linear(flat, config.hidden)), config.hidden
        self.second = nn.Linear(width, config.hidden)
        self.action = nn.Linear(config.hidden, config.classes)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per image: the loss, which is ``nll``, and ``error``."""
        log_prob, label = self.log_prob(batch["image"]), batch["label"]
        count = label.new_tensor(len(label), dtype=torch.float32)
        share = 1 / max(len(label), 1)
        nll = -log_prob.gather(1, label[:, None]).sum() * share
        error = (log_prob.argmax(-1) != label).float().sum() * share
        return {"loss": nll, "count": count, "nll": nll.detach(), "error": error}

    def log_prob(self, image: Tensor) -> Tensor:
        """(B, classes)."""
        config = self.config
        check_images(image, config.channels, config.height, config.width)
        hidden = torch.relu(self.second(torch.relu(self.first(image)).flatten(1)))
        return self.action(functional.dropout(hidden, config.dropout, self.training)).log_softmax(-1)

    def predict(self, batch: Batch) -> Tensor:
        """(B, classes): the probability of each class."""
        return self.log_prob(batch["image"]).exp()

    def multiplications(self) -> int:
        """Of one image."""
        first = self.first
        if isinstance(first, nn.Conv2d):
            return self.second.in_features * first.weight[0].numel() + _size(self.second) + _size(self.action)
        return sum(_size(layer) for layer in self.modules() if isinstance(layer, nn.Linear))


def _size(layer: nn.Linear) -> int:
    return layer.weight.numel()
