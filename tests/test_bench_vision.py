"""``regard bench vision`` at small sizes: what is compared is the same, and the tables are whole."""

import pytest
import torch

from regard.bench import vision
from regard.bench.measure import measure


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("scales", [1, 3])
def test_the_retinas_agree(scales):
    torch.manual_seed(0)
    (row,) = measure(vision.retina(3, 26, 4, scales, ""), 1, seconds=0.01)
    assert set(row.milliseconds) == {"ours", "eager", "per image"}


def test_a_step_of_training():
    torch.manual_seed(0)
    (row,) = measure(vision.training(4, 20, 4, 2, 2), 1, seconds=0.01)
    assert row.which == "forward+backward"


def test_tables():
    lines = vision.growth(sides=(28, 40), batch=2, seconds=0.01)
    assert len(lines) == 4 and all(line.count("|") == 6 for line in lines)
