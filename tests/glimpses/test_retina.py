"""The retina against loops, its two paths against each other, and what it does at the edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.glimpses import Retina

B, C = 3, 2


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def loops(location, image, size, scales):
    """One item: cell by cell, pixel by pixel, in float64."""
    (x, y), (channels, height, width) = (float(z) for z in location), image.shape
    out = np.zeros((channels, scales, size, size))
    for k in range(scales):
        cell = 2**k
        left = int(np.floor((x + 1) / 2 * width - size * cell / 2 + 0.5))
        top = int(np.floor((y + 1) / 2 * height - size * cell / 2 + 0.5))
        for c, i, j in np.ndindex(channels, size, size):
            for row in range(top + i * cell, top + (i + 1) * cell):
                for column in range(left + j * cell, left + (j + 1) * cell):
                    if 0 <= row < height and 0 <= column < width:
                        out[c, k, i, j] += float(image[c, row, column]) / cell**2
    return out


@settings(max_examples=40)
@given(
    st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 4), st.integers(0, 9), st.integers(0, 9), st.integers(0, 4)
)
def test_both_paths_against_loops(seed, size, scales, taller, wider, batch):
    torch.manual_seed(seed)
    image = torch.randn(batch, C, size + taller, size + wider)
    location = torch.randint(-48, 49, (batch, 2)) / 32 + 1 / 1024
    part = Retina(size, scales)
    fused = part(location, image).context
    with regard.kernels.use("plain"):
        plain = part(location, image)
    assert fused.shape == plain.context.shape == (batch, C, scales, size, size)
    for b in range(batch):
        expected = loops(location[b], image[b], size, scales)
        assert np.allclose(fused[b], expected, atol=1e-5)
        assert np.allclose(plain.context[b], expected, atol=1e-5)
    summed = image.flatten(-2) @ plain.weights.mT
    assert torch.allclose(summed.reshape(plain.context.shape), fused, atol=1e-5)


def test_by_hand():
    """The centre of an even image is between its pixels; −1 is the left edge, of which half is outside."""
    image = torch.arange(16.0).reshape(1, 4, 4)
    assert Retina(2)(torch.zeros(2), image).context.tolist() == [[[[5.0, 6.0], [9.0, 10.0]]]]
    assert Retina(2)(torch.tensor([-1.0, 0.0]), image).context.tolist() == [[[[0.0, 4.0], [0.0, 8.0]]]]
    assert Retina(2)(torch.tensor([0.0, 1.0]), image).context.tolist() == [[[[13.0, 14.0], [0.0, 0.0]]]]
    wide = Retina(2, 2)(torch.zeros(2), image).context[0, 1]
    assert wide.tolist() == [[2.5, 4.5], [10.5, 12.5]]  # means of 2 × 2 pixels


def test_a_row_of_weights_sums_to_one_inside_and_to_less_beyond():
    part, image = Retina(2, 2), torch.randn(B, C, 12, 12)
    inside = part(torch.zeros(B, 2), image)
    assert "when read" in repr(inside)
    assert torch.allclose(inside.weights.sum(-1), torch.ones(B, 8))
    corner = part(torch.ones(B, 2), image)
    assert (corner.weights.sum(-1) <= 1).all() and (corner.weights.sum(-1) < 1).any()
    assert not part(torch.full((B, 2), 9.0), image).context.any()
    assert not part(torch.full((B, 2), 1e30), image).context.any()


def test_gradients_are_exact_for_the_image_and_none_for_the_place():
    part = Retina(2, 2)
    location = (torch.rand(B, 2, dtype=torch.float64) * 2 - 1).requires_grad_()
    image = torch.randn(B, C, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda place, x: part(place, x).context, (location, image))
    part(location, image).context.sum().backward()
    assert not location.grad.any() and image.grad.any()


def test_the_fast_path_is_left_where_a_gradient_is_needed():
    part, location = Retina(3, 2), torch.rand(B, 2) * 2 - 1
    image = torch.randn(B, C, 9, 8, requires_grad=True)
    learned = part(location, image).context
    assert learned.requires_grad
    with torch.no_grad():
        assert torch.allclose(part(location, image).context, learned, atol=1e-6)


def test_not_a_number_stays_with_its_item():
    part, image, location = Retina(2, 2), torch.rand(B, C, 6, 6), torch.zeros(B, 2)
    location[1, 0] = torch.nan
    for kernel in ("plain", "fused"):
        with regard.kernels.use(kernel):
            out = part(location, image).context
        assert out[1].isnan().all() and not out[[0, 2]].isnan().any()


def test_leading_dimensions_strides_vmap_compile_and_tape():
    part, location = Retina(3, 2), torch.rand(B, 4, 2) * 2 - 1
    image = torch.randn(B, 4, C, 8, 7).mT
    expected = part(location, image).context
    flat = part(location.flatten(0, 1), image.flatten(0, 1)).context.unflatten(0, (B, 4))
    mapped = torch.func.vmap(lambda place, x: part(place, x).context)(location, image)
    compiled = torch.compile(part, backend="aot_eager", fullgraph=True)(location, image).context
    shared = part(location, image[:1, :1].expand(B, 4, C, 7, 8)).context
    for other in (flat, mapped, compiled):
        assert torch.allclose(other, expected, atol=1e-6)
    assert torch.allclose(shared[0, 0], expected[0, 0]) and part(location[0, 0], image[0, 0]).context.ndim == 4
    with regard.record(part) as tape:
        part(location[0], image[0])
    assert tape["retina"].weights.shape == (4, 18, 56)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    part, location, image = Retina(4, 2), torch.rand(B, 2) * 2 - 1, torch.rand(B, C, 30, 30)
    out = part(location, image.to(dtype))
    assert out.context.dtype == out.weights.dtype == dtype
    assert torch.allclose(out.context.float(), part(location, image).context, atol=0.02)


def test_autocast_rounds_no_pixel():
    part, location, image = Retina(4, 2), torch.rand(B, 2) * 2 - 1, torch.rand(B, C, 30, 30)
    with torch.autocast("cpu", torch.bfloat16):
        cast = part(location, image).context
    assert cast.dtype == torch.float32 and torch.equal(cast, part(location, image).context)


def test_bad_input():
    part, image = Retina(4), torch.rand(B, C, 8, 8)
    with pytest.raises(ValueError, match=r"size=0"):
        Retina(0)
    with pytest.raises(ValueError, match=r"scales=0"):
        Retina(4, 0)
    with pytest.raises(ValueError, match=r"x and y, not \(3, 3\)"):
        part(torch.zeros(B, 3), image)
    with pytest.raises(ValueError, match=r"\(2, 2\) and \(3, 2, 8, 8\)"):
        part(torch.zeros(2, 2), image)
    with pytest.raises(ValueError, match=r"smaller than a glimpse of 4 × 4"):
        part(torch.zeros(B, 2), image[..., :3])
    with pytest.raises(ValueError, match="on cpu but the image on meta"):
        part(torch.zeros(B, 2), image.to("meta"))
