"""One paper, one file: each system says what its query, key, value, score and normalizer are, and uses the core."""

from regard._lazy import folder

__getattr__, __dir__ = folder(__name__)
