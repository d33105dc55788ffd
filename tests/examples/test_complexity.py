from __future__ import annotations

import complexity as example
import pytest


def test_operations_are_those_of_the_table():
    lengths, d = (32, 128, 256), example.WIDTH
    found = example.count(lengths)
    assert found["self-attention"] == [8 * n * d**2 + 4 * n**2 * d for n in lengths]
    assert found["recurrent"] == [12 * n * d**2 for n in lengths]
    assert found["convolution"] == [2 * example.KERNEL * n * d**2 for n in lengths]
    fewer, same, more = zip(found["self-attention"], found["recurrent"])
    assert fewer[0] < fewer[1] and same[0] == same[1] and more[0] > more[1], "they meet at n = d"


def test_slope_is_the_exponent_at_the_long_end():
    lengths = (32, 512, 1024, 2048)
    assert example.slope(lengths, [1e9, *(7 * n**1.5 for n in lengths[1:])]) == pytest.approx(1.5)


@pytest.mark.slow
def test_times():
    seconds = example.measure()
    slopes = {name: example.slope(example.LENGTHS, costs) for name, costs in seconds.items()}
    assert slopes["self-attention"] >= 1.5, slopes
    assert 0.8 <= slopes["recurrent"] <= 1.2, slopes
    assert 0.7 <= slopes["convolution"] <= 1.2, slopes
    short = [i for i, n in enumerate(example.LENGTHS) if n <= 256]
    assert all(seconds["self-attention"][i] < seconds["recurrent"][i] for i in short), seconds
