"""The optimizer that a config asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from regard.training.config import TrainConfig

_CLASSES: dict[str, type[Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adadelta": torch.optim.Adadelta,
}
# The name in PyTorch of each field, and whose it is.
_FIELDS = {
    "betas": ("betas", ("adam", "adamw")),
    "epsilon": ("eps", ("adam", "adamw", "adadelta")),
    "weight_decay": ("weight_decay", ("adam", "adamw", "sgd", "adadelta")),
    "momentum": ("momentum", ("sgd",)),
    "rho": ("rho", ("adadelta",)),
}


def build(
    parameters: Iterable[nn.Parameter], config: TrainConfig, device: torch.device, sharded: bool = False
) -> Optimizer:
    """An optimizer over the parameters that want a gradient."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter to train: none requires a gradient")
    options: dict[str, Any] = {"lr": config.lr}
    for field, (name, owners) in _FIELDS.items():
        value = getattr(config, field)
        if value is None:
            continue
        if config.optimizer not in owners:
            raise ValueError(f"{field} is not for the optimizer {config.optimizer!r}, only for: {', '.join(owners)}")
        options[name] = value
    # One pass over the memory instead of one per operation: three to six times as fast as the loop over tensors.
    fusible = ("adam", "adamw") if sharded else ("adam", "adamw", "sgd")  # FSDP's tensors know no fused SGD
    if config.optimizer in fusible and device.type in ("cpu", "cuda"):
        options["fused"] = all(parameter.is_floating_point() for parameter in trained)
    groups: list[Any] = trained
    if config.weight_decay and config.weight_decay_on == "matrices":
        matrices = [parameter for parameter in trained if parameter.ndim > 1]
        vectors = [parameter for parameter in trained if parameter.ndim < 2]
        split = ((matrices, config.weight_decay), (vectors, 0.0))
        groups = [{"params": members, "weight_decay": decay} for members, decay in split if members]
    return _CLASSES[config.optimizer](groups, **options)
