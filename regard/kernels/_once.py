"""What the chunked and fused kernels cannot do, said with the way around it."""

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.library import CustomOpDef

_REMEDY = 'do the forward pass inside `with regard.kernels.use("plain"):`'


def no_second_derivative(*_: Any) -> NoReturn:
    """The backward of a backward that has none."""
    raise RuntimeError(f"regard: this kernel has no second derivative; for a double backward, {_REMEDY}")


def no_vmap(*_: Any) -> NoReturn:
    """The batching rule of a kernel that has none."""
    raise RuntimeError(f"regard: this kernel cannot be run under vmap; there, {_REMEDY}")


def no_forward_mode(*_: Any) -> NoReturn:
    """The forward-mode derivative of a kernel that has none."""
    raise RuntimeError(f"regard: this kernel has no forward-mode derivative; for jvp, {_REMEDY}")


def forward_mode() -> bool:
    """Do tensors of this thread carry tangents? Under torch.func.jvp they are functorch's besides."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


class _Barrier(Function):
    """Gradients as they are, for which there is no gradient."""

    @staticmethod
    def forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return grads

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:
        no_second_derivative()


def explain_second_derivative(out: Tensor) -> None:
    """Let the operator of torch that gave ``out`` say the same as our kernels, if it has no second derivative."""
    node = None if torch.compiler.is_compiling() else out.grad_fn
    if node is not None and node.name().startswith("ScaledDotProduct"):  # else it is a composition that has one
        node.register_hook(lambda grads, _: _Barrier.apply(*grads) if torch.is_grad_enabled() else None)


def differentiable_once(backward: CustomOpDef) -> None:
    """Give the operator that computes a gradient a gradient that says that there is none."""
    backward.register_autograd(no_second_derivative)
    backward.register_vmap(no_vmap)
