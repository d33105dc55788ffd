"""How it went, as JSON lines and for TensorBoard."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class Metrics:
    """Lines appended to a file. What a full disk did not take is kept and written later.

    ``size`` at the opening is how much of the file counts: what a killed process wrote after its last checkpoint is cut
    off, so that no step is told twice.
    """

    def __init__(self, path: Path, size: int = 0, board: Board | None = None):
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.waiting = bytearray()
        self.board = board
        if size < os.fstat(self.handle).st_size:
            os.truncate(self.handle, size)

    def log(self, split: str, step: int, values: Mapping[str, float]) -> None:
        """One line: what was measured on ``split`` at ``step``. A value that is not finite becomes null."""
        line: dict[str, Any] = {"step": step, "split": split}
        line |= {name: value if math.isfinite(value) else None for name, value in values.items()}
        self.waiting += json.dumps(line).encode() + b"\n"
        with suppress(OSError):  # flush(), before the next checkpoint, tries again and tells
            self._write()
        if self.board:
            self.board.log(split, step, values)

    def _write(self) -> None:
        while self.waiting:
            del self.waiting[: os.write(self.handle, self.waiting)]

    def flush(self) -> int:
        """Force all to disk; the size of the file."""
        self._write()
        os.fsync(self.handle)
        return os.fstat(self.handle).st_size

    def close(self) -> None:
        """Write what can be written."""
        with suppress(OSError):
            self._write()
        os.close(self.handle)
        if self.board:
            self.board.close()


class Board:
    """TensorBoard's event files: a convenience, whose troubles never become the training's.

    Its writer cannot be used again once the disk was full, so a new one is opened. ``step`` is where a resumed training
    stands: later events of the session before are hidden.
    """

    def __init__(self, folder: Path, step: int):
        self.folder, self.step = folder, step
        self.writer: Any = None

    def log(self, split: str, step: int, values: Mapping[str, float]) -> None:
        """One scalar for each value."""
        try:
            if self.writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self.writer = SummaryWriter(str(self.folder), purge_step=self.step + 1)
            for name, value in values.items():
                self.writer.add_scalar(f"{split}/{name}", value, step)
            self.writer.flush()
            self.step = step
        except (OSError, ImportError):  # no room, or TensorBoard is not installed
            self.writer = None

    def close(self) -> None:
        """Write what can be written."""
        if self.writer:
            with suppress(OSError):
                self.writer.close()
