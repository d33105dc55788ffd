"""How well does this key fit this query? One file, one score."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
