"""How well a thing is followed through a film. Boxes are (…, T, 4): left, top, width and height in pixels."""

from __future__ import annotations

import torch
from torch import Tensor


def centre_error(found: Tensor, true: Tensor) -> Tensor:
    """(…, T): pixels between the centres."""
    return ((found[..., :2] + found[..., 2:] / 2) - (true[..., :2] + true[..., 2:] / 2)).norm(dim=-1)


def overlap(found: Tensor, true: Tensor) -> Tensor:
    """(…, T): intersection over union."""
    first = torch.maximum(found[..., :2], true[..., :2])
    last = torch.minimum(found[..., :2] + found[..., 2:], true[..., :2] + true[..., 2:])
    shared = (last - first).clamp_min(0).prod(-1)
    return shared / (found[..., 2:].prod(-1) + true[..., 2:].prod(-1) - shared)


def until_lost(found: Tensor, true: Tensor) -> Tensor:
    """(…): frames before the boxes stop touching for good; T where they touch in the last frame."""
    touch = overlap(found, true) > 0
    numbers = torch.arange(1, touch.shape[-1] + 1, device=touch.device)
    return (touch * numbers).amax(-1)
