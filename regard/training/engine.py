"""A model with its optimizer on whatever it is trained on. All that knows accelerate is here."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard._threads import notice_busy_cores, threads_to_spare
from regard.training import optimizers
from regard.training.config import PRECISIONS, TrainConfig, seen_accelerator
from regard.training.means import Means
from regard.training.team import Batch, Team


def _accelerator(config: TrainConfig) -> Any:
    try:
        from accelerate import Accelerator  # type: ignore[import-untyped]
        from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
        from accelerate.utils import GradientAccumulationPlugin  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"training needs {error.name}. Type: pip install 'regard[train]'") from None
    precision = PRECISIONS[chosen_precision(config)]
    # accelerate would hold a second training in this process to the precision of the first.
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != precision:
        AcceleratorState._reset_state()
    accelerator = Accelerator(
        mixed_precision=precision,
        # Without this, accelerate overlooks the other processes on a machine that has only CPUs.
        cpu=config.device == "cpu" or not torch.accelerator.is_available(),
        # Weighing the batches of a step is ours; a launcher's environment must not divide once more.
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
    )
    if config.precision == "float16" and accelerator.device.type == "cpu":
        raise ValueError("precision 'float16' needs a GPU; on the CPU use bfloat16 or float32")
    return accelerator


def chosen_precision(config: TrainConfig) -> str:
    """What ``auto`` means here: a machine without instructions for bfloat16 computes it more slowly than float32."""
    if config.precision != "auto":
        return config.precision
    device = None if config.device == "cpu" else seen_accelerator()
    kind = "cpu" if device is None else device.type
    if kind == "cuda":
        has = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has = kind == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return "bfloat16" if has else "float32"


def _most_threads() -> int:
    """What the environment allows: two trainings side by side are told so there, whatever their recipes say."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdecimal() and int(allowed) else sys.maxsize


class Engine:
    """Holds ``model`` until :meth:`release`; :attr:`model` is it, wrapped for precision and other processes."""

    def __init__(self, model: nn.Module, config: TrainConfig):
        if config.threads:
            torch.set_num_threads(min(config.threads, _most_threads()))
        self.threads = torch.get_num_threads()
        self.spared = threads_to_spare(self.threads)
        if self.spared < self.threads:
            torch.set_num_threads(self.spared)
        notice_busy_cores(self.spared)
        self.plain, self.config = model, config
        self.own_forward = "forward" in vars(model)
        self.accelerator = _accelerator(config)
        self.team = Team(self.accelerator.process_index, self.accelerator.num_processes, self.accelerator.device)

    def prepare(self) -> None:
        """Move, wrap and shard; afterwards weights go in and out through this object only."""
        self.sharded = self.accelerator.distributed_type == "FSDP"
        optimizer = optimizers.build(self.plain.parameters(), self.config, self.team.device, self.sharded)
        self.model, self.optimizer = self.accelerator.prepare(self.plain, optimizer)
        self.parameters = list(self.model.parameters())

    def update(self, batches: Sequence[Batch], rate: float, means: Means) -> Tensor:
        """One step: the gradient of the mean loss over all units of all batches and processes. Its norm."""
        self.model.train()
        first = total = torch.zeros(())
        for number, batch in enumerate(batches):
            rows, weight = self.team.share(batch)
            with nullcontext() if number == len(batches) - 1 else self.accelerator.no_sync(self.model):
                out = self.model(rows)
                units = means.add(out, weight)
                first, total = (units.clamp(min=1), units) if number == 0 else (first, total + units)
                # The processes' gradients are averaged, hence × world.
                share = out["count"].detach() * weight * self.team.world / first
                self.accelerator.backward(out["loss"] * share.to(out["loss"].dtype))
        if len(batches) > 1:  # so far they were divided by the units of the first batch: all that was known then
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            torch._foreach_mul_(gradients, (first / total.clamp(min=1)).item())
        norm = self.accelerator.clip_grad_norm_(self.parameters, self.config.clip or math.inf)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # FSDP's is one of its own kind

    def measure(self, batch: Batch, means: Means) -> None:
        """Add the model's outputs for a batch, without learning from it."""
        self.model.eval()
        with torch.no_grad():
            rows, weight = self.team.share(batch)
            means.add(self.model(rows), weight)

    def weights(self) -> Mapping[str, Tensor]:
        """The model's tensors, whole. With FSDP every process must call this, and the first gets them."""
        if not self.sharded:
            return self.plain.state_dict()
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return dict(get_model_state_dict(self.model, options=options))  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """What the optimizer and the scaler of float16 remember, whole; with FSDP as :meth:`weights`."""
        scaler = self.accelerator.scaler
        state: dict[str, Any] = {"scaler": scaler.state_dict() if scaler else None, "sharded": self.sharded}
        if not self.sharded:
            return state | {"optimizer": self.optimizer.state_dict()}
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        if not self.optimizer.state:  # asking for it would make a step in order to have one, and that would count
            return state | {"optimizer": None}
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return state | {"optimizer": get_optimizer_state_dict(self.model, self.optimizer.optimizer, options=options)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what :meth:`state_dict` gave; every process has it."""
        if state["sharded"] != self.sharded:
            used = ("with", "without") if state["sharded"] else ("without", "with")
            raise ValueError(f"the checkpoint was written {used[0]} FSDP; it cannot go on {used[1]} it")
        if self.accelerator.scaler and state["scaler"]:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        if state["optimizer"] is None:
            return
        if not self.sharded:
            self.optimizer.load_state_dict(state["optimizer"])
            self._lay_out()
            return
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

        options = StateDictOptions(full_state_dict=True)
        set_optimizer_state_dict(self.model, self.optimizer.optimizer, state["optimizer"], options=options)

    def _lay_out(self) -> None:
        """Bring what the optimizer remembers into the order of the parameters' memory.

        Fused optimizers walk through both side by side, whatever the strides say.
        """
        for parameter, parameter_state in self.optimizer.state.items():
            for name, value in parameter_state.items():
                same_shape = isinstance(value, Tensor) and value.shape == parameter.shape
                if same_shape and value.stride() != parameter.stride():
                    parameter_state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)

    def release(self) -> None:
        """Leave the model as it came, but for its weights, and ready to be used; threads too."""
        if self.spared < self.threads:
            torch.set_num_threads(self.threads)
        if hasattr(self, "model"):
            self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
            for mark in ("_is_accelerate_prepared", *(() if self.own_forward else ("forward",))):
                vars(self.plain).pop(mark, None)
        self.plain.eval()
