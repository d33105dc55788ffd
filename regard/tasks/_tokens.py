"""Tokens that one run has and another reads, so that it can start from its embeddings."""

from __future__ import annotations

from pathlib import Path

from regard.data.tokens import Tokenizer


def tokenizer_of(run: str) -> Tokenizer:
    """The tokenizer of the run in a folder."""
    path = Path(run).expanduser() / "task" / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"tokens = {run}: it is no run with a tokenizer, since {path} is not there")
    return Tokenizer.load(path)
