"""The opponents in the NTM's benchmark compute what we compute, so that their times can be compared."""

import pytest
import torch

from regard.bench import ntm


@pytest.mark.parametrize("heads", [{}, {"reads": 2, "writes": 3}])
def test_all_contenders_agree_in_loss_and_gradients(heads):
    torch.manual_seed(0)
    case = ntm.tape(3, 4, "", rows=11, hidden=8, **heads)
    found = {}
    for name, contender in case.contenders.items():
        loss = contender()
        found[name] = [loss.detach(), *torch.autograd.grad(loss, list(case.inputs))]
    for name in ("eager", "per step"):
        for ours, theirs in zip(found["ours"], found[name], strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5), name


def test_rows_are_built_one_by_one():
    assert len(list(ntm.cases())) == 3
