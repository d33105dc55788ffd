"""Writing files that are whole or not there, and reading only what is a file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRETRAINED = Path(__file__).parent / "pretrained"
"""Where the models lie that come with the package."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; its file replaces ``path`` at the end, unless that failed."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except OSError as error:
        if error.filename == os.fspath(unfinished):
            error.filename = os.fspath(path)  # the name that the caller knows
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``. A file that was there is replaced at once or, when the disk is full, not at all."""
    with whole(path) as unfinished:
        unfinished.write_bytes(data)


def regular(path: Path) -> Path:
    """``path``, if a file is there or a link to one: a pipe or a device might never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(
            f"{path}: not a file" + (" but a folder" if path.is_dir() else ", or a link to something else")
        )
    return path
