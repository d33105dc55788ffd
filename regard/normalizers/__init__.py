"""How do scores become weights? One file, one normalizer."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
