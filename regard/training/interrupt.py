"""Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) as a wish, fulfilled at the end of the step."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any


class Interrupt:
    """``signal`` is the name of what arrived, or None. A second Ctrl-C is obeyed at once."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._since = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # Python takes signals nowhere else
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
                number = getattr(signal, name, None)
                if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                    continue  # started with nohup
                self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        # A launcher passes on the Ctrl-C that the terminal has already sent to everyone: that is still the first one.
        again = self.signal is not None and time.monotonic() - self._since > 1
        if number == signal.SIGINT and again:
            raise KeyboardInterrupt
        if self.signal is None:
            self.signal, self._since = signal.Signals(number).name, time.monotonic()
