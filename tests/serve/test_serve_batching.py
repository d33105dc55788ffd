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
        for question in questions:
            if isinstance(question, BaseException):
                raise question
        return [10 * question for question in questions]


async def begun(counter):
    """The first batch is being computed."""
    while not counter.batches:
        await asyncio.sleep(0.005)


def test_a_lone_question_is_not_kept_back_and_others_gather_meanwhile():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, max_batch=3, max_waiting=10)
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
        batcher = Batcher(counter, max_batch=1, max_waiting=2)
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
        batcher = Batcher(counter, max_batch=4, max_waiting=1)
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


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_bad_question_spoils_only_its_own_answer(error):
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, max_batch=8, max_waiting=8)
        first = asyncio.create_task(batcher.ask(0))
        await begun(counter)
        rest = [asyncio.create_task(batcher.ask(x)) for x in (1, error, 3)]
        await asyncio.sleep(0.01)
        counter.go.set()
        one, bad, three = await asyncio.wait_for(asyncio.gather(*rest, return_exceptions=True), 10)
        assert (await first, one, three) == (0, 10, 30) and isinstance(bad, Fault)
        assert batcher.alive and await batcher.ask(5) == 50

    asyncio.run(main())


def test_who_left_is_not_answered_when_a_broken_batch_is_asked_one_by_one():
    async def main():
        loop, go, left, batches = asyncio.get_running_loop(), threading.Event(), threading.Event(), []

        def answer(questions):
            batches.append(list(questions))
            assert go.wait(30)
            if len(questions) > 1:
                loop.call_soon_threadsafe(leaving.cancel)
                assert left.wait(30)
                raise RuntimeError("broken")
            return questions

        batcher = Batcher(answer, max_batch=8, max_waiting=8)
        first = asyncio.create_task(batcher.ask(0))
        while not batches:
            await asyncio.sleep(0.005)
        leaving, staying = asyncio.create_task(batcher.ask(1)), asyncio.create_task(batcher.ask(2))
        leaving.add_done_callback(lambda _: left.set())
        await asyncio.sleep(0.01)
        go.set()
        assert (await first, await staying) == (0, 2) and leaving.cancelled()
        assert batches == [[0], [1, 2], [2]]

    asyncio.run(main())


def test_too_few_answers_reach_nobody():
    async def main():
        batcher = Batcher(lambda questions: [], max_batch=8, max_waiting=8)
        with pytest.raises(Fault):
            await batcher.ask(1)

    asyncio.run(main())


def test_closing_ends_the_batch_and_turns_away_who_waits():
    async def main():
        counter = Counter(held=True)
        batcher = Batcher(counter, max_batch=1, max_waiting=8)
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

        batcher = Batcher(Counter(), max_batch=2, max_waiting=2, on_batch=slowly)
        await batcher.ask(1)
        assert seen == [(1, True)]
        await asyncio.to_thread(batcher.close)

    asyncio.run(main())
