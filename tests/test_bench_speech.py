"""``regard bench speech`` at small sizes: what is compared is the same, and the tables are whole."""

import pytest
import torch

from regard.bench import speech
from regard.bench.measure import measure


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "make",
    [
        lambda: speech.features(0.3),
        lambda: speech.step(3, 12, 8, 5),
        lambda: speech.steps(3, 4, 12, 8, 5),
    ],
)
def test_the_contenders_agree(make):
    torch.manual_seed(0)
    (row,) = measure(make(), 1, seconds=0.01)
    assert set(row.milliseconds) >= {"ours", "eager"}


def test_tables():
    lines = speech.pyramids(batch=2, frames=24, tokens=3, width=8, seconds=0.01)
    assert len(lines) == 7 and all(line.count("|") == 5 for line in lines)
    lines = speech.utterances(lengths=(1,), seconds=0.01)
    assert len(lines) == 3 and all(line.count("|") == 4 for line in lines)
