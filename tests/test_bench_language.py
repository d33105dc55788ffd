"""The rows of `regard bench language`: each contender does the work that the row names."""

from __future__ import annotations

import pytest
import torch

from regard.bench import language

pytest.importorskip("transformers")


def test_both_models_are_of_equal_size():
    ours, theirs = language.pair(32, 2, vocab=50)
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (ours, theirs)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_steps_train_both():
    case = language.trained(32, 1, batch=2, length=8)
    for step in case.contenders.values():
        first = step()
        assert min(step() for _ in range(5)) < first


def test_both_write_as_many_tokens():
    case = language.generated(32, 1, prompt=4, new=6)
    assert {tuple(write().shape) for write in case.contenders.values()} == {(1, 6)}


def test_the_sample_estimates_the_full_loss():
    case = language.sampled(vocab=400, few=200, rows=64, dim=8)
    few, full, eager = (case.contenders[name]().detach() for name in ("ours", "full", "eager"))
    torch.testing.assert_close(full, eager)
    assert few.item() == pytest.approx(full.item(), rel=0.1)
