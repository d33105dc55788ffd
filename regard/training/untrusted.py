"""A run that may come from a stranger: what its files claim is compared with what they are before memory is taken.

What opening a run may cost is in proportion to its size on disk: the model that the recipe describes is built within
a :class:`Budget`, the size of its file of weights. Numbers that cost time or memory without being in that file, such as
the size of a beam or the hops of a memory network, have a ceiling. Links that lead out of the folder, pipes and devices
are refused. Errors are ValueErrors that name the file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.training import checkpoint

CEILINGS = {"system": 10_000, "task": 10_000_000, "decode": 1_000}
"""The largest number that a section of a recipe may hold, or ten times the default of its key if that is more."""
SIDES, LARGEST_SIDE = ("size", "pixels"), 2_048
"""Settings of tasks that are the height and width of a picture."""
SPARE = 1 << 24
"""Numbers that a model may hold beside its weights, such as tables of positions."""
LIFT = "if you know where it comes from, --trust (in a program trust=True) lifts this limit"


def check_files(folder: Path) -> None:
    """Refuse links that lead out of ``folder``, and what is neither a file nor a folder."""
    home = folder.resolve()
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) and not path.resolve().is_relative_to(home):
                raise ValueError(f"{path} is a link that leads out of the run, to {os.readlink(path)}; {LIFT}")
            if not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise ValueError(f"{path} is neither a file nor a folder but a pipe, a socket or a device")


def check_numbers(section: str, values: Mapping[str, Any], config: type, where: Path) -> None:
    """Refuse settings above the ceiling of their section."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for key, value in values.items():
        default = defaults.get(key, 0)
        ceiling = LARGEST_SIDE if section == "task" and key in SIDES else CEILINGS[section]
        most = max(ceiling, 10 * default if isinstance(default, int | float) else 0)
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, int | float) and not -most <= number <= most:
                raise ValueError(f"{where}: {key} = {number} is unusually large, more than {most:,}; {LIFT}")


def check_task(path: Path, config: type) -> None:
    """The same for the settings in ``task.json``; whatever else may be wrong with it is found when it is loaded."""
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    settings = description.get("config") if isinstance(description, dict) else None
    check_numbers("task", settings if isinstance(settings, dict) else {}, config, path)


class Budget(TorchFunctionMode):
    """Within it, tensors are made only as long as they are together not much larger than the file of weights, and not
    many more than are in it; a ValueError comes before the memory is taken."""

    def __init__(self, weights: Path):
        super().__init__()
        self.weights = weights
        self.tensors = 4 * checkpoint.count(weights) + 1_000
        # Four times: tied weights are made twice, and first values may need some space.
        self.numbers = 4 * weights.stat().st_size + SPARE

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _MAKERS and str(kwargs.get("device")) != "meta":
            self.tensors -= 1
            self.numbers -= _numel(func, args, kwargs)
            if min(self.tensors, self.numbers) < 0:
                raise ValueError(f"the recipe describes a model that is much larger than {self.weights}; {LIFT}")
        return func(*args, **kwargs)


_LINES = (torch.arange, torch.linspace)
_MAKERS = {
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint, torch.eye, *_LINES),
    *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full),
}


def _numel(func: Any, args: tuple, kwargs: Mapping[str, Any]) -> int:
    """How many numbers a call of one of ``_MAKERS`` makes room for."""
    sizes = [arg for arg in (*args, kwargs.get("size")) if isinstance(arg, list | tuple)]
    numbers = [arg for arg in args if isinstance(arg, int | float) and not isinstance(arg, bool)]
    if func in _LINES:
        return int(max(map(abs, numbers), default=0))
    if func is torch.eye:
        return int(math.prod(numbers if len(numbers) > 1 else numbers * 2))
    return int(math.prod(sizes[-1] if sizes else numbers))
