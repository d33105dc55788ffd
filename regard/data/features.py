"""Features of photographs, computed once and kept on disk.

A frozen backbone gives the same features for the same file every time, and takes a hundred times longer than a
captioner's step. A :class:`Store` keeps them in float16, by the content of each file, so that renamed, moved and
repeated files are found again::

    store = Store(stage=5, size=224)
    grids = store.features(photographs)          # computes what is missing, with a bar on a terminal
    grids[[3, 17]]                               # (2, 196, 112), float32

On disk a store is a folder for each backbone, stage, size and fit with two files: ``grids``, rows of float16, and
``keys``, the SHA-256 of the file that each row belongs to. Rows are appended and come before their keys, so that after
a kill at any moment the keys say how many rows are whole.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data import download, photographs
from regard.data.photographs import Photograph
from regard.layers import efficientnet

BACKBONE = "efficientnet-lite0"
_KEY = 32  # bytes of a SHA-256


class Features:
    """The features of some photographs: item ``rows`` is (B, cells, width) in float32. They stay on disk, mapped into
    memory."""

    def __init__(self, grids: np.ndarray, rows: np.ndarray):
        self._grids, self._rows = grids, rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Photographs, cells and width."""
        return len(self._rows), self._grids.shape[1], self._grids.shape[2]

    def __getitem__(self, rows: Any) -> Tensor:
        return torch.from_numpy(np.take(self._grids, self._rows[np.asarray(rows)], 0)).float()


