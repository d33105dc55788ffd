"""The oracle itself, against numbers worked by hand or printed in the papers, and other people's code."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from entmax import entmax15, sparsemax

import oracle

ALL = [True] * 6


def test_it_never_imports_the_package_or_torch() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    names = {
        alias.name.split(".")[0] if isinstance(node, ast.Import) else (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names <= {"__future__", "math", "collections", "dataclasses", "typing", "numpy"}


def test_the_weather_stations_of_the_lecture() -> None:
    """Printed: weights .52 .37 .068 .027 .013 .0054 and (31.0, 48.0)."""
    scores = [6.5, 6.1, 4.5, 3.5, 2.8, 1.9]
    values = np.array([[30, 48], [31, 49], [37, 44], [33, 45], [34, 50], [32, 45]], float)
    weights = oracle.softmax(scores, ALL)
    assert np.allclose(weights, [0.52, 0.37, 0.068, 0.027, 0.013, 0.0054], atol=0.02)
    assert np.allclose(np.array(weights) @ values, [31.0, 48.0], atol=0.05)


def test_scaled_dot_of_112_and_96() -> None:
    keys = np.zeros((2, 64))
    keys[:, 0] = 112, 96
    query = np.zeros(64)
    query[0] = 1.0
    scores = oracle.scaled_dot(query, keys)
    assert scores == [14.0, 12.0]
    assert np.allclose(oracle.softmax(scores, [True, True]), [0.8808, 0.1192], atol=5e-5)


def test_additive_is_the_perceptron() -> None:
    rng = np.random.default_rng(0)
    q, k, w, u, v = (rng.normal(size=s) for s in [(3,), (4, 2), (5, 3), (5, 2), (5,)])
    joined = oracle.additive(q, k, w=np.concatenate([w, u], 1), v=v)
    assert np.allclose(joined, oracle.perceptron(q, k, w=w, u=u, v=v), rtol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_sparse_normalizers_against_entmax(seed: int) -> None:
    e = np.random.default_rng(seed).normal(0, 2, 6)
    t = torch.tensor(e)
    assert np.allclose(oracle.sparsemax(e, ALL), sparsemax(t), atol=1e-12)
    assert np.allclose(oracle.entmax15(e, ALL), entmax15(t), atol=1e-7)  # theirs loses digits in a root
    assert math.isclose(sum(oracle.entmax15(e, ALL)), 1.0, rel_tol=1e-12)


def test_smoothed_by_hand() -> None:
    assert np.allclose(oracle.smoothed([0.0, math.log(3.0)], [True, True]), [0.4, 0.6])
    assert np.allclose(oracle.smoothed([-800.0, -801.0], [True, True]), oracle.softmax([0, -1], [True, True]))


def test_nothing_allowed_gives_zeros() -> None:
    for name in ("softmax", "sparsemax", "entmax15", "sigmoid", "smoothed", "hard", "gumbel"):
        assert getattr(oracle, name)([1.0, 2.0], [False, False]) == [0.0, 0.0]


def test_gaussian_factor_at_the_edge_of_a_window() -> None:
    """sigma = D / 2, so the edge of the window lies two sigma out: exp(-2)."""
    assert math.isclose(oracle.local_predictive_factor(7, 5.0, 2), math.exp(-2))
    assert oracle.local_predictive_factor(5, 5.0, 2) == 1.0


def test_shift_moves_a_one_hot_and_goes_round() -> None:
    still = dict(gate=1.0, sharpen=1.0)
    assert oracle.shift_sharpen([0, 0, 1.0], ALL[:3], [1, 0, 0], shift=[0, 0, 1.0], **still) == [1.0, 0, 0]
    assert oracle.shift_sharpen([0, 1.0, 0], ALL[:3], [1, 0, 0], shift=[1.0, 0, 0], **still) == [1.0, 0, 0]
    # the ring leaves out the key that may not be attended
    ring = [True, False, True]
    assert oracle.shift_sharpen([1.0, 0, 0], ring, [0, 0, 0], shift=[0, 0, 1.0], **still) == [0, 0, 1.0]


def test_sharpen_by_hand() -> None:
    out = oracle.shift_sharpen([0.25, 0.75], [True, True], [0, 0], gate=1.0, shift=[1.0], sharpen=2.0)
    assert np.allclose(out, [0.1, 0.9])


def test_location_features_are_a_correlation() -> None:
    previous, f = [0.1, 0.2, 0.7], np.array([[1.0, 10.0, 100.0]])
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    scores = oracle.location_aware(
        [0.0], np.zeros((3, 1)), w=zero, v=zero, u=one, f=f * 1e-3, out=[1.0], previous=previous
    )
    expected = torch.nn.functional.conv1d(torch.tensor([[previous]]).double(), torch.tensor(f)[None] * 1e-3, padding=1)
    assert np.allclose(np.arctanh(scores), expected.flatten())


def test_mixture_window_by_hand() -> None:
    """One Gaussian, all raw parameters 0: kappa = 1, phi(u) = exp(-(1 - u)^2); the next row has kappa = 2."""
    phi, kappa = oracle.mixture_window(np.zeros((2, 1)), 3, w=np.zeros((3, 1)), b=np.zeros(3))
    assert np.allclose(phi, np.exp([[-1, 0, -1], [-4, -1, 0]]))
    assert kappa == [2.0]


def test_filter_bank_finds_a_patch_exactly() -> None:
    """Stride 1, no blur, centred: reading returns the middle of the image and writing puts it back."""
    image = np.arange(25.0).reshape(5, 5)
    sharp = [0.0, 0.0, math.log(1e-4), math.log(2 / 4), 0.0]
    patch = oracle.filter_bank_read(image, sharp, 3)
    assert np.allclose(patch, image[1:4, 1:4])
    back = oracle.filter_bank_write(patch, sharp, 5, 5)
    assert np.allclose(back[1:4, 1:4], patch) and np.isclose(np.abs(back).sum(), np.abs(patch).sum())


@pytest.mark.parametrize("align", [False, True])
def test_bilinear_against_grid_sample(align: bool) -> None:
    rng = np.random.default_rng(3)
    image, theta = rng.normal(size=(4, 5)), rng.normal(0, 0.7, (2, 3))
    grid = oracle.affine_grid(theta, 3, 6, align_corners=align)
    torch_grid = torch.nn.functional.affine_grid(torch.tensor(theta)[None], [1, 1, 3, 6], align_corners=align)
    assert np.allclose(grid, torch_grid[0])
    expected = torch.nn.functional.grid_sample(torch.tensor(image)[None, None], torch_grid, align_corners=align)
    assert np.allclose(oracle.bilinear_read(image, grid, align_corners=align), expected[0, 0])


def test_the_whole_recipe_against_sdpa() -> None:
    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    mask = oracle.mask_causal(4, 5)
    seen = oracle.attend(q, k, v, mask, score=oracle.scaled_dot, normalizer=oracle.softmax)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.tensor(x)[None] for x in (q, k, v)), attn_mask=torch.tensor(mask)[None]
    )
    assert np.allclose(seen.context, expected[0], atol=1e-12)


def test_heads_against_torch() -> None:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(6, 3, batch_first=True).double()
    torch.nn.init.normal_(module.in_proj_bias)
    q, k = torch.randn(1, 4, 6).double(), torch.randn(1, 5, 6).double()
    expected, weights = module(q, k, k, average_attn_weights=False)
    w, b = (x.detach().numpy() for x in (module.in_proj_weight, module.in_proj_bias))
    project = {name: (w[6 * i : 6 * i + 6], b[6 * i : 6 * i + 6]) for i, name in enumerate(("query", "key", "value"))}
    project["out"] = tuple(x.detach().numpy() for x in (module.out_proj.weight, module.out_proj.bias))
    context, ours = oracle.multi_head(
        *(x[0].numpy() for x in (q, k, k)),
        None,
        heads=3,
        scores=[oracle.scaled_dot] * 3,
        normalizer=oracle.softmax,
        project=project,
    )
    assert np.allclose(context, expected[0].detach(), atol=1e-12)
    assert np.allclose(ours, weights[0].detach(), atol=1e-12)


def test_masks_by_hand() -> None:
    assert oracle.mask_causal(2, 3).tolist() == [[True, True, False], [True, True, True]]
    assert oracle.mask_lengths([2, 0], 3).tolist() == [[True, True, False], [False] * 3]
    assert oracle.mask_window(3, 3, 0).tolist() == np.eye(3, dtype=bool).tolist()
    per_batch = np.array([[True, False], [False, False]])
    assert oracle.mask_rows(per_batch, (2, 3), 4, 2)[0, 1, 2].tolist() == [True, False]
    assert not oracle.mask_rows(per_batch, (2, 3), 4, 2)[1].any()
