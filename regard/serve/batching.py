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
    """Too many are waiting. ``seconds``: when it may be worth to come back."""

    def __init__(self, seconds: float):
        self.seconds = seconds


class Closed(Exception):
    """No more questions are taken."""


class Fault(Exception):
    """This question made the one who answers fail; the log says how."""


@dataclass(eq=False)
class _Asked:
    question: Any
    future: asyncio.Future[Any]

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
        most: how many questions it gets at once.
        waiting: how many may wait.
        seen: told of each batch its size and seconds, before its answers go out.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        most: int,
        waiting: int,
        name: str = "",
        seen: Callable[[int, float], None] | None = None,
    ):
        self._answer, self._most, self._room, self._name, self._seen = answer, most, waiting, name, seen
        self._queue: deque[_Asked] = deque()
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
        """The answer; TimeoutError after so many seconds, and the question is then no longer waiting."""
        asked = _Asked(question, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._queue) >= self._room:
                raise Full(self._pace * (1 + len(self._queue) // self._most))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"regard {self._name}", daemon=True)
                self._thread.start()
            self._queue.append(asked)
            self._changed.notify()
        try:
            return await asyncio.wait_for(asked.future, seconds)
        finally:
            with self._changed:
                if asked in self._queue:
                    self._queue.remove(asked)

    def close(self, seconds: float | None = None) -> None:
        """Take no more questions, turn away those that wait, and let the batch that is being computed end."""
        with self._changed:
            self._closed = True
            turned_away, self._queue = list(self._queue), deque()
            self._changed.notify()
        for asked in turned_away:
            asked.deliver(Closed())
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        while batch := self._take():
            began = time.perf_counter()
            answers = self._answers([asked.question for asked in batch])
            took = time.perf_counter() - began
            self._pace = took if not self._pace else 0.8 * self._pace + 0.2 * took
            if self._seen is not None:  # before the answers: whoever has one finds it counted
                self._seen(len(batch), took)
            for asked, answer in zip(batch, answers, strict=True):
                asked.deliver(answer)

    def _take(self) -> list[_Asked]:
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            return [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]

    def _answers(self, questions: list[Any]) -> Sequence[Any]:
        """A question that breaks its batch is found by asking one by one: its neighbours get their answers."""
        try:
            answers = self._answer(questions)
            if len(answers) != len(questions):
                raise RuntimeError(f"{len(questions)} questions to {self._name} had {len(answers)} answers")
            return answers
        except Exception:
            if len(questions) == 1:
                log.exception("%s failed at a question", self._name)
                return [Fault()]
        return [answer for question in questions for answer in self._answers([question])]
