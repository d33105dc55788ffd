"""Grids of features: how much of an image a cell sees."""

import pytest
import torch

from regard.layers.grid import Grid


@pytest.mark.parametrize(("sharp", "side"), [(False, 25), (True, 17)])
def test_what_a_cell_sees_of_an_image(sharp, side):
    torch.manual_seed(0)
    grid = Grid(0, channels=8, sharp=sharp).double().eval()
    image = torch.rand(1, 3, 64, 64, dtype=torch.float64, requires_grad=True)
    seen = grid({"image": image}).unflatten(1, (8, 8))[0, 4, 4, :-2]
    seen.sum().backward()
    touched = (image.grad[0].abs().sum(0) > 0).nonzero()
    height, width = (touched.amax(0) - touched.amin(0) + 1).tolist()
    assert side - 4 <= height <= side and side - 4 <= width <= side
