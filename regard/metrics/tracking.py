"""Errors of trackers. Boxes are (…, T, 4): left, top, width and height in pixels."""

from __future__ import annotations

import torch
from torch import Tensor


def centre_error(predicted: Tensor, true: Tensor) -> Tensor:
    """(…, T): pixels between the centres."""
    return ((predicted[..., :2] + predicted[..., 2:] / 2) - (true[..., :2] + true[..., 2:] / 2)).norm(dim=-1)


def overlap(predicted: Tensor, true: Tensor) -> Tensor:
    """(…, T): intersection over union."""
    first = torch.maximum(predicted[..., :2], true[..., :2])
    last = torch.minimum(predicted[..., :2] + predicted[..., 2:], true[..., :2] + true[..., 2:])
    shared = (last - first).clamp_min(0).prod(-1)
    return shared / (predicted[..., 2:].prod(-1) + true[..., 2:].prod(-1) - shared)


def until_lost(predicted: Tensor, true: Tensor) -> Tensor:
    """(…): frames before the boxes stop touching for good; T where they touch in the last frame."""
    touch = overlap(predicted, true) > 0
    numbers = torch.arange(1, touch.shape[-1] + 1, device=touch.device)
    return (touch * numbers).amax(-1)
