"""Sentences by a Writer: which tokens of the source a word came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import decode
from regard.explain.faithfulness import Case

ITEMS = "source tokens"
BOS = 1


def cases(model: Any, batch: Mapping[str, Tensor], random: torch.Generator) -> Iterator[Case]:
    """One for each sentence of a batch, in random order: the words of its greedy translation, with the weights over the
    source that a picture shows. The source ends with eos, which stays. Tokens that are left out are removed: the
    sentence becomes shorter."""
    source, lengths = batch["source"], batch["source_lengths"]
    for row in torch.randperm(len(source), generator=random).tolist():
        sentence = source[row, : int(lengths[row])]
        example = {"source": sentence[None], "source_lengths": lengths[row : row + 1]}
        ((hypothesis,),) = decode.greedy(model, example, max_length=model.limit(example))
        if hypothesis.alignment is None:
            raise ValueError(f"{type(model).__name__} has no attention to its source")
        if len(hypothesis.tokens) and len(sentence) > 1:
            target = torch.tensor(hypothesis.tokens)
            yield Case(hypothesis.alignment[:, :-1].float(), partial(_score, model, sentence, target))


def _score(model: Any, sentence: Tensor, target: Tensor, keep: Tensor) -> Tensor:
    """(N, S) → (N, T): the probability of each word, the words before it given."""
    keep = torch.cat([keep, torch.ones_like(keep[:, :1])], dim=1)  # eos
    order = torch.argsort((~keep).to(torch.uint8), dim=1, stable=True)
    lengths = keep.sum(1)
    source = sentence[order]
    source[torch.arange(source.shape[1]) >= lengths[:, None]] = 0
    batch = {"source": source[:, : int(lengths.max())], "source_lengths": lengths}
    state = model.start(batch)
    token = model.first(batch) if hasattr(model, "first") else torch.full((len(keep),), BOS)
    probabilities = []
    for word in target:
        logits, state = model.step(token, state)
        token = word.expand(len(keep))
        probabilities.append(logits.float().softmax(-1).gather(1, token[:, None])[:, 0])
    return torch.stack(probabilities, dim=1)
