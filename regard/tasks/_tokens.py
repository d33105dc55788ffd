"""Tokenizers of other runs, so that a run can start from their embeddings."""

from __future__ import annotations

from pathlib import Path

from regard._files import PRETRAINED
from regard.data.tokens import Tokenizer


def folder_of(run: str) -> Path:
    """The folder in which a run, or a shipped model, keeps its task."""
    folder = Path(run).expanduser()
    shipped = PRETRAINED / run
    return (shipped if not folder.exists() and shipped.is_dir() else folder) / "task"


def tokenizer_of(run: str) -> Tokenizer:
    """The tokenizer of the run in a folder, or of a shipped model."""
    path = folder_of(run) / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"tokens = {run}: it is no run with a tokenizer, since {path} is not there")
    return Tokenizer.load(path)
