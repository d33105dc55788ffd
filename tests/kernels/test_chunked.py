"""The chunked additive scores against loops in float64, with slices forced to be small."""

import numpy as np
import pytest
import torch

from regard.kernels import chunked
from regard.kernels.chunked import additive_scores_chunked


def reference(query, key, weight):
    query, key, weight = (x.detach().double().numpy() for x in (query, key, weight))
    out = np.zeros((query.shape[0], query.shape[1], key.shape[1]))
    for n, t, s in np.ndindex(out.shape):
        out[n, t, s] = weight[n % len(weight)] @ np.tanh(query[n, t] + key[n, s])
    return out


def reference_gradients(grad, query, key, weight):
    grad, query, key, weight = (x.detach().double().numpy() for x in (grad, query, key, weight))
    grads = np.zeros_like(query), np.zeros_like(key), np.zeros_like(weight)
    for n, t, s in np.ndindex(grad.shape):
        g, y = n % len(weight), np.tanh(query[n, t] + key[n, s])
        slope = grad[n, t, s] * weight[g] * (1 - y * y)
        grads[0][n, t] += slope
        grads[1][n, s] += slope
        grads[2][g] += grad[n, t, s] * y
    return grads


def draw(n, t, s, d, g, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (n, t, d), (n, s, d), (g, d)
    return [
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes
    ]


# Bytes for: less than a query, two queries, a row and a half, everything.
@pytest.mark.parametrize("limit", [1, 2 * 4 * 3 * 8, 5 * 4 * 3 * 8 * 3 // 2, 2**24])
@pytest.mark.parametrize("shape", [(4, 5, 4, 3, 2), (1, 1, 1, 1, 1), (0, 5, 4, 3, 1), (4, 0, 4, 3, 1), (4, 5, 0, 3, 2)])
def test_scores_and_gradients(shape, limit, monkeypatch):
    monkeypatch.setattr(chunked, "LIMIT", limit)
    inputs = draw(*shape)
    out = additive_scores_chunked(*inputs)
    np.testing.assert_allclose(out.detach().numpy(), reference(*inputs), rtol=0, atol=1e-12)
    grad = torch.randn(out.shape, dtype=torch.float64)
    out.backward(grad)
    for leaf, expected in zip(inputs, reference_gradients(grad, *inputs)):
        np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=0, atol=1e-12)


def test_no_width():
    inputs = draw(2, 3, 4, 0, 1)
    out = additive_scores_chunked(*inputs)
    assert out.eq(0).all()
    out.sum().backward()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_other_dtypes(dtype, tolerance, monkeypatch):
    monkeypatch.setattr(chunked, "LIMIT", 500)
    inputs = draw(3, 5, 4, 16, 1, dtype)
    out = additive_scores_chunked(*inputs)
    assert out.dtype == dtype
    np.testing.assert_allclose(out.detach().double().numpy(), reference(*inputs), rtol=0, atol=tolerance)
    out.sum().backward()
    for leaf, expected in zip(inputs, reference_gradients(torch.ones_like(out), *inputs)):
        assert leaf.grad.dtype == dtype
        np.testing.assert_allclose(leaf.grad.double().numpy(), expected, rtol=2 * tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("shape", [(7, 5, 40, 16), (2, 100, 40, 16), (1000, 1, 3, 2)])
@pytest.mark.parametrize("limit", [1, 3000, 20000, 10**9])
def test_slices_cover_everything_once_within_the_limit(shape, limit, monkeypatch):
    monkeypatch.setattr(chunked, "LIMIT", limit)
    n, t, s, d = shape
    query, key = torch.zeros(n, t, d), torch.zeros(n, s, d)
    seen = torch.zeros(n, t)
    for rows, queries in chunked.slices(query, key):
        seen[rows, queries] += 1
        assert query[rows, queries, :1].numel() * s * d * 4 <= max(limit, s * d * 4)
    assert seen.eq(1).all()


def test_nan_passes():
    query, key, weight = (x.detach() for x in draw(2, 3, 4, 5, 1))
    key[0, 1, 2] = float("nan")
    out = additive_scores_chunked(query, key, weight)
    assert out[0, :, 1].isnan().all()
    assert out.isnan().sum() == 3


def test_strides():
    query, key, weight = (x.detach() for x in draw(2, 3, 4, 5, 1))
    expected = additive_scores_chunked(query, key, weight)
    turned = [x.mT.contiguous().mT.requires_grad_() for x in (query, key, weight)]
    out = additive_scores_chunked(*turned)
    torch.testing.assert_close(out, expected)
    out.sum().backward()


def test_compiles_whole(monkeypatch):
    monkeypatch.setattr(chunked, "LIMIT", 500)
    inputs = draw(4, 5, 4, 3, 2)
    results = []
    for function in (
        additive_scores_chunked,
        torch.compile(additive_scores_chunked, fullgraph=True, backend="aot_eager"),
    ):
        loss = function(*inputs).square().sum()
        results.append([loss, *torch.autograd.grad(loss, inputs)])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)


def test_double_backward_and_vmap_say_what_to_do():
    inputs = draw(2, 3, 4, 5, 1)
    (grad,) = torch.autograd.grad(additive_scores_chunked(*inputs).square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        grad.sum().backward()
    query, key, weight = (x.detach() for x in inputs)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        torch.vmap(lambda q: additive_scores_chunked(q, key, weight))(torch.stack([query, query]))
