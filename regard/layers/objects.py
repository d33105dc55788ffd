"""Several objects of an image that are named in order, the last of which may be a class *end*.

Targets are classes (B, S), −1 after the last; what a system says of them is log-probabilities (B, S, classes).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def likeliest(log_probs: list[Tensor], end: bool) -> tuple[Tensor, Tensor]:
    """The likeliest sequence by one reader, or by the product of a forward and a backward one.

    A backward reader finds the j-th of L objects as its (L − 1 − j)-th, so that for each L the best classes are the
    maxima of sums of log-probabilities, and the best L is that of the largest sum.
    Shapes: each (B, S, classes) → chosen (B, S), −1 after the last, and probabilities of its places (B, S, classes).
    """
    forward = log_probs[0]
    size, classes = forward.shape[1:]
    most, named = (size - 1, classes - 1) if end else (size, classes)
    best = forward.new_full(forward.shape[:1], -torch.inf)
    numbers, shares = forward.new_full(forward.shape[:2], -1, dtype=torch.long), forward.exp()
    for length in range(1 if end else most, most + 1):
        joint = forward.clone()
        if len(log_probs) > 1:
            joint[:, :length] += log_probs[1][:, :length].flip(1)
            joint[:, length:] += log_probs[1][:, length:]
        value, which = joint[:, :length, :named].max(-1)
        total = value.sum(1) + (joint[:, length, -1] if end else 0.0)
        better = total > best
        best = torch.where(better, total, best)
        which = functional.pad(which, (0, size - length), value=-1)
        numbers = torch.where(better[:, None], which, numbers)
        shares = torch.where(better[:, None, None], (joint / len(log_probs)).log_softmax(-1).exp(), shares)
    return numbers, shares


def without_end(target: Tensor, end: bool) -> Tensor:
    """Targets (B, S) with −1 in place of the end, which is the last class that is not −1."""
    if not end:
        return target
    last = (target >= 0).sum(1) - 1
    return target.scatter(1, last[:, None], -1)


def reverse(target: Tensor, end: bool) -> Tensor:
    """The objects of (B, S) from the last to the first; the end stays the end."""
    count = (target >= 0).sum(1, keepdim=True) - int(end)
    place = torch.arange(target.shape[1], device=target.device)
    return target.gather(1, torch.where(place < count, count - 1 - place, place))


def nll(log_prob: Tensor, target: Tensor) -> Tensor:
    """−Σₛ log yₛ of (B, S, classes) over the targets (B, S) that are there."""
    log_prob_of_target = log_prob.gather(-1, target.clamp_min(0)[..., None])[..., 0]
    return -torch.where(target >= 0, log_prob_of_target, 0.0).sum(1)
