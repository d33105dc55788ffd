"""One thread that answers many: who is answered together, who is turned away, and what a bad question spoils."""

import asyncio
import threading
import time

import pytest

from regard.serve.batching import Batcher, Closed, Fault, Full


class Counter:
    """Answers x with 10 x, and holds every batch until it is let go."""

    def __init__(self, held=False):
        self.batches, self.threads, self.go = [], set(), threading.Event()
        if not held:
            self.go.set()

    def __call__(self, questions):
        self.batches.append(list(questions))
        self.threads.add(threading.get_ident())
        assert self.go.wait(30)
        if "bad" in questions:
            raise RuntimeError("this one breaks its batch")
        return [10 * question for question in questions]


async def begun(counter):
    """The first batch is being computed."""
    while not counter.batches:
        await asyncio.sleep(0.005)


def test_a_lone_question_is_not_kept_back_and_others_gather_meanwhile():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, most=3, waiting=10)
        first = asyncio.create_task(batcher.ask(0))
        await begun(counter)
        assert counter.batches == [[0]]
        others = [asyncio.create_task(batcher.ask(x)) for x in range(1, 6)]
        await asyncio.sleep(0.01)
        assert len(batcher) == 5
        counter.go.set()
        assert await asyncio.gather(first, *others) == [0, 10, 20, 30, 40, 50]
        assert counter.batches == [[0], [1, 2, 3], [4, 5]]
        assert len(counter.threads) == 1 and threading.get_ident() not in counter.threads

    asyncio.run(main())


def test_whoever_comes_to_a_full_queue_is_turned_away_at_once():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, most=1, waiting=2)
        first = asyncio.create_task(batcher.ask(0))
        await begun(counter)
        others = [asyncio.create_task(batcher.ask(x)) for x in (1, 2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Full):
            await batcher.ask(3)
        counter.go.set()
        assert await asyncio.gather(first, *others) == [0, 10, 20]
        assert await batcher.ask(4) == 40

    asyncio.run(main())


def test_a_question_that_timed_out_leaves_its_place():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, most=4, waiting=1)
        first = asyncio.create_task(batcher.ask(0))
        await begun(counter)
        with pytest.raises(TimeoutError):
            await batcher.ask(1, seconds=0.02)
        assert len(batcher) == 0
        second = asyncio.create_task(batcher.ask(2))
        await asyncio.sleep(0.01)
        counter.go.set()
        assert await first == 0 and await second == 20
        assert counter.batches == [[0], [2]]

    asyncio.run(main())


def test_a_bad_question_spoils_only_its_own_answer():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, most=8, waiting=8)
        first = asyncio.create_task(batcher.ask(0))
        await begun(counter)
        rest = [asyncio.create_task(batcher.ask(x)) for x in (1, "bad", 3)]
        await asyncio.sleep(0.01)
        counter.go.set()
        one, bad, three = await asyncio.gather(*rest, return_exceptions=True)
        assert (await first, one, three) == (0, 10, 30) and isinstance(bad, Fault)
        assert batcher.alive and await batcher.ask(5) == 50

    asyncio.run(main())


def test_too_few_answers_reach_nobody():
    async def main():
        batcher = Batcher(lambda questions: [], most=8, waiting=8)
        with pytest.raises(Fault):
            await batcher.ask(1)

    asyncio.run(main())


def test_closing_ends_the_batch_and_turns_away_who_waits():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, most=1, waiting=8)
        first = asyncio.create_task(batcher.ask(1))
        await begun(counter)
        second = asyncio.create_task(batcher.ask(2))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(asyncio.to_thread(batcher.close, 30))
        with pytest.raises(Closed):
            await second
        counter.go.set()
        await closing
        assert await first == 10 and not batcher.alive
        with pytest.raises(Closed):
            await batcher.ask(3)

    asyncio.run(main())


def test_a_batch_is_reported_before_its_answers_go_out():
    """Whoever has an answer and then reads the metrics finds it counted."""

    async def main():
        seen = []

        def slowly(size, seconds):
            time.sleep(0.05)
            seen.append((size, seconds >= 0))

        batcher = Batcher(Counter(), most=2, waiting=2, seen=slowly)
        await batcher.ask(1)
        assert seen == [(1, True)]
        await asyncio.to_thread(batcher.close)

    asyncio.run(main())
