"""The opponents in the benchmark of handwriting compute what we compute, so that their times can be compared."""

import pytest
import torch

from regard.bench import handwriting


def test_plain_writing_writes_the_same_points():
    torch.manual_seed(0)
    case = handwriting.writing(3, 12, 16)
    ours, eager = (case.contenders[name]() for name in ("ours", "eager"))
    assert ours.shape == (3, 12, 3)
    assert torch.allclose(ours, eager, atol=1e-4)


@pytest.mark.parametrize("text", [True, False])
def test_plain_training_has_the_same_loss_and_gradients(text):
    torch.manual_seed(0)
    case = handwriting.training(3, 9, 16, text)
    found = {}
    for name, contender in case.contenders.items():
        loss = contender()
        found[name] = [loss.detach(), *torch.autograd.grad(loss, list(case.inputs))]
    for ours, theirs in zip(found["ours"], found["eager"], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_rows_are_built_one_by_one():
    assert len(list(handwriting.cases())) == 7
