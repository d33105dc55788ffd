"""Readers: documents and questions of different lengths, one of them without an answer."""

import torch

from contracts.cases import Batch, Case

VOCAB, ENTITIES, FIRST, FEATURES = 23, 6, 4, 3
B, S, Q = 4, 9, 5
LENGTHS, ASKED = torch.tensor([9, 4, 7, 3]), torch.tensor([2, 5, 3, 1])


def documents() -> Batch:
    """Words of all kinds; what stands in the document at ``first`` is the answer, an entity."""
    generator = torch.Generator().manual_seed(0)
    document = torch.randint(1, VOCAB, (B, S), generator=generator)
    question = torch.randint(1, VOCAB, (B, Q), generator=generator)
    first, last = torch.tensor([6, 1, -1, 2]), torch.tensor([8, 1, -1, 2])
    answer = torch.tensor([3, 0, -1, 5])
    for b in range(B):
        if first[b] >= 0:
            document[b, first[b]] = FIRST + answer[b]
        document[b, LENGTHS[b] :] = question[b, ASKED[b] :] = 0
    return {
        "document": document,
        "document_lengths": LENGTHS.clone(),
        "question": question,
        "question_lengths": ASKED.clone(),
        "features": torch.rand(B, S, FEATURES, generator=generator) * (document > 0)[..., None],
        "answer": answer,
        "first": first,
        "last": last,
    }


def alone(batch: Batch) -> list[Batch]:
    """The questions one by one, without padding."""
    found = []
    for b in range(B):
        row = {name: tensor[b : b + 1] for name, tensor in batch.items()}
        row |= {name: row[name][:, : LENGTHS[b]] for name in ("document", "features")}
        found.append({**row, "question": row["question"][:, : ASKED[b]]})
    return found


FACTS = 4
CHOICES = torch.tensor([[3, 1, 2], [2, 4, 0], [1, 1, 1], [4, 2, 0]])


def choices() -> Batch:
    """Three choices, of two questions two, one question without a right answer."""
    generator = torch.Generator().manual_seed(1)
    shared = ("document", "document_lengths", "question", "question_lengths", "features")
    words = torch.randint(1, VOCAB, (B, 3, int(CHOICES.max())), generator=generator)
    words[torch.arange(words.shape[2]) >= CHOICES[..., None]] = 0
    facts = torch.rand(B, 3, FACTS, generator=generator) * (CHOICES > 0)[..., None]
    found = {name: tensor for name, tensor in documents().items() if name in shared}
    label = torch.tensor([2, 0, -1, 1])
    return {**found, "choices": words, "choice_lengths": CHOICES.clone(), "facts": facts, "label": label}


def choosing_alone(batch: Batch) -> list[Batch]:
    """The questions one by one, without padding and without choices that are not there."""
    found = []
    for b, row in enumerate(alone(batch)):
        count, longest = int((CHOICES[b] > 0).sum()), int(CHOICES[b].max())
        cut = {name: row[name][:, :count] for name in ("choices", "choice_lengths", "facts")}
        found.append({**row, **cut, "choices": cut["choices"][..., :longest]})
    return found


SMALL = {"vocab": VOCAB, "embedding": 6, "hidden": 5, "attention": 7, "joint": 8, "dropout": 0.0}
CASES = {
    "attentive_reader": [
        Case({**SMALL, **answers, "reader": reader}, documents, alone)
        for reader in ("attentive", "impatient")
        for answers in (
            {"entities": ENTITIES},
            {"entities": ENTITIES, "answer": "pointer", "score": "general"},
            {"features": FEATURES},
            {"features": FEATURES, "longest": 1, "score": "general"},
        )
    ],
    "drqa": [
        Case({"vocab": VOCAB, "embedding": 6, "hidden": 5, "dropout": 0.0, **more}, documents, alone)
        for more in ({"features": FEATURES}, {"layers": 2, "longest": 1})
    ],
    "choice_reader": [
        Case({"vocab": VOCAB, "embedding": 6, "hidden": 5, "joint": 8, "dropout": 0.0, **more}, choices, choosing_alone)
        for more in ({"features": FEATURES, "facts": FACTS}, {})
    ],
}
