"""Learning rates. All but plateau are pure functions of where the training stands, so that nothing has to be kept.

Steps count from 1: the first update is made with the rate of step 1. Positions are in epochs, 2.5 in the middle of the
third.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.training.config import TrainConfig


def noam(step: int, *, lr: float, width: int, warmup: int) -> float:
    """lr · width^-½ · min(step^-½, step · warmup^-³ᐟ²). Vaswani et al. 2017, arXiv:1706.03762, eq. 3."""
    return lr * width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step: int, *, lr: float, warmup: int) -> float:
    """The same curve, with ``lr`` as its peak."""
    return lr * min(step / warmup, (warmup / step) ** 0.5)


def cosine(step: int, *, lr: float, warmup: int, total: int, floor: float = 0.0) -> float:
    """From ``lr`` after the warm-up down to ``floor`` at step ``total``, as half a wave. Loshchilov & Hutter 2017,
    arXiv:1608.03983, eq. 5, without restarts."""
    done = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
    return floor + (lr - floor) * 0.5 * (1 + math.cos(math.pi * done))


def stepwise(position: float, *, lr: float, decay: float, after: float, every: float) -> float:
    """``lr`` up to ``after``, then multiplied by ``decay`` there and every ``every``. Sutskever et al. 2014 and Luong
    et al. 2015 begin to halve after five epochs, every half epoch and every epoch."""
    times = 0 if position < after else math.floor((position - after) / every) + 1
    return lr * decay**times


class Plateau:
    """Multiplied by ``decay`` whenever ``patience`` validations in a row brought nothing better."""

    def __init__(self, lr: float, decay: float, patience: int):
        self.lr, self.decay, self.patience = lr, decay, patience
        self.times = self.bad = 0

    def rate(self) -> float:
        return self.lr * self.decay**self.times

    def observe(self, better: bool) -> None:
        """Tell what a validation brought."""
        self.bad = 0 if better else self.bad + 1
        if self.bad >= self.patience:
            self.times, self.bad = self.times + 1, 0


class Schedule:
    """The rate that a config asks for, as a function of step and epoch. ``total`` is the last step, for cosine."""

    def __init__(self, config: TrainConfig, total: int | None = None):
        self.config = config
        self.plateau = Plateau(config.lr, config.decay, config.decay_patience)
        self.curve = self._curve(config, total)

    def _curve(self, config: TrainConfig, total: int | None) -> Callable[[int, float], float]:
        lr, warmup = config.lr, config.warmup
        if config.schedule == "noam":
            width = config.width or 1
            return lambda step, epoch: noam(step, lr=lr, width=width, warmup=warmup)
        if config.schedule == "inverse_sqrt":
            return lambda step, epoch: inverse_sqrt(step, lr=lr, warmup=warmup)
        if config.schedule == "cosine":
            if total is None:
                raise ValueError("the schedule 'cosine' needs its last step, and the data has no length: give steps")
            return lambda step, epoch: cosine(step, lr=lr, warmup=warmup, total=total, floor=config.min_lr)
        if config.schedule == "step":
            decay = dict(lr=lr, decay=config.decay, after=config.decay_after, every=config.decay_every)
            epochs = config.decay_in == "epochs"
            return lambda step, epoch: stepwise(epoch if epochs else step - 1, **decay)
        if config.schedule == "plateau":
            return lambda step, epoch: self.plateau.rate()
        return lambda step, epoch: lr

    def __call__(self, step: int, epoch: float) -> float:
        rate = self.curve(step, epoch)
        if step >= self.config.warmup:
            return max(rate, self.config.min_lr)
        if self.config.schedule in ("noam", "inverse_sqrt"):  # their warm-up is part of the formula
            return rate
        return rate * step / self.config.warmup

    def observe(self, better: bool) -> None:
        """Tell what a validation brought; only plateau listens."""
        if self.config.schedule == "plateau":
            self.plateau.observe(better)

    def state_dict(self) -> dict[str, int]:
        return {"times": self.plateau.times, "bad": self.plateau.bad}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.plateau.times, self.plateau.bad = state["times"], state["bad"]
