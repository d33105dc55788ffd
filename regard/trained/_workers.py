"""Answers from several processes at once, in the order of the questions."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import torch

_answer: Callable[[Any], Any] | None = None


def spread(answer: Callable[[Any], Any], questions: Iterable[Any], workers: int) -> Iterator[Any]:
    """``answer`` of each question, computed by so many processes of one thread each.

    Only a few questions are taken before their turn, so that an endless stream is answered as it comes.
    """
    context = multiprocessing.get_context("spawn")  # a fork would inherit threads that do not run
    waiting: deque[Future[Any]] = deque()
    with ProcessPoolExecutor(workers, context, _receive, (answer,)) as pool:
        try:
            for question in questions:
                waiting.append(pool.submit(_call, question))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _receive(answer: Callable[[Any], Any]) -> None:
    global _answer
    torch.set_num_threads(1)
    _answer = answer


def _call(question: Any) -> Any:
    assert _answer is not None
    return _answer(question)
