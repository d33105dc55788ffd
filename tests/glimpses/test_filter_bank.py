"""DRAW's filter bank against loops over its equations. Counting from 0 where the paper counts from 1 moves every window
by a pixel or a stride; the first tests are about that."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.glimpses import FilterBank

B, C, N, HEIGHT, WIDTH = 2, 3, 3, 6, 8


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def grids(*leading, dtype=torch.float64):
    """Windows near the image, a pixel or so wide."""
    return torch.randn(*leading, 5, dtype=dtype) * torch.tensor([0.4, 0.4, 0.5, 0.3, 0.5], dtype=dtype)


def loops(parameters, size, height, width):
    """F_Y, F_X and γ for one grid."""
    x, y, log_variance, log_stride, log_gamma = (float(p) for p in parameters)
    stride = (max(height, width) - 1) / (size - 1) * math.exp(log_stride)
    banks = []
    for centre, pixels in ((y, height), (x, width)):
        g = (pixels + 1) / 2 * (centre + 1)
        bank = np.zeros((size, pixels))
        for i in range(1, size + 1):
            mu = g + (i - size / 2 - 0.5) * stride
            for a in range(1, pixels + 1):
                bank[i - 1, a - 1] = math.exp(-((a - mu) ** 2) / (2 * math.exp(log_variance)))
            bank[i - 1] /= bank[i - 1].sum()
        banks.append(bank)
    return *banks, math.exp(log_gamma)


def sharp(x, y, stride, size, height, width, gamma=1.0):
    """A grid without blur whose middle is at pixel (x, y), counted from 1."""
    centre = [2 * x / (width + 1) - 1, 2 * y / (height + 1) - 1]
    log_stride = math.log(stride * (size - 1) / (max(height, width) - 1))
    return torch.tensor([*centre, math.log(1e-3), log_stride, math.log(gamma)]).double()


class TestCounting:
    @pytest.mark.parametrize(("height", "width"), [(28, 28), (27, 28), (5, 9)])
    @pytest.mark.parametrize("size", [1, 2, 3, 4])
    def test_zero_is_the_middle_of_the_image(self, size, height, width):
        """The centre of mass of all filters is the middle pixel, (A + 1)/2 counted from 1: 14.5 for 28 pixels."""
        down, across, _ = FilterBank(size).filters(torch.tensor([0.0, 0.0, -1.0, -2.0, 0.0]).double(), height, width)
        for bank, pixels in ((down, height), (across, width)):
            mean = (bank.mean(0) * torch.arange(1, pixels + 1)).sum()
            assert float(mean) == pytest.approx((pixels + 1) / 2, abs=1e-6)

    def test_a_shift_of_one_would_show(self):
        """Filter 1 of 2 stands half a stride before the middle, filter 2 half a stride behind it."""
        down, _, _ = FilterBank(2).filters(sharp(4, 3.5, 3, 2, 6, 8), 6, 8)
        assert down.argmax(-1).tolist() == [2 - 1, 5 - 1]

    def test_full_width(self):
        """δ̃ = 1 spans the larger side: the outer filters stand on its outer pixels."""
        _, across, _ = FilterBank(4).filters(torch.tensor([0.0, 0.0, -7.0, 0.0, 0.0]), 5, 10)
        assert across.argmax(-1).tolist() == [0, 3, 6, 9]

    @pytest.mark.parametrize(("x", "y"), [(4, 3), (2, 2), (7, 5)])
    def test_a_window_on_whole_pixels_is_a_crop(self, x, y):
        image, bank = torch.randn(1, HEIGHT, WIDTH).double(), FilterBank(3)
        grid = sharp(x, y, 1, 3, HEIGHT, WIDTH)
        patch = bank.read(grid, image).context
        assert torch.allclose(patch, image[:, y - 2 : y + 1, x - 2 : x + 1])
        canvas = bank.write(grid, patch, HEIGHT, WIDTH)
        expected = torch.zeros_like(image)
        expected[:, y - 2 : y + 1, x - 2 : x + 1] = patch
        assert torch.allclose(canvas, expected)
        assert torch.allclose(bank.read(grid, canvas).context, patch)

    def test_x_is_across_and_y_is_down(self):
        image = torch.zeros(1, HEIGHT, WIDTH).double()
        image[0, 1, 6] = 1.0  # second row, seventh column
        assert FilterBank(1).read(sharp(7, 2, 1, 2, HEIGHT, WIDTH), image).context.item() == pytest.approx(1.0)


def test_against_loops():
    bank, grid = FilterBank(N), grids(B)
    image, patch = torch.randn(B, C, HEIGHT, WIDTH).double(), torch.randn(B, C, N, N).double()
    out, canvas = bank(grid, image), bank.write(grid, patch, HEIGHT, WIDTH)
    assert out.context.shape == (B, C, N, N) and canvas.shape == image.shape
    assert out.weights.shape == (B, N * N, HEIGHT * WIDTH)
    found = bank.filters(grid, HEIGHT, WIDTH)
    for b in range(B):
        down, across, gamma = loops(grid[b], N, HEIGHT, WIDTH)
        assert np.allclose(found[0][b], down) and np.allclose(found[1][b], across)
        assert float(found[2][b]) == pytest.approx(gamma)
        for c in range(C):
            for i, j in np.ndindex(N, N):
                weights = np.outer(down[i], across[j])
                assert np.allclose(out.weights[b, i * N + j], weights.ravel())
                assert float(out.context[b, c, i, j]) == pytest.approx(gamma * (weights * image[b, c].numpy()).sum())
            assert np.allclose(canvas[b, c], down.T @ patch[b, c].numpy() @ across / gamma)


def test_context_is_the_intensity_times_the_weighted_sum():
    bank, grid, image = FilterBank(N), grids(B), torch.randn(B, C, HEIGHT, WIDTH).double()
    out = bank(grid, image)
    summed = (image.flatten(-2) @ out.weights.mT).unflatten(-1, (N, N))
    assert torch.allclose(out.context, grid[:, 4].exp()[:, None, None, None] * summed)


def test_rows_sum_to_one_inside_and_vanish_far_outside():
    bank = FilterBank(N)
    within = grids(50) * 0.5 - torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]).double()
    for filters in bank.filters(within, HEIGHT, WIDTH)[:2]:
        assert torch.allclose(filters.sum(-1), torch.ones(1).double())
    away = torch.tensor([30.0, -30.0, 0.0, 0.0, 0.0]).requires_grad_()
    out = bank(away, torch.randn(C, HEIGHT, WIDTH))
    assert not out.context.any() and not out.weights.any()
    out.context.sum().backward()
    assert away.grad.isfinite().all()


def test_one_filter_needs_no_stride():
    grid = torch.zeros(5).double().requires_grad_()
    out = FilterBank(1)(grid, torch.randn(C, HEIGHT, WIDTH).double())
    out.context.sum().backward()
    assert out.context.isfinite().all() and grid.grad.isfinite().all()
    assert grid.grad[3] == 0


def test_gradients():
    bank, grid = FilterBank(2), grids(B).requires_grad_()
    image = torch.randn(B, C, 4, 5).double().requires_grad_()
    patch = torch.randn(B, C, 2, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda g, x: (bank(g, x).context, bank(g, x).weights), (grid, image))
    assert torch.autograd.gradcheck(lambda g, x: bank.write(g, x, 4, 5), (grid, patch))
    assert torch.autograd.gradgradcheck(lambda g, x: bank(g, x).context, (grid, image))


def test_weights_are_made_only_when_read():
    out = FilterBank(N)(grids(B), torch.randn(B, C, HEIGHT, WIDTH).double())
    assert "when read" in repr(out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    """Half precision loses digits, not its bearings: 1e-8 is 0 in float16, and bfloat16 cannot count to 300."""
    bank, grid = FilterBank(N), grids(B, dtype=torch.float32).to(dtype)
    image, patch = torch.randn(B, 1, 300, 300), torch.randn(B, 1, N, N)
    out = bank(grid, image.to(dtype))
    exact = bank(grid.double(), image.to(dtype).double())
    assert out.context.dtype == out.weights.dtype == dtype
    assert torch.allclose(out.context.double(), exact.context, rtol=0.05, atol=0.05)
    mixed = bank(grid, image)  # numbers from an autocast layer, a float32 image
    assert mixed.context.dtype == torch.float32
    assert bank.write(grid, patch.to(dtype), 300, 300).dtype == dtype


@pytest.mark.parametrize("sizes", [(0, C, 4, 5), (B, 0, 4, 5), (B, C, 0, 5), (B, C, 4, 0), (B, C, 0, 0)])
def test_nothing_to_see(sizes):
    b, c, height, width = sizes
    bank, grid = FilterBank(N), grids(b).requires_grad_()
    out = bank(grid, torch.randn(sizes).double())
    assert out.context.shape == (b, c, N, N) and not out.context.any()
    assert out.weights.shape == (b, N * N, height * width)
    assert bank.write(grid, torch.randn(b, c, N, N).double(), height, width).shape == sizes
    out.context.sum().backward()


def test_leading_dimensions_strides_vmap_and_compile():
    bank, grid = FilterBank(N), grids(B, 4, dtype=torch.float32)
    image = torch.randn(B, 4, C, WIDTH, HEIGHT).mT
    expected = bank(grid, image).context
    flat = bank(grid.flatten(0, 1), image.flatten(0, 1)).context.unflatten(0, (B, 4))
    mapped = torch.func.vmap(lambda g, x: bank(g, x).context)(grid, image)
    compiled = torch.compile(bank, backend="aot_eager", fullgraph=True)(grid, image).context
    alone = torch.stack([bank(g, x).context for g, x in zip(grid[0], image[0])])
    for other in (flat, mapped, compiled):
        assert torch.allclose(other, expected, atol=1e-5)
    assert torch.allclose(alone, expected[0], atol=1e-5)
    shared = bank(grid[:1, :1].expand(B, 4, 5), image[:1, :1].expand(B, 4, C, HEIGHT, WIDTH)).context
    assert torch.allclose(shared, expected[:1, :1].expand_as(shared), atol=1e-5)


def test_bad_input():
    bank, image = FilterBank(N), torch.randn(B, C, HEIGHT, WIDTH)
    with pytest.raises(ValueError, match=r"\(…, 5\).*not \(2, 4\)"):
        bank(torch.zeros(B, 4), image)
    with pytest.raises(ValueError, match=r"leading dimensions: \(3, 5\) and \(2, 3, 6, 8\)"):
        bank(torch.zeros(3, 5), image)
    with pytest.raises(ValueError, match=r"leading dimensions: \(5,\) and \(6, 8\)"):
        bank(torch.zeros(5), image[0, 0])
    with pytest.raises(ValueError, match=r"patches \(…, C, 3, 3\), not \(2, 3, 2, 3\)"):
        bank.write(torch.zeros(B, 5), torch.zeros(B, C, 2, 3), HEIGHT, WIDTH)
    with pytest.raises(ValueError, match="on cpu but the image on meta"):
        bank(torch.zeros(B, 5), image.to("meta"))
    with pytest.raises(ValueError, match="size=0"):
        FilterBank(0)
