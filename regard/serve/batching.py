"""Questions of many clients, answered together.

One thread answers. Whenever it is free it takes all that is waiting, up to a limit: a lone question is never kept back,
and while one batch is computed the next one gathers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("regard.serve")


class Full(Exception):
    """Too many questions wait. ``seconds``: an estimate of when there will be room."""

    def __init__(self, seconds: float):
        self.seconds = seconds


class Closed(Exception):
    """No more questions are taken."""


class Fault(Exception):
    """The function that answers failed at this question; the log says how."""


@dataclass(eq=False)
class _Pending:
    question: Any
    future: asyncio.Future[Any]

    @property
    def awaited(self) -> bool:
        """Does anyone still want the answer?"""
        return not self.future.done()

    def deliver(self, answer: Any) -> None:
        """From the thread, to the loop that waits."""
        with suppress(RuntimeError):  # the loop was closed meanwhile; nobody waits
            self.future.get_loop().call_soon_threadsafe(self._settle, answer)

    def _settle(self, answer: Any) -> None:
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class Batcher:
    """A function of many questions, shared by clients who have one each.

    Args:
        answer: questions → as many answers in their order; only ever called in one thread.
        max_batch: the most questions that it gets at once.
        max_waiting: the most questions that may wait.
        on_batch: called with the size and the seconds of each batch, before its answers are delivered.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        max_batch: int,
        max_waiting: int,
        name: str = "",
        on_batch: Callable[[int, float], None] | None = None,
    ):
        self._answer, self._name, self._on_batch = answer, name, on_batch
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._queue: deque[_Pending] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pace = 0.0  # seconds of a batch, a moving mean

    def __len__(self) -> int:
        """How many wait."""
        return len(self._queue)

    @property
    def alive(self) -> bool:
        """Will a question be answered?"""
        return not self._closed and (self._thread is None or self._thread.is_alive())

    async def ask(self, question: Any, seconds: float | None = None) -> Any:
        """The answer; TimeoutError after ``seconds``, and the question leaves the queue."""
        pending = _Pending(question, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._queue) >= self._max_waiting:
                raise Full(self._pace * (1 + len(self._queue) // self._max_batch))
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=f"regard {self._name}", daemon=True)
                thread.start()
                self._thread = thread
            self._queue.append(pending)
            self._changed.notify()
        try:
            return await asyncio.wait_for(pending.future, seconds)
        finally:
            with self._changed:
                if pending in self._queue:
                    self._queue.remove(pending)

    def close(self, seconds: float | None = None) -> None:
        """Take no more questions, turn away those that wait, and let the batch that is being computed end."""
        with self._changed:
            self._closed = True
            turned_away, self._queue = list(self._queue), deque()
            self._changed.notify()
        for pending in turned_away:
            pending.deliver(Closed())
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        while batch := self._take():
            began = time.perf_counter()
            answers = self._answers(batch)
            took = time.perf_counter() - began
            self._pace = took if not self._pace else 0.8 * self._pace + 0.2 * took
            if self._on_batch is not None:  # before the answers: whoever has one finds it counted
                self._on_batch(len(batch), took)
            for pending, answer in zip(batch, answers, strict=True):
                pending.deliver(answer)

    def _take(self) -> list[_Pending]:
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            return [self._queue.popleft() for _ in range(min(self._max_batch, len(self._queue)))]

    def _answers(self, batch: list[_Pending]) -> Sequence[Any]:
        """A question that breaks its batch is found by asking one by one: its neighbours get their answers."""
        try:
            answers = self._answer([pending.question for pending in batch])
            if len(answers) != len(batch):
                raise RuntimeError(f"{len(batch)} questions to {self._name} had {len(answers)} answers")
            return answers
        # SystemExit and a Rust panic of tokenizers are no Exception, and would end the thread for everyone.
        except BaseException:
            if len(batch) == 1:
                log.exception("%s failed at a question", self._name)
                return [Fault()]
        return [answer for pending in batch for answer in (self._answers([pending]) if pending.awaited else [None])]
