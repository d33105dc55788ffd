"""Clips as sequences of features, for systems that look at frames."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard import masks
from regard.layers.grid import REACH, Grid

Batch = Mapping[str, Tensor]


class Frames(nn.Module):
    """A batch → what is on each frame of its clips, (B, F, width), which frames exist, and their mean, (B, width).

    A batch brings ``features`` (B, F, features) of a backbone, which are normalized, or small clips, ``clip``
    (B, F, 3, H, W) from 0 to 1. Their frames pass the convolutions of :class:`regard.layers.grid.Grid`, trained along;
    a layer that sees their coordinates follows, and the maximum over all cells is taken. ``frame_lengths`` (B,)
    says how many frames a clip has.

    Args:
        features: width of the features that a batch brings; 0 if it brings clips.
        channels: width of the features made of clips.
        motion: width of the features of motion, mᵢ = ReLU(W (vᵢ − vᵢ₋₁) + b), appended to each frame's vᵢ; 0 for none.
            The first frame has the motion of the second.
        times: whether a frame has a number that says when it is, from −:data:`~regard.layers.grid.REACH` to that.
    """

    def __init__(self, features: int, channels: int = 64, motion: int = 0, times: bool = False):
        super().__init__()
        self.times = times
        if features:
            self.norm = nn.LayerNorm(features)
        else:
            self.grid = Grid(0, channels)
            self.where = nn.Sequential(nn.Linear(channels, channels), nn.ReLU())
        width = features or channels
        self.expected = f"features of width {features}" if features else "clips"
        self.motion = nn.Sequential(nn.Linear(width, motion), nn.ReLU()) if motion else None
        self.width = width + motion + times

    def forward(self, batch: Batch) -> tuple[Tensor, masks.Mask, Tensor]:
        lengths = batch["frame_lengths"]
        features = [self._look(batch)]  # (B, F, own)
        if self.motion is not None:
            features.append(self.motion(differences(features[0], lengths)))
        place = torch.arange(features[0].shape[1], device=lengths.device)
        if self.times:
            share = place / (lengths[:, None] - 1).clamp_min(1)  # 0 … 1
            features.append((REACH * (2 * share - 1)).to(features[0]).unsqueeze(-1))
        frames = torch.cat(features, -1)
        real = (place < lengths[:, None]).unsqueeze(-1)  # (B, F, 1)
        mean = frames.masked_fill(~real, 0).sum(1) / lengths[:, None].clamp_min(1)
        return frames, masks.lengths(lengths), mean

    def _look(self, batch: Batch) -> Tensor:
        if "features" in batch:
            features = batch["features"]
            if not hasattr(self, "norm") or features.shape[-1:] != self.norm.normalized_shape:
                raise ValueError(f"features {tuple(features.shape)}, but the system is built for {self.expected}")
            return self.norm(features)
        if hasattr(self, "norm"):
            raise ValueError(f"the batch brings clips, but the system is built for {self.expected}")
        clip = batch["clip"]
        cells = self.grid({"image": clip.flatten(0, 1)})  # (B · F, cells, channels)
        return self.where(cells).amax(1).unflatten(0, clip.shape[:2])


def differences(frames: Tensor, lengths: Tensor) -> Tensor:
    """vᵢ − vᵢ₋₁ of clips (B, F, width) with ``lengths`` (B,) frames; the first is that of the second, 0 where there is
    only one frame."""
    if frames.shape[1] < 2:
        return torch.zeros_like(frames)
    later = torch.arange(1, frames.shape[1], device=lengths.device)
    steps = (frames[:, 1:] - frames[:, :-1]).masked_fill((later >= lengths[:, None]).unsqueeze(-1), 0)
    return torch.cat([steps[:, :1], steps], 1)
