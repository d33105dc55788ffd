"""One file per family of systems: how to build each small, and what to feed it. Contracts run over all of them."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A small system.

    Attributes:
        options: all that its Config needs, sizes included, dropout and noise off.
        batch: makes a batch.
        alone: its examples one by one, without padding; None where examples cannot be told apart, as in one graph.
        frozen: patterns of parameters that get no gradient by design.
        looks: whether it looks at all (an ablation may not).
        columns: of a system that writes, (B, S): which items of its source axis exist, by name where it has several;
            the tokens of ``source``, if None.
    """

    options: dict[str, Any]
    batch: Callable[[], Batch]
    alone: Callable[[Batch], list[Batch]] | None = None
    frozen: tuple[str, ...] = ()
    looks: bool = True
    columns: Callable[[Batch], Tensor | dict[str, Tensor]] | None = None

    def __str__(self) -> str:
        return "-".join(str(value) for value in self.options.values() if isinstance(value, str | bool)) or "plain"


def all_cases() -> dict[str, list[Case]]:
    """The cases of every family, by the name of the system."""
    found: dict[str, list[Case]] = {}
    for module in pkgutil.iter_modules(__path__):
        found |= importlib.import_module(f"{__name__}.{module.name}").CASES
    return found
