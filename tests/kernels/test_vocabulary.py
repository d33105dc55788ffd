"""The likeliest words against float64, one row after the other."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import kernels
from regard.kernels import vocabulary


def by_hand(row, count):
    row = [float(x) for x in row]
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    order = sorted(range(len(row)), key=lambda index: -row[index])[:count]
    return [row[index] - total for index in order], order


@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 2**31), st.sampled_from([0.01, 1.0, 30.0]))
def test_against_a_loop(kinds, count, seed, size):
    torch.manual_seed(seed)
    logits = torch.randperm(3 * kinds).reshape(3, kinds).float() / kinds * size  # no two are the same
    count = min(count, kinds)
    log_prob, which = vocabulary.likeliest(logits, count)
    for row in range(3):
        expected, order = by_hand(logits[row], count)
        assert which[row].tolist() == order
        assert log_prob[row].tolist() == pytest.approx(expected, rel=1e-5, abs=2e-6)


def test_a_large_vocabulary_on_two_threads():
    torch.manual_seed(0)
    logits = torch.randn(64, 33_001) * 5
    logits[3] = logits[3].sort().values  # every stretch has a new greatest
    logits[4] = logits[4].sort(descending=True).values
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        log_prob, which = vocabulary.likeliest(logits, 7)
    finally:
        torch.set_num_threads(before)
    expected = logits.double().log_softmax(-1).topk(7)
    assert which.equal(expected.indices)
    torch.testing.assert_close(log_prob.double(), expected.values, rtol=1e-5, atol=2e-6)


def test_equal_entries_are_all_found():
    log_prob, which = vocabulary.likeliest(torch.zeros(2, 130), 5)
    assert log_prob.flatten().tolist() == pytest.approx([-math.log(130)] * 10, rel=1e-5)
    assert all(len(set(row)) == 5 for row in which.tolist())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 70, 129])
def test_a_bad_logit_spoils_its_row_alone(bad, place):
    logits = torch.randn(3, 130)
    logits[1, place] = bad
    log_prob, which = vocabulary.likeliest(logits, 4)
    assert log_prob.isnan().any(-1).tolist() == [False, True, False]
    assert which.min() >= 0
    assert which.max() < 130


def test_impossible_words():
    logits = torch.full((2, 100), float("-inf"))
    logits[0, 71] = 3.0
    log_prob, which = vocabulary.likeliest(logits, 3)
    assert log_prob[0].tolist() == [0.0, float("-inf"), float("-inf")]
    assert which[0, 0] == 71
    assert log_prob[1].isnan().all()


def test_where_it_fits():
    logits = torch.randn(2, 5)
    assert vocabulary.fits(logits)
    assert not vocabulary.fits(logits.double())
    assert not vocabulary.fits(logits.requires_grad_())
    with kernels.use("plain"):
        assert not vocabulary.fits(logits.detach())
