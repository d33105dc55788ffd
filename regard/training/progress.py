"""What the person in front of it sees: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

WARM = 5  # steps not counted in the speed: kernels compile, caches fill
FORECAST = 20  # steps after which the end is forecast


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def clock(seconds: float) -> str:
    """The time of day ``seconds`` from now, with the date if it is another day."""
    now = datetime.now().astimezone()
    then = now + timedelta(seconds=seconds)
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%H:%M on %d %B}"


def numbers(values: Mapping[str, float]) -> str:
    """``loss 2.31  nll 2.1``."""
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


class Forecast:
    """How long the rest takes, from how long this session took so far; validations and checkpoints included."""

    def __init__(self, steps: int | None, epochs: float | None, minutes: float | None):
        self.steps, self.epochs, self.minutes = steps, epochs, minutes
        self.seen = 0
        self.since: tuple[float, int, float] | None = None

    def left(self, step: int, epoch: float, seconds: float) -> float | None:
        """Seconds to the first of the ends that were set; None when that cannot be known yet."""
        lefts = [] if self.minutes is None else [self.minutes * 60 - seconds]
        if self.since:
            took, steps, epochs = time.monotonic() - self.since[0], step - self.since[1], epoch - self.since[2]
            if self.steps is not None and steps > 0:
                lefts.append((self.steps - step) * took / steps)
            if self.epochs is not None and epochs > 0:
                lefts.append((self.epochs - epoch) * took / epochs)
        return max(min(lefts), 0.0) if lefts else None

    def advance(self, step: int, epoch: float) -> None:
        self.seen += 1
        if self.seen == WARM:
            self.since = (time.monotonic(), step, epoch)

    def done(self, step: int, epoch: float, seconds: float) -> float | None:
        """The share of the way that lies behind, 0 to 1."""
        ends = [(step, self.steps), (epoch, self.epochs), (seconds / 60, self.minutes)]
        shares = [at / end for at, end in ends if end]
        return min(max(shares), 1.0) if shares else None


class Progress:
    """A bar with loss, speed and time left; without a terminal a line now and then; on other processes nothing."""

    def __init__(self, forecast: Forecast, unit: str, console: Any = None, quiet: bool = False):
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            raise ModuleNotFoundError("training needs rich. Type: pip install 'regard[train]'") from None
        self.console = console or Console(stderr=True, quiet=quiet)
        self.forecast, self.unit, self.quiet = forecast, unit, quiet
        self.shown = -float("inf")
        self.bar: Any = None
        if self.console.is_terminal and not quiet:
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            # Drawn by the loop, not by a thread: a thread would take its time from the training's.
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
            self.bar = Bar(*columns, console=self.console, auto_refresh=False, transient=True)
            self.task = self.bar.add_task("", total=None)

    def __enter__(self) -> Progress:
        if self.bar:
            with self._written():
                self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            with suppress(OSError):
                self.bar.stop()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A terminal that is gone, or a reader that has read enough, is no reason to stop: nothing more is said."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                self.__exit__()
                self.quiet, self.bar = True, None

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            with self._written():
                self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, step: int, epoch: float, seconds: float, look: Callable[[], tuple[float, float]]) -> None:
        """Called after every step; ``look`` gives loss and speed, and is called only when they are shown."""
        self.forecast.advance(step, epoch)
        now = time.monotonic()
        due = now - self.shown > (0.1 if self.bar else 10)
        left = self.forecast.left(step, epoch, seconds)
        if self.forecast.seen == FORECAST and left is not None:
            self.say(f"expected end: {clock(left)}, in {duration(left)}")
        if self.quiet or not due:
            return
        self.shown = now
        loss, speed = look()
        steps = "" if self.forecast.steps is None else f"/{self.forecast.steps}"
        epochs = "" if self.forecast.epochs is None else f"/{self.forecast.epochs:g}"
        text = f"step {step}{steps}  epoch {epoch:.2f}{epochs}  loss {loss:.4f}  {speed:,.0f} {self.unit}/s"
        if left is not None:
            text += f"  {duration(left)} left"
        if self.bar:
            done = self.forecast.done(step, epoch, seconds)
            total = 1.0 if done is not None else None
            with self._written():
                self.bar.update(self.task, completed=done or 0.0, total=total, description=text)
                self.bar.refresh()
        else:
            self.say(text)
