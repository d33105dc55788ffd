"""Batches that are made and not read: no data is needed, and none is repeated."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from regard._lazy import nearest, snake

FORMAT = 1
SPLITS = ("train", "valid", "test")
Batch = dict[str, Tensor]
Make = Callable[[np.random.Generator, int, int], Batch]
"""Random numbers, the epoch and the number of the batch → the batch."""


class Generated:
    """Batches of one split: batch k of an epoch is a pure function of the seed, the epoch and k.

    Iterating gives the rest of the current epoch and then moves on to the next. ``state_dict()`` after batch k, put
    into a loader with the same settings, makes it go on with batch k + 1.
    """

    def __init__(self, make: Make, batches: int, *, seed: tuple[int, ...], fresh: bool, identity: Mapping[str, Any]):
        self._make, self._batches, self._seed, self._fresh = make, batches, seed, fresh
        self._identity = {"seed": list(seed), "fresh": fresh, "batches": batches, **identity}
        self.epoch = 0
        self._batch = 0

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[Batch]:
        while self._batch < self._batches:
            self._batch += 1
            epoch = self.epoch if self._fresh else 0
            random = np.random.default_rng([*self._seed, epoch, self._batch])
            yield self._make(random, epoch, self._batch - 1)
        self.epoch, self._batch = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as JSON can hold it."""
        return {"epoch": self.epoch, "batch": self._batch, "of": dict(self._identity)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loader of ``state`` was."""
        if state["of"] != self._identity:
            before, now = state["of"], self._identity
            changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            told = ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in changed)
            raise ValueError(f"the data cannot go on where it stopped: {told}")
        self.epoch, self._batch = state["epoch"], state["batch"]


class GeneratedTask:
    """A task without data. A subclass makes a batch, :meth:`make`, and says how many there are, :meth:`batches`."""

    settings: ClassVar[type]
    """The class of ``config``."""

    def __init__(self, config: Any, data: Path | str | None = None):
        if data is not None:
            raise ValueError(f"{snake(type(self).__name__)} makes its own data and reads none: leave --data {data} out")
        self.config = config

    def make(self, split: str, random: np.random.Generator, epoch: int, number: int) -> Batch:
        """Batch ``number`` of an epoch of a split."""
        raise NotImplementedError

    def batches(self, split: str) -> int:
        """The number of batches of an epoch of a split."""
        raise NotImplementedError

    def loader(self, split: str, *, seed: int = 0, shuffle: bool | None = None) -> Generated:
        """Batches of a split. New ones in every epoch of ``train``, the same in all others, unless ``shuffle`` says
        otherwise."""
        if split not in SPLITS:
            raise ValueError(f"no split is called {split!r}: {nearest(split, SPLITS)}")

        def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
            return self.make(split, random, epoch, number)

        fresh = split == "train" if shuffle is None else shuffle
        identity = {"split": split, "config": dataclasses.asdict(self.config)}
        return Generated(make, self.batches(split), seed=(SPLITS.index(split), seed), fresh=fresh, identity=identity)

    def save(self, folder: Path) -> None:
        """Write the settings."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"format": FORMAT, "task": snake(type(self).__name__), "config": dataclasses.asdict(self.config)}
        (folder / "task.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, data: Path | str | None = None, **changes: Any) -> Self:
        """The task that :meth:`save` wrote, with some settings changed."""
        path, name = folder / "task.json", snake(cls.__name__)
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            found, task, values = about["format"], about["task"], {**about["config"], **changes}
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not the description of a task") from None
        if found != FORMAT or task != name:
            raise ValueError(f"{path}: the task {task!r} in format {found}; expected {name!r} in format {FORMAT}")
        fields = [field.name for field in dataclasses.fields(cls.settings)]
        for key in values:
            if key not in fields:
                raise ValueError(f"{path}: {name} has no setting {key!r}: {nearest(key, fields)}")
        return cls(cls.settings(**values), data)
