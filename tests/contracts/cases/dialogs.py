"""Memory networks for dialogues: two networks side by side, one row without anything said before."""

import torch

from contracts.cases import Batch, Case

VOCAB, TYPES, CANDIDATES = 19, 3, 6
LENGTHS = (3, 0, 2, 4)


def moments() -> Batch:
    """Four moments of dialogues, one of them without a right answer."""
    generator = torch.Generator().manual_seed(0)
    memory = torch.zeros(4, 4, 5, dtype=torch.long)
    for b, length in enumerate(LENGTHS):
        memory[b, :length, : 3 + b % 3] = torch.randint(1, VOCAB, (length, 3 + b % 3), generator=generator)
    question = torch.randint(1, VOCAB, (4, 3), generator=generator)
    question[1, 2:] = 0
    candidates = torch.randint(4, VOCAB, (CANDIDATES, 4), generator=generator)
    kinds = torch.arange(VOCAB) % TYPES * (torch.arange(VOCAB) > 5)
    entities = torch.where(kinds[candidates] > 0, candidates, 0)
    label, task = torch.tensor([2, 0, -1, 5]), torch.tensor([0, 1, 0, 1])
    same = {"candidates": candidates, "entities": entities, "kinds": kinds}
    return {"memory": memory, "question": question, "label": label, "task": task, **same}


def alone(batch: Batch) -> list[Batch]:
    """Row by row, without padding; the candidates are those of all."""
    found = []
    for b, length in enumerate(LENGTHS):
        row = {name: batch[name][b : b + 1] for name in ("memory", "question", "label", "task")}
        wide = int((row["question"] > 0).sum())
        row |= {"memory": row["memory"][:, : max(length, 1)], "question": row["question"][:, :wide]}
        found.append({**batch, **row})
    return found


CASES = {
    "dialog_memory": [
        Case({"vocab": VOCAB, "types": TYPES, "tasks": 2, "dim": 6, "hops": 2, "match": match}, moments, alone)
        for match in (False, True)
    ]
}
