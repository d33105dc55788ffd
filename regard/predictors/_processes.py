"""Answers from several processes at once, in the order of the questions."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from regard import _heap

_answer: Callable[[Any], Any] | None = None


def spread(answer: Callable[[Any], Any], questions: Iterable[Any], workers: int) -> Iterator[Any]:
    """``answer`` of each question, computed by ``workers`` processes of one thread each.

    Only a few questions are taken before their turn, so that an endless stream is answered as it comes.
    """
    context = multiprocessing.get_context("spawn")  # a fork would inherit threads that do not run
    others = set(multiprocessing.active_children())
    waiting: deque[Future[Any]] = deque()
    pool = ProcessPoolExecutor(workers, context, _receive, (answer,))
    try:
        with _uninterrupted():
            pool.submit(int)  # the processes start with the first job
        for question in questions:
            waiting.append(pool.submit(_call, question))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:  # Ctrl-C too: nobody waits for what is being computed
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start here leave Ctrl-C to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _receive(answer: Callable[[Any], Any]) -> None:
    global _answer
    torch.set_num_threads(1)
    _heap.keep()
    _answer = answer


def _call(question: Any) -> Any:
    assert _answer is not None
    return _answer(question)
