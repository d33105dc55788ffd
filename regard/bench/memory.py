"""``regard bench memory``: many memory networks at once against one after the other, reading a large memory, and the
NTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import regard
from regard.bench import ntm
from regard.bench.measure import Case, Row, report
from regard.systems.memn2n import Config, MemN2N

# bAbI's twenty tasks: words, sentences that the memory holds, and the mean length of a story.
WORDS = (20, 34, 35, 15, 40, 36, 44, 45, 24, 25, 27, 21, 27, 26, 18, 18, 19, 19, 32, 36)
MEMORY = (10, 50, 50, 2, 50, 26, 34, 46, 10, 10, 10, 10, 10, 14, 8, 9, 2, 15, 5, 12)
LENGTHS = (6, 15, 36, 2, 19, 6, 9, 9, 6, 6, 6, 6, 6, 8, 8, 9, 2, 6, 5, 6)


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the table, and write it as JSON if asked. ``quick`` takes fewer
    models, smaller memories and one thread, to see that all runs."""
    threads, seconds = ((1,), 0.05) if quick else ((1, 2), 1.0)
    return report(partial(_cases, quick), threads=threads, seconds=seconds, only=only, json_file=json_file)


def _cases(quick: bool) -> Iterator[Callable[[], Case]]:
    """Cases are built one by one, so that only one's tensors are in memory."""
    yield partial(restarts, 4, 2) if quick else partial(restarts, 20, 10)
    for questions in (1, 32):
        yield partial(read, 1000 if quick else 100_000, questions)
    yield from ntm.cases()


def restarts(tasks: int, number: int) -> Case:
    """A step of tasks × restarts of MemN2N on batches of 32 questions each: as one model, and one after the other."""
    net = MemN2N(Config(WORDS[:tasks], MEMORY[:tasks], restarts=number, clip=1.25, noise=0.0)).train()
    batch = _stories(tasks, 32)
    alone: list[tuple[MemN2N, dict[str, Tensor]]] = []
    for task in range(tasks):
        task_batch = {name: tensor[:, task : task + 1] for name, tensor in batch.items()}
        task_batch["story"] = task_batch["story"][:, :, : MEMORY[task]]
        alone += [(net.pick([task], restart), task_batch) for restart in range(number)]

    def together() -> Tensor:
        return net(batch)["loss"] / (tasks * number)

    def in_turn() -> Tensor:
        return torch.stack([model(task_batch)["loss"] for model, task_batch in alone]).mean()

    work = f"MemN2N, {tasks} tasks × {number} restarts, 32 questions each"
    inputs = [*net.parameters(), *(parameter for model, _ in alone for parameter in model.parameters())]
    return Case(work, {"ours": together, "eager": in_turn}, inputs, "≥ 5× one after the other", ("forward+backward",))


def _stories(tasks: int, rows: int) -> dict[str, Tensor]:
    """Random stories of the lengths of bAbI's."""
    story = torch.zeros(rows, tasks, max(MEMORY[:tasks]), 7, dtype=torch.long)
    question, answer = torch.zeros(rows, tasks, 6, dtype=torch.long), torch.zeros(rows, tasks, dtype=torch.long)
    for task in range(tasks):
        lengths = torch.randint(2, max(3, min(2 * LENGTHS[task], MEMORY[task]) + 1), (rows,))
        words = torch.randint(1, WORDS[task], (rows, story.shape[2], 7))
        inside = torch.arange(story.shape[2]) < lengths[:, None]
        story[:, task] = torch.where(inside[..., None], words, 0)
        question[:, task] = torch.randint(1, WORDS[task], (rows, 6))
        answer[:, task] = torch.randint(1, WORDS[task], (rows,))
    return {"story": story, "question": question, "answer": answer}


def read(sentences: int, questions: int) -> Case:
    """Looking once at a remembered story, against plain PyTorch and against the comparison alone, one product."""
    width = 20
    query, key, value = torch.randn(questions, width), torch.randn(sentences, width), torch.randn(sentences, width)
    attention = regard.Attention("dot")
    memory = attention.remember(key, value)
    contenders = {
        "ours": lambda: attention(query, memory, weights=False).context,
        "eager": lambda: torch.softmax(query @ key.mT, -1) @ value,
        "matmul": lambda: query @ key.mT,
    }
    work = f"one read of {sentences:,} sentences, {questions} question{'s' * (questions > 1)}, D={width}"
    return Case(work, contenders, (), "< 2× the time of matmul", ("forward",), None)
