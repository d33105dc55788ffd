"""Questions about stories: which sentences the answer came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from regard.explain.faithfulness import Case

ITEMS = "sentences"


def cases(model: Any, batch: Mapping[str, Tensor], random: torch.Generator) -> Iterator[Case]:
    """One for each question, in random order: the answer, with the mean of the hops' weights. A sentence that is left
    out is empty; the others keep their times."""
    if not hasattr(model, "log_probs"):
        raise ValueError(f"{type(model).__name__} does not say how probable its answers are")
    alone = cache(lambda task: model.pick([task]).eval())
    questions = (batch["answer"] >= 0).nonzero()
    for number in torch.randperm(len(questions), generator=random).tolist():
        row, task = questions[number].tolist()
        story = batch["story"][row, task]
        sentences = int((story > 0).any(-1).sum())
        example = {"story": story[None, None, :sentences], "question": batch["question"][row, task][None, None]}
        small = alone(task)
        if not 1 <= sentences <= small.config.memory[0]:
            continue
        prediction = small.predict(example)
        answer = int(prediction["answer"])
        yield Case(prediction["weights"][0, 0].mean(0)[None, :sentences], partial(_score, small, example, answer))


def _score(model: Any, example: Mapping[str, Tensor], answer: int, keep: Tensor) -> Tensor:
    """(N, S) → (N, 1): the probability of the answer."""
    story = example["story"] * keep[:, None, :, None]
    question = example["question"].expand(len(keep), -1, -1)
    return model.log_probs({"story": story, "question": question})[:, 0, answer, None].exp()
