"""Formats on disk, generators, tokenizers and downloads; one format, one file. Nothing here knows a task."""

SPLITS = ("train", "valid", "test")
