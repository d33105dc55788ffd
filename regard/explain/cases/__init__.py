"""Cases for :func:`regard.explain.faithfulness` from our own systems: one file for each kind of task, which has
``cases(model, batch, random)`` and ``ITEMS``, the name of what is left out.

An answer is the model's own, and its score is the probability that the model gives it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.explain.faithfulness import Case


def kinds() -> list[str]:
    """The kinds of tasks that there are cases of."""
    return sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py"))


def items(kind: str) -> str:
    """What is left out, such as ``source tokens``."""
    return _of(kind).ITEMS


def cases(kind: str, model: nn.Module, loader: Any, limit: int, *, seed: int = 0) -> Iterator[Case]:
    """At most ``limit`` cases, some from each batch of the loader."""
    module, random = _of(kind), torch.Generator().manual_seed(seed)
    try:
        share = max(4, -(-limit // max(len(loader), 1)))
    except TypeError:  # a stream
        share = 4
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            examples = (case for batch in loader for case in islice(module.cases(model, batch, random), share))
            yield from islice(examples, limit)
    finally:
        model.train(was)


def _of(kind: str) -> Any:
    if kind not in kinds():
        raise ValueError(f"answers of the kind {kind!r} cannot be explained; those that can: {', '.join(kinds())}")
    return importlib.import_module(f"{__name__}.{kind}")
