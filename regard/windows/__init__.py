"""Which keys are candidates at all? One file, one window."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
