"""ABS against its equations, one word at a time."""

from __future__ import annotations

import pytest
import torch

from contracts.cases.text import VOCAB, pairs
from regard.systems.abs_summary import AbsSummary, Config


def test_a_loop_over_the_equations_gives_the_same():
    torch.manual_seed(0)
    config = Config(vocab=VOCAB, embedding=4, hidden=6, context=3, smoothing=1, spread=0.7)
    model, batch = AbsSummary(config).double(), pairs()
    score = dict(model.attention.named_parameters())
    (matrix,) = [each for each in score.values() if each.ndim == 2]
    total = 0.0
    for b in range(len(batch["source"])):
        source = batch["source"][b, : batch["source_lengths"][b]].tolist()
        target = batch["target"][b, : batch["target_lengths"][b] + 1].tolist()
        x = model.source.weight[source]  # (S, hidden)
        near = [x[max(j - 1, 0) : j + 2].mean(0) for j in range(len(source))]
        for t in range(1, len(target)):
            last = ([1] * 3 + target[:t])[-3:]
            query = model.asking.weight[last].flatten()
            weights = torch.softmax(torch.stack([query @ _square(matrix, 12, 6) @ key for key in x]), 0)
            enc = sum(weight * value for weight, value in zip(weights, near))
            h = torch.tanh(model.model.weight @ model.words.weight[last].flatten() + model.model.bias)
            logits = model.output.weight @ torch.cat([h, enc]) + model.output.bias
            total -= torch.log_softmax(logits, 0)[target[t]].item()
    count = int(batch["target_lengths"].sum())
    assert model(batch)["nll"].item() == pytest.approx(total / count)


def _square(matrix, rows, columns):
    return matrix if matrix.shape == (rows, columns) else matrix.T


def test_a_word_that_only_a_pointer_could_write_is_unknown():
    model, batch = AbsSummary(Config(vocab=VOCAB, embedding=4, hidden=6)), pairs()
    batch["target"][0, 2] = VOCAB + 1
    known = {**batch, "target": batch["target"].clone()}
    known["target"][0, 2] = 3
    assert model(batch)["loss"] == model(known)["loss"]


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="context"):
        Config(vocab=5, context=0)
