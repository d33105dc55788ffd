"""Warnings that come once, and name the line of the user's code."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

_HERE = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
_shown: set[str] = set()


def once(subject: str, text: str) -> None:
    """Warn of ``subject`` the first time that it comes up in this process."""
    if subject in _shown or torch.compiler.is_compiling():
        return
    _shown.add(subject)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
