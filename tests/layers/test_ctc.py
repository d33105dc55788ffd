"""CTC against a sum over all paths, one by one, in float64."""

import itertools

import pytest
import torch

from regard.layers.ctc import CTC, joint

VOCAB, STATES = 4, 5


def spelled(path):
    """Equal neighbours joined, blanks (0) taken out."""
    return [token for token, _ in itertools.groupby(path) if token]


def by_paths(scores, wanted):
    """−log of the sum over all paths that say it."""
    p = scores.softmax(-1)
    paths = itertools.product(range(VOCAB), repeat=len(scores))
    return -sum(
        torch.stack([p[s, token] for s, token in enumerate(path)]).prod() for path in paths if spelled(path) == wanted
    ).log()


def made():
    torch.manual_seed(0)
    states = torch.randn(3, STATES, 6, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[1, 3, 3, 2], [1, 2, 2, 0], [1, 2, 0, 0]])  # bos, tokens, eos; 2 stands for eos, too
    return CTC(6, VOCAB).double(), states, {"target": target, "target_lengths": torch.tensor([3, 2, 1])}


def test_it_is_the_sum_over_all_paths():
    ctc, states, batch = made()
    lengths, transcripts = [5, 4, 2], [[3, 3], [2], []]
    total = sum(
        by_paths(ctc.output(states[row, :length]), wanted)
        for row, (length, wanted) in enumerate(zip(lengths, transcripts))
    )
    found = ctc(states, torch.tensor(lengths), batch)
    assert found.item() == pytest.approx(total.item() / 6)
    (grad,) = torch.autograd.grad(found, states)
    (wanted,) = torch.autograd.grad(total / 6, states)
    torch.testing.assert_close(grad, wanted)
    assert not grad[1, 4:].any() and not grad[2, 2:].any()  # what lies beyond the end does not matter


def test_a_transcript_without_a_path_has_no_say():
    ctc, states, batch = made()
    found = ctc(states, torch.tensor([2, 4, 2]), batch)  # "33" takes three states, with a blank between
    total = by_paths(ctc.output(states[1, :4]), [2]) + by_paths(ctc.output(states[2, :2]), [])
    assert found.item() == pytest.approx(total.item() / 6)
    (grad,) = torch.autograd.grad(found, states)
    assert grad.isfinite().all() and not grad[0].any()


def test_it_takes_its_share_of_the_loss():
    losses = {"loss": torch.tensor(2.0), "nll": torch.tensor(1.0)}
    found = joint(losses, torch.tensor(4.0, requires_grad=True), 0.25)
    assert float(found["loss"]) == 2.5 and float(found["nll"]) == 1 and not found["ctc"].requires_grad
