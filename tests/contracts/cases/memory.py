"""Machines with a memory of their own: tapes of bits for the NTM, strings for the Stack RNN."""

import torch

from contracts.cases import Batch, Case

B, T = 4, 9


def tapes() -> Batch:
    """Random bits in and out; the first sequences are asked for less than the last."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(0, 2, (B, T, 7), generator=generator).float()
    mask = (torch.arange(T) >= torch.tensor([[7], [5], [3], [2]])).float()
    return {"input": bits[..., :4], "target": bits[..., 4:], "mask": mask}


def strings() -> Batch:
    """Random symbols of three kinds."""
    generator = torch.Generator().manual_seed(0)
    symbols = torch.randint(0, 3, (B, T + 1), generator=generator)
    return {"symbols": symbols, "known": (symbols[:, 1:] > 0).float()}


def alone(batch: Batch) -> list[Batch]:
    """The examples one by one; nothing is padded."""
    return [{name: tensor[b : b + 1] for name, tensor in batch.items()} for b in range(B)]


SIZES = {"inputs": 4, "outputs": 3, "rows": 6, "width": 5, "hidden": 8}
CASES = {
    "ntm": [
        Case({**SIZES, "controller": controller, **more}, tapes, alone)
        for controller in ("feedforward", "lstm")
        for more in ({}, {"reads": 2, "writes": 3, "reach": 2})
    ],
    "stack_rnn": [
        Case({"symbols": 3, "hidden": 8, "stacks": 3, "structure": structure, **more}, strings, alone)
        for structure in ("stack", "list")
        for more in ({}, {"no_op": True, "recurrent": True, "rounding": False})
    ],
}
