"""Bilinear sampling against loops over eq. 5, and against torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.glimpses import Bilinear

B, C, HEIGHT, WIDTH = 2, 3, 4, 5


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def places(*shape, reach=1.4, dtype=torch.float64):
    """Some inside the image, some beyond its border."""
    return (torch.rand(*shape, 2, dtype=dtype) * 2 - 1) * reach


def loops(grid, image, align_corners=True):
    """Weights (height'·width', height·width) and context (C, height', width') of one item."""
    grid, image = grid.detach().numpy(), image.detach().numpy()
    height, width = image.shape[1:]
    weights = np.zeros((*grid.shape[:2], height, width))
    for i, j in np.ndindex(*grid.shape[:2]):
        x, y = (float(z) for z in grid[i, j])
        x = (x + 1) / 2 * (width - 1) if align_corners else ((x + 1) * width - 1) / 2
        y = (y + 1) / 2 * (height - 1) if align_corners else ((y + 1) * height - 1) / 2
        for n, m in np.ndindex(height, width):
            weights[i, j, n, m] = max(0.0, 1 - abs(x - m)) * max(0.0, 1 - abs(y - n))
    context = np.einsum("ijnm,cnm->cij", weights, image)
    return weights.reshape(grid.shape[0] * grid.shape[1], height * width), context


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize(("height", "width"), [(4, 5), (1, 5), (1, 1)])
def test_against_loops_and_torch(height, width, align_corners):
    grid, image = places(B, 3, 6), torch.randn(B, C, height, width).double()
    out = Bilinear(align_corners=align_corners)(grid, image)
    expected = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=align_corners)
    assert torch.equal(out.context, expected)
    for b in range(B):
        weights, context = loops(grid[b], image[b], align_corners)
        assert np.allclose(out.weights[b], weights, atol=1e-12)
        assert np.allclose(out.context[b], context, atol=1e-12)


def test_corners_by_hand():
    """−1 and 1 are the centres of the outer pixels; x goes across and comes first."""
    image = torch.arange(6.0).reshape(1, 2, 3)
    grid = torch.tensor([[[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [0.5, 0.0]]])
    out = Bilinear()(grid, image)
    assert out.context.tolist() == [[[0.0, 2.0, 3.0, 3.0]]]  # the last: (1 + 2 + 4 + 5) / 4
    assert out.weights[3].tolist() == [0.0, 0.25, 0.25, 0.0, 0.25, 0.25]


def test_the_identity_gives_the_image_back():
    image = torch.randn(B, C, HEIGHT, WIDTH)
    theta = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).expand(B, 2, 3)
    for align in (True, False):
        out = Bilinear(align_corners=align)(F.affine_grid(theta, [*image.shape], align_corners=align), image)
        assert torch.allclose(out.context, image, atol=1e-5)
        assert torch.allclose(out.weights, torch.eye(HEIGHT * WIDTH), atol=1e-5)


def test_weights_make_the_context_and_sum_to_one_inside():
    grid, image = places(B, 3, 6), torch.randn(B, C, HEIGHT, WIDTH).double()
    out = Bilinear()(grid, image)
    assert "when read" in repr(out)
    assert torch.allclose((image.flatten(-2) @ out.weights.mT).unflatten(-1, (3, 6)), out.context)
    inside = (grid.abs() <= 1).all(-1).flatten(1)
    assert torch.allclose(out.weights.sum(-1)[inside], torch.ones(1).double())
    assert (out.weights.sum(-1)[~inside] < 1).all()
    assert not Bilinear()(grid + 5, image).context.any()


def test_gradients():
    grid, image = places(B, 2, 3).requires_grad_(), torch.randn(B, C, 3, 4).double().requires_grad_()
    sampler = Bilinear()
    assert torch.autograd.gradcheck(lambda g, x: (sampler(g, x).context, sampler(g, x).weights), (grid, image))


def test_both_ways_have_the_same_gradient():
    """A loss on the context, made by torch's sampler, and one on weights times image, made by ours."""
    grid, image = places(B, 2, 3).requires_grad_(), torch.randn(B, C, HEIGHT, WIDTH).double()
    out, loss = Bilinear()(grid, image), torch.randn(B, C, 6).double()
    (sampled,) = torch.autograd.grad((out.context.flatten(-2) * loss).sum(), grid, retain_graph=True)
    (summed,) = torch.autograd.grad((image.flatten(-2) @ out.weights.mT * loss).sum(), grid)
    assert torch.allclose(sampled, summed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions(dtype):
    grid, image = places(B, 2, 3, dtype=torch.float32), torch.randn(B, C, 200, 200)
    out = Bilinear()(grid, image.to(dtype))
    exact = Bilinear()(grid.double(), image.to(dtype).double())
    assert out.context.dtype == out.weights.dtype == dtype
    assert torch.allclose(out.context.double(), exact.context, atol=0.05)
    assert Bilinear()(grid.to(dtype), image).context.dtype == torch.float32


@pytest.mark.parametrize(
    ("grid", "image"),
    [
        ((0, 2, 3), (0, C, 4, 5)),
        ((B, 0, 3), (B, C, 4, 5)),
        ((B, 2, 3), (B, 0, 4, 5)),
        ((B, 2, 3), (B, C, 0, 5)),
        ((B, 2, 3), (B, C, 0, 0)),
    ],
)
def test_nothing_to_see(grid, image):
    where = places(*grid).requires_grad_()
    out = Bilinear()(where, torch.randn(image).double())
    assert out.context.shape == (*image[:2], *grid[1:]) and not out.context.any()
    assert out.weights.shape == (grid[0], grid[1] * grid[2], image[2] * image[3])
    out.context.sum().backward()
    assert not where.grad.any()


def test_leading_dimensions_strides_vmap_and_compile():
    sampler, grid = Bilinear(), places(B, 4, 2, 3, dtype=torch.float32)
    image = torch.randn(B, 4, C, WIDTH, HEIGHT).mT
    expected = sampler(grid, image)
    flat = sampler(grid.flatten(0, 1), image.flatten(0, 1)).context.unflatten(0, (B, 4))
    mapped = torch.func.vmap(lambda g, x: sampler(g, x).context)(grid, image)
    compiled = torch.compile(sampler, backend="aot_eager", fullgraph=True)(grid, image).context
    alone = torch.stack([sampler(g, x).context for g, x in zip(grid[0], image[0])])
    for other in (flat, mapped, compiled):
        assert torch.allclose(other, expected.context, atol=1e-5)
    assert torch.allclose(alone, expected.context[0], atol=1e-5)
    assert expected.weights.shape == (B, 4, 6, HEIGHT * WIDTH)
    shared = sampler(grid, image[:1, :1].expand(B, 4, C, HEIGHT, WIDTH))
    assert torch.allclose(shared.context[0, 0], expected.context[0, 0], atol=1e-5)


def test_bad_input():
    sampler, image = Bilinear(), torch.randn(B, C, HEIGHT, WIDTH)
    with pytest.raises(ValueError, match=r"\(x, y\) last, not \(2, 2, 3, 3\)"):
        sampler(torch.zeros(B, 2, 3, 3), image)
    with pytest.raises(ValueError, match=r"leading dimensions: \(3, 2, 3, 2\) and \(2, 3, 4, 5\)"):
        sampler(torch.zeros(3, 2, 3, 2), image)
    with pytest.raises(ValueError, match="on cpu but the image on meta"):
        sampler(torch.zeros(B, 2, 3, 2), image.to("meta"))
