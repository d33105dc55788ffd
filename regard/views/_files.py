"""Writing files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``. A file that was there is replaced at once or, when the disk is full, not at all."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()
