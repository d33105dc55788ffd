"""The mean of several models of one make: the last checkpoints of a run, as in Vaswani et al. 2017, section 6.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.training.checkpoint import read_weights


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these files, summed in float64. Whole numbers and flags are the last file's; names
    that shared one tensor still do."""
    if not paths:
        raise ValueError("there is nothing to average: no files were given")
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors, _ = read_weights(path)
        if total:
            _check_same_make(path, tensors, paths[0], total)
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                total[name] = tensor
            elif name in total:
                total[name] += tensor
            else:
                total[name] = tensor.to(torch.float64, copy=True)
    means: dict[int, Tensor] = {}
    for name, tensor in tensors.items():
        if id(tensor) not in means:
            counted = not tensor.is_floating_point()
            means[id(tensor)] = tensor if counted else (total[name] / len(paths)).to(tensor.dtype)
    return {name: means[id(tensor)] for name, tensor in tensors.items()}


def _check_same_make(path: Path, tensors: Mapping[str, Tensor], first: Path, total: Mapping[str, Tensor]) -> None:
    shapes, first_shapes = ({name: tuple(x.shape) for name, x in group.items()} for group in (tensors, total))
    for name in sorted(shapes | first_shapes):
        if shapes.get(name) != first_shapes.get(name):
            raise ValueError(
                f"{path} and {first} are not of one make: {name} is {shapes.get(name, 'missing')} in the first and "
                f"{first_shapes.get(name, 'missing')} in the second"
            )
