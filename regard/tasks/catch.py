"""Catch, a game: a falling ball and a paddle. Mnih et al. 2014 (arXiv:1406.6247), section 4.3.

A batch has the beginnings of B games: ``ball``, the column of the ball in the top row; ``speed``, its columns a step,
−1, 0 or 1; and ``paddle``, the left end of the paddle in the bottom row. What happens then is up to the player. Games
are new in every epoch of training, and the same always where it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from regard._settings import at_least
from regard.tasks.task import VISION, Batch, GeneratedTask


@dataclass(frozen=True)
class Config:
    """The screen, and how much is played; the screen and the paddle are the paper's.

    Attributes:
        size: height and width of the screen.
        paddle: its width.
        batch: games to a batch.
        batches: batches to an epoch of training.
        measured: batches of a validation; a test has five times as many.
    """

    size: int = 24
    paddle: int = 2
    batch: int = 128
    batches: int = 200
    measured: int = 8

    def __post_init__(self) -> None:
        at_least(self, "paddle", "batch", "batches", "measured")
        if self.size < max(3, self.paddle):
            raise ValueError(f"size = {self.size}: a screen has 3 rows or more, and holds a paddle of {self.paddle}")


class Catch(GeneratedTask):
    """The beginnings of games; see the module's docstring."""

    kind: ClassVar[str] = "games"
    family: ClassVar[str] = VISION
    unit: ClassVar[str] = "games"
    settings = Config

    @property
    def sizes(self) -> dict[str, int]:
        """Of the screen and the paddle."""
        return {"height": self.config.size, "width": self.config.size, "paddle": self.config.paddle}

    def length(self, split: str) -> int:
        return {"train": self.config.batches, "valid": self.config.measured, "test": 5 * self.config.measured}[split]

    def make(self, split: str, random: np.random.Generator, epoch: int, number: int) -> Batch:
        """A ball anywhere in the top row, and a paddle anywhere in the bottom row."""
        config = self.config
        arrays = {
            "ball": random.integers(0, config.size, config.batch),
            "speed": random.integers(-1, 2, config.batch),
            "paddle": random.integers(0, config.size - config.paddle + 1, config.batch),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
