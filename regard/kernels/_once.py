"""What the chunked and fused kernels cannot do, said with the way around it."""

from typing import Any, NoReturn

from torch.library import CustomOpDef

_REMEDY = 'do the forward pass inside `with regard.kernels.use("plain"):`'


def no_second_derivative(*_: Any) -> NoReturn:
    """The backward of a backward that has none."""
    raise RuntimeError(f"regard: this kernel has no second derivative; for a double backward, {_REMEDY}")


def no_vmap(*_: Any) -> NoReturn:
    """The batching rule of a kernel that has none."""
    raise RuntimeError(f"regard: this kernel cannot be run under vmap; there, {_REMEDY}")


def differentiable_once(backward: CustomOpDef) -> None:
    """Give the operator that computes a gradient a gradient that says that there is none."""
    backward.register_autograd(no_second_derivative)
    backward.register_vmap(no_vmap)
