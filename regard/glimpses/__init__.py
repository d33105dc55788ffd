"""Attention by position: parameters become weights over positions, then a read (and a write)."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
