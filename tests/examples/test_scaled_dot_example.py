from __future__ import annotations

import pytest
import scaled_dot as example
import torch

import regard


def test_slide():
    query, key = example.lecture()
    assert regard.attend(query, key, score="dot").scores.tolist() == [[112, 96]]
    out = regard.attend(query, key)
    assert out.scores.tolist() == [[14, 12]]
    assert out.weights[0].tolist() == pytest.approx([0.8808, 0.1192], abs=1e-4)


def test_undivided_scores_saturate():
    largest, gradient = example.saturation(512, "dot")
    assert largest == pytest.approx(0.953, abs=0.01)
    scaled_largest, scaled_gradient = example.saturation(512, "scaled_dot")
    assert scaled_largest == pytest.approx(0.323, abs=0.01)
    assert gradient < 0.25 * scaled_gradient


def test_the_width_does_not_matter_when_divided():
    largest = [example.saturation(width, "scaled_dot")[0] for width in (16, 64, 512)]
    assert max(largest) - min(largest) < 0.02


def test_loops_and_matrices_agree():
    difference, faster = example.matrix_form()
    assert difference < 1e-5
    assert faster > 3


def test_matrix_form_is_torchs():
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 4)
    mask = torch.rand(2, 3, 5, 7) < 0.7
    mask[..., 0] = True
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(regard.attend(query, key, value, mask=mask).context, expected, atol=1e-6, rtol=1e-5)
