"""Everything random, as one state that can be kept and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed(number: int) -> None:
    """Seed Python, NumPy and PyTorch on every device. Call it before building a model, too."""
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.manual_seed(number)


def state(device: torch.device) -> dict[str, Any]:
    """The random states, in types that ``torch.load(weights_only=True)`` reads."""
    version, internal, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    twister = {"key": torch.from_numpy(numpy["state"]["key"].astype(np.int64)), "pos": int(numpy["state"]["pos"])}
    states = {
        "python": [version, torch.tensor(internal), gauss],
        "numpy": {"state": twister, "has_gauss": int(numpy["has_gauss"]), "gauss": float(numpy["gauss"])},
        "torch": torch.get_rng_state(),
    }
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state()
    return states


def restore(kept: dict[str, Any], device: torch.device) -> None:
    """Put back what :func:`state` gave. A device that the state does not know keeps its own."""
    version, internal, gauss = kept["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    numpy = kept["numpy"]
    twister = {"key": numpy["state"]["key"].numpy().astype(np.uint32), "pos": numpy["state"]["pos"]}
    np.random.set_state({**numpy, "bit_generator": "MT19937", "state": twister})
    torch.set_rng_state(kept["torch"])
    if device.type in kept and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(kept[device.type])


@contextmanager
def apart(number: int, device: torch.device) -> Iterator[None]:
    """Inside, everything random starts from ``number``; afterwards all is as if nothing had been drawn."""
    states = state(device)
    seed(number)
    try:
        yield
    finally:
        restore(states, device)
