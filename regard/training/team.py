"""The processes that train one model together: what each takes of a batch, and how they agree.

Without a launcher there is one process and everything here is a no-op. ``torchrun`` and ``accelerate launch`` start
several, on one machine or many, with the same command line on each.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Batch = dict[str, Tensor]


def is_main() -> bool:
    """Whether this process is the one that writes: the first, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0


class Team:
    """``world`` processes, of which this is number ``rank``."""

    def __init__(self, rank: int, world: int, device: torch.device):
        self.rank, self.world, self.device = rank, world, device
        self.main = rank == 0
        # Flags and states travel between CPUs, so that agreeing never waits for a GPU.
        self.side = dist.new_group(backend="gloo") if world > 1 else None

    def share(self, batch: Batch) -> tuple[Batch, float]:
        """This process's rows of a batch, on its device, and what they weigh: 1, or 0 for a process that found no row
        left and computes one along, since every process has to take part.
        """
        weight = 1.0
        if self.world > 1:
            sizes = {name: x.shape[0] for name, x in batch.items() if x.ndim}
            if len(set(sizes.values())) != 1:
                raise ValueError(
                    f"a batch can be shared between {self.world} processes only if all its tensors have the same first "
                    f"dimension; they have {', '.join(f'{name} {size}' for name, size in sizes.items())}"
                )
            has_rows = self.rank < next(iter(sizes.values()))
            rows = slice(self.rank, None, self.world) if has_rows else slice(0, 1)
            batch, weight = {name: x[rows] if x.ndim else x for name, x in batch.items()}, float(has_rows)
        return {name: x.to(self.device, non_blocking=True) for name, x in batch.items()}, weight

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def any(self, *flags: bool) -> list[bool]:
        """For each flag, whether some process raised it."""
        if self.world == 1:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=self.side)
        return [bool(flag) for flag in raised]

    def gather(self, thing: Any) -> list[Any]:
        """What each process has, in their order."""
        things = [thing] * self.world
        if self.world > 1:
            dist.all_gather_object(things, thing, group=self.side)
        return things

    def tell(self, thing: Any) -> Any:
        """What the first process has, to all."""
        box = [thing]
        if self.world > 1:
            dist.broadcast_object_list(box, src=0, group=self.side)
        return box[0]
