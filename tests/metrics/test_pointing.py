import numpy as np
import pytest

from regard.metrics import pointing


def one(cell, cells=16):
    return np.eye(cells)[cell]


def test_cells_that_a_box_touches():
    found = pointing.cells_of((0.25, 0.0, 0.5, 0.6), 4)
    assert found.nonzero()[1].tolist() == [1, 1, 1] and found.nonzero()[0].tolist() == [0, 1, 2]
    assert pointing.cells_of((0.0, 0.0, 1.0, 1.0), 3).all()


def test_the_pointing_game():
    box = (0.5, 0.5, 1.0, 1.0)  # the last quarter of 4 × 4 cells
    maps = np.stack([one(10), one(15), one(9), 0.5 * one(11) + 0.3 * one(0) + 0.2 * one(1)])
    assert pointing.pointing_game(maps, [box] * 4) == (0.75, 0.25)
    assert pointing.pointing_game(np.zeros((0, 16)), []) == (0.0, 0.0)
    with pytest.raises(ValueError, match="4 maps for 1 boxes"):
        pointing.pointing_game(maps, [box])
    with pytest.raises(ValueError, match="15 cells are no square grid"):
        pointing.pointing_game(maps[:, :15], [box] * 4)


def test_total_variation():
    assert pointing.total_variation(np.stack([one(1), one(1)])) == 0
    assert pointing.total_variation(np.stack([one(1), one(2)])) == 1
    half = (one(1) + one(2)) / 2
    assert pointing.total_variation(np.stack([one(1), half, half])) == pytest.approx(0.25)
    assert pointing.total_variation(one(1)[None]) == 0


def test_entropy():
    maps = np.stack([one(3), np.full(16, 1 / 16), (one(0) + one(1)) / 2])
    assert pointing.entropy(maps) == pytest.approx([0, np.log(16), np.log(2)])


def test_peaks_within_spans():
    maps = [np.array([0.1, 0.6, 0.3]), np.array([0.5, 0.1, 0.2, 0.2])]
    assert pointing.within(maps, [(1, 2), (1, 2)]) == (0.5, (2 / 3 + 2 / 4) / 2)
    assert pointing.within([], []) == (0.0, 0.0)
    with pytest.raises(ValueError, match="2 maps for 1 spans"):
        pointing.within(maps, [(0, 1)])
