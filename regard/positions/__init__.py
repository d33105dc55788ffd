"""Where do queries and keys stand? One file, one kind of positions."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
