"""Memory networks: stories, the newest sentence first, with questions for two tasks side by side."""

from __future__ import annotations

import torch

from contracts.cases import Batch, Case

WORDS, MEMORY = (11, 17), (3, 9)
B, S, J = 4, 5, 4


def stories() -> Batch:
    """Four questions to each of two tasks, about stories of different lengths."""
    generator = torch.Generator().manual_seed(0)
    story = torch.zeros(B, 2, S, J, dtype=torch.long)
    question = torch.zeros(B, 2, J, dtype=torch.long)
    answer = torch.zeros(B, 2, dtype=torch.long)
    support = torch.full((B, 2, 2), -1)
    for g, lengths in enumerate(((3, 1, 2, 3), (5, 4, 1, 2))):
        for b, length in enumerate(lengths):
            for s in range(length):
                size = 2 + (b + s) % 3
                story[b, g, s, :size] = torch.randint(1, WORDS[g], (size,), generator=generator)
            question[b, g, :3] = torch.randint(1, WORDS[g], (3,), generator=generator)
            answer[b, g] = torch.randint(1, WORDS[g], (), generator=generator)
            facts = torch.randperm(length, generator=generator)[: 1 + (b + g) % 2]
            support[b, g, : len(facts)] = facts
    return {"story": story, "question": question, "answer": answer, "support": support}


def one_by_one(batch: Batch) -> list[Batch]:
    """Each row alone, cut to its longest story and sentence."""
    found = []
    for b in range(len(batch["answer"])):
        row = {name: tensor[b : b + 1] for name, tensor in batch.items()}
        deep = int((row["story"] > 0).any(-1).any(1).sum())
        wide = int(max((row["story"] > 0).sum(-1).max(), (row["question"] > 0).sum(-1).max()))
        found.append({**row, "story": row["story"][:, :, :deep, :wide], "question": row["question"][..., :wide]})
    return found


SIZES = {"words": WORDS, "memory": MEMORY}
CASES = {
    "memn2n": [
        Case({**SIZES, "restarts": 2, "dim": 6, "noise": 0.0, **more}, stories, one_by_one)
        for more in (
            {},
            {"linear_start": False, "hops": 1},
            {"tying": "layerwise", "hops": 2, "clip": 0.5},
            {"encoding": "bag", "linear_start": False},
        )
    ],
    "memnn": [
        Case({**SIZES, "dim": 6}, stories, one_by_one),
        Case({**SIZES, "dim": 6, "hops": 1}, stories, one_by_one),
        Case({**SIZES, "dim": 6, "hops": 3, "time": False}, stories, one_by_one),
    ],
}