class Store:
    """Grid features on disk; see the module's docstring.

    Args:
        stage: of the backbone, 1 to 8 (:class:`regard.layers.efficientnet.EfficientNetLite0`).
        size: height and width to which photographs are brought.
        fit: how they become square; see :mod:`regard.data.photographs`.
        folder: where the store is; ``features`` in the cache of :mod:`regard.data.download`, if None.
    """

    def __init__(self, stage: int = 5, size: int = 224, fit: str = "crop", folder: Path | None = None):
        if not 1 <= stage <= len(efficientnet.WIDTHS):
            raise ValueError(f"stage = {stage}: the backbone has stages 1 to {len(efficientnet.WIDTHS)}")
        if size < efficientnet.SMALLEST:
            raise ValueError(f"size = {size}: the backbone needs at least {efficientnet.SMALLEST} pixels a side")
        self.stage, self.size, self.fit = stage, size, fit
        home = folder if folder is not None else download.cache() / "features"
        self.folder = home / f"{BACKBONE}-{_version()}-stage{stage}-{size}-{fit}"

    @property
    def side(self) -> int:
        """Cells a side."""
        return efficientnet.grid(self.size, self.stage)

    @property
    def width(self) -> int:
        """Of the features of one cell."""
        return efficientnet.WIDTHS[self.stage - 1]

    def compute(self, pixels: np.ndarray) -> Tensor:
        """Of images (B, 3, size, size) of bytes: (B, cells, width), as they come back from the disk."""
        with torch.inference_mode():
            grid = _backbone().features(torch.from_numpy(pixels), self.stage)  # (B, width, side, side)
        return grid.flatten(2).mT.half().float().clone()

    def features(self, photos: Sequence[Photograph], *, batch: int = 16, progress: bool | None = None) -> Features:
        """Of photographs, in their order. What is not yet in the store is computed first, ``batch`` at a time.

        Args:
            progress: show a bar on stderr; if None, where that is a terminal.
        """
        keys, index = self._filled(photos, batch, progress, None)
        rows = np.array([index[keys[photo]] for photo in photos], np.int64)
        return Features(self._map(len(index)), rows)

    def unreadable(
        self, photos: Sequence[Photograph], *, batch: int = 16, progress: bool | None = None
    ) -> dict[Photograph, str]:
        """Which photographs cannot be read, and why. The features of the others are computed on the way, since a
        photograph must be decoded to know."""
        errors: dict[Photograph, str] = {}
        keys, index = self._filled(photos, batch, progress, errors)
        messages = {
            keys[photo]: message for photo, message in errors.items() if photo in keys
        }  # files of one content are tried once
        return errors | {photo: messages[key] for photo, key in keys.items() if key not in index}

    def _filled(
        self, photos: Sequence[Photograph], batch: int, progress: bool | None, errors: dict[Photograph, str] | None
    ) -> tuple[dict[Photograph, bytes], dict[bytes, int]]:
        """The key of each photograph, and the row of each key, once missing features are computed; see
        :func:`_noted`."""
        keys: dict[Photograph, bytes] = {}
        for photo in dict.fromkeys(photos):
            with _noted(photo, errors):
                keys[photo] = bytes.fromhex(photographs.fingerprint(photo))
        index = self._index()
        if any(key not in index for key in keys.values()):
            with self._writing():
                index = self._mend()  # another process may have been here
                missing: dict[bytes, Photograph] = {}
                for photo, key in keys.items():
                    if key not in index:
                        missing.setdefault(key, photo)
                if missing:
                    with_bar = sys.stderr.isatty() if progress is None else progress
                    self._append(list(missing.items()), batch, with_bar, errors)
            index = self._index()
        return keys, index

    def __len__(self) -> int:
        return len(self._index())

    @property
    def _row_bytes(self) -> int:
        return 2 * self.side * self.side * self.width

    def _whole(self) -> int:
        """Rows that are complete on disk."""
        sizes = [_size(self.folder / "grids") // self._row_bytes, _size(self.folder / "keys") // _KEY]
        return min(sizes)

    def _index(self) -> dict[bytes, int]:
        """The row of each key."""
        count = self._whole()
        if not count:
            return {}
        digests = (self.folder / "keys").read_bytes()
        return {digests[_KEY * row : _KEY * (row + 1)]: row for row in range(count)}

    def _mend(self) -> dict[bytes, int]:
        """Cut off what a killed process left half written."""
        count = self._whole()
        for name, size in (("grids", self._row_bytes), ("keys", _KEY)):
            if _size(self.folder / name) > count * size:
                os.truncate(self.folder / name, count * size)
        return self._index()

    def _append(
        self,
        missing: list[tuple[bytes, Photograph]],
        batch: int,
        progress: bool,
        errors: dict[Photograph, str] | None,
    ) -> None:
        groups = [missing[first : first + batch] for first in range(0, len(missing), batch)]
        with (self.folder / "grids").open("ab") as grids, (self.folder / "keys").open("ab") as keys:
            for group in _tracked(groups, len(missing), progress):
                pixels = {}
                for key, photo in group:
                    with _noted(photo, errors):
                        pixels[key] = photographs.read(photo, self.size, fit=self.fit)
                if pixels:
                    grids.write(self.compute(np.stack(list(pixels.values()))).half().numpy().tobytes())
                    _to_disk(grids)
                    keys.write(b"".join(pixels))
                    _to_disk(keys)

    def _map(self, count: int) -> np.ndarray:
        shape = (count, self.side**2, self.width)
        if not count:
            return np.zeros(shape, np.float16)
        return np.memmap(self.folder / "grids", np.float16, "r", shape=shape)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One process writes, others wait for it; the system ends the lock with the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("wb") as handle:
            if os.name == "posix":
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@contextmanager
def _noted(photo: Photograph, errors: dict[Photograph, str] | None) -> Iterator[None]:
    """What is wrong with a photograph is noted in ``errors``, and raised if that is None."""
    try:
        yield
    except ValueError as error:
        if errors is None:
            raise ValueError(f"{error}. Mend it, or leave such pictures out with --skip-bad") from None
        errors[photo] = str(error)


def _tracked(groups: Iterable[list[Any]], total: int, progress: bool) -> Iterator[list[Any]]:
    """The groups, with a bar that counts their items."""
    if not progress:
        yield from groups
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("features of photographs", total=total)
        for group in groups:
            yield group
            bar.advance(task, len(group))


def _to_disk(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@cache
def _backbone() -> efficientnet.EfficientNetLite0:
    return efficientnet.pretrained()


@cache
def _version() -> str:
    """Of the backbone's weights."""
    return hashlib.sha256(efficientnet.WEIGHTS.read_bytes()).hexdigest()[:8]
