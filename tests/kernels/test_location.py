"""The fused location-aware scores against loops in float64."""

import numpy as np
import pytest
import torch

import regard
from regard import masks
from regard.kernels import location
from regard.kernels.location import location_scores
from regard.scores import LocationAware

# (N, T, S, D, F, K): one of each, fewer keys than the filter is wide, odd everything, a multiple of four and not.
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 1, 3, 5, 4, 7), (3, 2, 9, 17, 5, 3), (2, 1, 40, 33, 10, 31), (1, 3, 6, 16, 3, 33)]


def draw(n, t, s, d, f, k):
    drawn = torch.Generator().manual_seed(0)
    shapes = (n, t, d), (n, s, d), (d,), (n, s), (f, k), (d, f)
    return [torch.randn(*shape, generator=drawn) for shape in shapes]


def reference(query, key, weight, last, filters, mix):
    """Scores, and a function from their gradient to those of the inputs, in float64 by the definition."""
    query, key, weight, last, filters, mix = (
        np.asarray(x, np.float64) for x in (query, key, weight, last, filters, mix)
    )
    (n, s, _), kernel = key.shape, filters.shape[1]
    half = kernel // 2
    around = np.zeros((n, s, kernel))
    for row, place, tap in np.ndindex(around.shape):
        if 0 <= place + tap - half < s:
            around[row, place, tap] = last[row, place + tap - half]
    features = around @ filters.T  # (n, s, f)
    bent = np.tanh(query[:, :, None] + (key + features @ mix.T)[:, None])  # (n, t, s, d)

    def gradients(grad):
        slope = grad[..., None] * weight * (1 - bent**2)
        back = slope.sum(1) @ mix  # (n, s, f)
        taps = back @ filters  # (n, s, kernel)
        into = np.zeros_like(last)
        for row, place, tap in np.ndindex(around.shape):
            if 0 <= place + tap - half < s:
                into[row, place + tap - half] += taps[row, place, tap]
        found = slope.sum(2), slope.sum(1), (grad[..., None] * bent).sum((0, 1, 2)), into
        return *found, np.einsum("nsf,nsk->fk", back, around), np.einsum("nsd,nsf->df", slope.sum(1), features)

    return bent @ weight, gradients


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_and_gradients(shape, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs = [x.requires_grad_() for x in draw(*shape)]
        out = location_scores(*inputs)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
        out.backward(grad)
    finally:
        torch.set_num_threads(before)
    expected, gradients = reference(*(x.detach() for x in inputs))
    np.testing.assert_allclose(out.detach(), expected, rtol=1e-5, atol=1e-5)
    for leaf, wanted in zip(inputs, gradients(grad.numpy().astype(np.float64)), strict=True):
        np.testing.assert_allclose(leaf.grad, wanted, rtol=1e-4, atol=1e-4)


def test_many_rows_over_threads_are_the_same_bits(monkeypatch):
    monkeypatch.setattr(location, "OWN", 1e6)  # nanoseconds: worth all threads
    inputs, before = draw(5, 1, 37, 24, 6, 9), torch.get_num_threads()
    found = []
    for threads in (1, 2):
        leaves = [x.clone().requires_grad_() for x in inputs]
        torch.set_num_threads(threads)
        try:
            out = location_scores(*leaves)
            out.square().sum().backward()
        finally:
            torch.set_num_threads(before)
        found.append([out.detach(), *(leaf.grad for leaf in leaves)])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_misfit_names_what_does_not_fit():
    query, key, weight, last, filters, mix = draw(2, 1, 5, 4, 3, 3)
    with pytest.raises(ValueError, match=r"mix is \(4, 2\) and not \(4, 3\)"):
        location_scores(query, key, weight, last, filters, mix[:, :2])


def test_no_tensor_of_keys_times_width_is_kept():
    """Of T queries, T·S·D numbers would be 400 times the keys."""
    attention = regard.Attention(LocationAware(8, 8, 64, filters=4, kernel=5))
    heard = torch.randn(2, 50, 8, requires_grad=True)
    memory = attention.remember(heard, mask=masks.lengths(torch.tensor([50, 30])))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        attention(torch.randn(2, 1, 8), memory, state=attention.start(memory))
    sizes = {(x.data_ptr(), x.numel()) for x in kept if x.numel() >= memory.key.numel()}
    assert sizes <= {(memory.key.data_ptr(), memory.key.numel())}


@pytest.mark.parametrize("kernel", ["plain", "chunked", "fused", "auto"])
def test_what_is_masked_does_not_matter(kernel):
    """NaN in a masked key reaches neither the context nor a gradient, over several steps."""
    attention = regard.Attention(LocationAware(6, 6, 10, filters=3, kernel=5))
    heard = torch.randn(2, 9, 6)
    query, allowed = torch.randn(2, 4, 6), masks.lengths(torch.tensor([9, 5]))
    found = []
    for spoil in (0.0, float("nan")):
        attention.zero_grad()
        keys = heard.clone()
        keys[1, 5:] = keys[1, 5:] * 0 + spoil
        with regard.kernels.use(kernel) if kernel != "auto" else torch.enable_grad():
            out = attention(query, keys, mask=allowed)
        out.context.square().sum().backward()
        found.append([out.context.detach(), out.weights.detach(), *(p.grad.clone() for p in attention.parameters())])
    assert all(torch.allclose(one, two, atol=1e-6) for one, two in zip(*found, strict=True))
