"""How much a client may ask for, and how long it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a server; the defaults fit one machine with a few cores."""

    batch: int = 32
    """Questions to one model that are answered together."""
    queue: int = 128
    """Questions that may wait for one model; a further one gets 429."""
    seconds: float = 30.0
    """From a question to its answer; after that the client gets 504."""
    body: int = 128 * 1024
    """Bytes of a question (413)."""
    connections: int = 512
    """Open connections; whoever comes then is refused (503)."""
    head_seconds: float = 10.0
    """For a client to say what it wants; after that it is cut off."""
    body_seconds: float = 10.0
    """For a client to send its question (408), and to take its answer."""
    idle_seconds: float = 5.0
    """That a connection stays open after an answer."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} = {value}: a limit must be more than 0, and finite")
