"""The windowed kernels against loops in float64."""

import numpy as np
import pytest
import torch

from regard.kernels.local import local_additive, local_dot, local_scatter, local_sum

N, T, S, D, E, W = 2, 7, 9, 21, 13, 5
FAR = torch.iinfo(torch.int64)
STARTS = {
    "inside": [0, 1, 2, 3, 4, 0, 2],
    "over the edges": [-4, -1, 5, 8, -3, 6, 7],
    "outside": [-5, -6, 9, 100, -100, 12, -9],
    "any integer": [FAR.min, FAR.max, 2**40, -(2**40), 3, FAR.max - 2, FAR.min + 2],
}


def rows(first, width, keys):
    """(n, t, w, s) for each place of a window at which there is a key."""
    for n, t in np.ndindex(first.shape):
        for w in range(width):
            s = int(first[n, t]) + w
            if 0 <= s < keys:
                yield n, t, w, s


def reference_dot(query, key, first, width):
    out = np.zeros((*query.shape[:2], width))
    for n, t, w, s in rows(first, width, key.shape[1]):
        out[n, t, w] = query[n, t] @ key[n, s]
    return out


def reference_sum(weights, value, first):
    out = np.zeros((*weights.shape[:2], value.shape[2]))
    for n, t, w, s in rows(first, weights.shape[2], value.shape[1]):
        out[n, t] += weights[n, t, w] * value[n, s]
    return out


def reference_scatter(weights, values, first, keys):
    out = np.zeros((weights.shape[0], keys, values.shape[2]))
    for n, t, w, s in rows(first, weights.shape[2], keys):
        out[n, s] += weights[n, t, w] * values[n, t]
    return out


def reference_additive(query, key, weight, first, width):
    out = np.zeros((*query.shape[:2], width))
    for n, t, w, s in rows(first, width, key.shape[1]):
        out[n, t, w] = weight[n % len(weight)] @ np.tanh(query[n, t] + key[n, s])
    return out


def reference_additive_gradients(grad, query, key, weight, first):
    grads = np.zeros_like(query), np.zeros_like(key), np.zeros_like(weight)
    for n, t, w, s in rows(first, grad.shape[2], key.shape[1]):
        g, y = n % len(weight), np.tanh(query[n, t] + key[n, s])
        slope = grad[n, t, w] * weight[g] * (1 - y * y)
        grads[0][n, t] += slope
        grads[1][n, s] += slope
        grads[2][g] += grad[n, t, w] * y
    return grads


def draw(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


def starts(name):
    return torch.tensor([STARTS[name], STARTS[name][::-1]])


def double(*tensors):
    return [tensor.detach().double().numpy() for tensor in tensors]


def assert_near(found, expected):
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(found.detach().double().numpy(), expected, rtol=0, atol=1e-5)


def gradients(out, grad, *inputs):
    return torch.autograd.grad(out, inputs, grad)


@pytest.mark.parametrize("name", STARTS)
def test_dot(name):
    first = starts(name)
    query, key, grad = draw((N, T, D), (N, S, D), (N, T, W))
    query.requires_grad_(), key.requires_grad_()
    out = local_dot(query, key, first, W)
    assert_near(out, reference_dot(*double(query, key), first, W))
    grad_query, grad_key = gradients(out, grad, query, key)
    assert_near(grad_query, reference_sum(*double(grad, key), first))
    assert_near(grad_key, reference_scatter(*double(grad, query), first, S))


@pytest.mark.parametrize("name", STARTS)
def test_sum(name):
    first = starts(name)
    weights, value, grad = draw((N, T, W), (N, S, E), (N, T, E))
    weights.requires_grad_(), value.requires_grad_()
    out = local_sum(weights, value, first)
    assert_near(out, reference_sum(*double(weights, value), first))
    grad_weights, grad_value = gradients(out, grad, weights, value)
    assert_near(grad_weights, reference_dot(*double(grad, value), first, W))
    assert_near(grad_value, reference_scatter(*double(weights, grad), first, S))


@pytest.mark.parametrize("name", STARTS)
def test_scatter(name):
    first = starts(name)
    weights, values, grad = draw((N, T, W), (N, T, E), (N, S, E))
    weights.requires_grad_(), values.requires_grad_()
    out = local_scatter(weights, values, first, S)
    assert_near(out, reference_scatter(*double(weights, values), first, S))
    grad_weights, grad_values = gradients(out, grad, weights, values)
    assert_near(grad_weights, reference_dot(*double(values, grad), first, W))
    assert_near(grad_values, reference_sum(*double(weights, grad), first))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", STARTS)
def test_additive(name, groups):
    first = starts(name)
    query, key, weight, grad = draw((N, T, D), (N, S, D), (groups, D), (N, T, W))
    query, key = query * 4, key * 4  # some saturate
    inputs = [x.requires_grad_() for x in (query, key, weight)]
    out = local_additive(*inputs, first, W)
    assert_near(out, reference_additive(*double(*inputs), first, W))
    expected = reference_additive_gradients(*double(grad, *inputs), first)
    for one, other in zip(gradients(out, grad, *inputs), expected):
        assert_near(one, other)


@pytest.mark.parametrize(
    ("n", "t", "s", "d", "w"), [(0, 3, 4, 5, 3), (2, 0, 4, 5, 3), (2, 3, 0, 5, 3), (2, 3, 4, 0, 3), (2, 3, 4, 5, 0)]
)
def test_zero_sizes(n, t, s, d, w):
    first = torch.zeros(n, t, dtype=torch.int64)
    query, key, weight, weights = (x.requires_grad_() for x in draw((n, t, d), (n, s, d), (1, d), (n, t, w)))
    for out, inputs, shape in (
        (local_dot(query, key, first, w), (query, key), (n, t, w)),
        (local_additive(query, key, weight, first, w), (query, key, weight), (n, t, w)),
        (local_sum(weights, key, first), (weights, key), (n, t, d)),
        (local_scatter(weights, query, first, s), (weights, query), (n, s, d)),
    ):
        assert out.shape == shape
        if 0 in (n, s, d, w):
            assert out.eq(0).all()
        for one, grad in zip(inputs, gradients(out, torch.ones_like(out), *inputs)):
            assert grad.shape == one.shape


def test_what_no_window_sees_is_never_read():
    first = torch.full((1, 3), 4)
    query, key, weight, weights = draw((1, 3, D), (1, S, D), (1, D), (1, 3, W))
    key[:, :4] = float("nan")
    for out in (
        local_dot(query, key, first, W),
        local_additive(query, key, weight, first, W),
        local_sum(weights, key, first),
    ):
        assert out.isfinite().all()
    key[0, 6, 0] = float("nan")
    assert local_dot(query, key, first, W)[0, 0].isnan().tolist() == [False, False, True, False, False]
    assert local_additive(query, key, weight, first, W)[0, 0].isnan().tolist() == [False, False, True, False, False]
    assert local_sum(weights, key, first)[0, 0].isnan().tolist() == [True] + [False] * (D - 1)


def test_infinite_hidden_values_saturate():
    query, key, weight = draw((1, 1, 4), (1, 3, 4), (1, 4))
    key[0, 0], key[0, 1], key[0, 2] = float("inf"), -float("inf"), 1e4
    out = local_additive(query, key, weight, torch.zeros(1, 1, dtype=torch.int64), 3)
    total = weight.sum()
    torch.testing.assert_close(out[0, 0], torch.stack([total, -total, total]))


def test_strides():
    first = starts("over the edges")
    query, key, weight, weights = draw((N, T, D), (N, S, D), (1, D), (N, T, W))
    turned = [x.mT.contiguous().mT for x in (query, key, weight, weights)]
    turned_first = first.T.contiguous().T
    assert local_dot(turned[0], turned[1], turned_first, W).equal(local_dot(query, key, first, W))
    assert local_additive(*turned[:3], turned_first, W).equal(local_additive(query, key, weight, first, W))
    assert local_sum(turned[3], turned[1], turned_first).equal(local_sum(weights, key, first))
    shared = key[:1].expand(N, -1, -1)
    assert local_dot(query, shared, first, W).equal(local_dot(query, shared.clone(), first, W))


def test_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    query, key, weight, grad = draw((3, 20, 192), (3, 40, 192), (1, 192), (3, 20, W))
    first = torch.randint(-3, 38, (3, 20), generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            leaves = [x.clone().requires_grad_() for x in (query, key, weight)]
            out = local_additive(*leaves, first, W)
            dot = local_dot(leaves[0], leaves[1], first, W)
            results.append([out, dot, *gradients(out, grad, *leaves), *gradients(dot, grad, *leaves[:2])])
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for one, other in zip(result, results[0]):
            assert one.equal(other)


def gathered(keys, first, width):
    """(N, T, W, D) in plain torch, zeros where there is no key."""
    places = first.unsqueeze(-1) + torch.arange(width)
    there = (places >= 0) & (places < keys.shape[1])
    index = places.clamp(0, keys.shape[1] - 1)
    batch = torch.arange(len(keys))[:, None, None]
    return keys[batch, index] * there.unsqueeze(-1)


def test_differentiable_twice():
    """An attention of dots, then the gradient of a gradient, against autograd through gathered rows in float64."""
    first = starts("over the edges")
    query, key = draw((N, T, D), (N, S, D))
    results = []
    for dtype, dot, total in (
        (torch.float32, local_dot, local_sum),
        (
            torch.float64,
            lambda q, k, first, width: (gathered(k, first, width) @ q.unsqueeze(-1)).squeeze(-1),
            lambda w, v, first: (w.unsqueeze(-2) @ gathered(v, first, w.shape[-1])).squeeze(-2),
        ),
    ):
        q, k = (x.to(dtype).requires_grad_() for x in (query * 0.3, key * 0.3))
        context = total(dot(q, k, first, W).softmax(-1), k, first)
        grad_query, grad_key = torch.autograd.grad(context.square().sum(), (q, k), create_graph=True)
        penalty = grad_query.square().sum() + grad_key.square().sum()
        results.append([grad_query, grad_key, *torch.autograd.grad(penalty, (q, k))])
    for one, other in zip(*results):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


def operators():
    first = starts("over the edges")
    query, key, weight, weights = draw((N, T, D), (N, S, D), (2, D), (N, T, W))
    return {
        "dot": (local_dot, (query, key, first, W)),
        "sum": (local_sum, (weights, key, first)),
        "scatter": (local_scatter, (weights, query, first, S)),
        "additive": (local_additive, (query, key, weight, first, W)),
    }


@pytest.mark.parametrize("name", ["dot", "sum", "scatter", "additive"])
def test_opcheck_and_compile(name):
    op, inputs = operators()[name]
    torch.library.opcheck(op, [x.requires_grad_() if getattr(x, "is_floating_point", bool)() else x for x in inputs])
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    results = []
    for function in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
        loss = function(*inputs).square().sum()
        results.append([loss, *torch.autograd.grad(loss, leaves)])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["dot", "sum", "scatter", "additive"])
def test_vmap_says_what_to_do(name):
    op, (inside, *rest) = operators()[name]
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        torch.vmap(lambda x: op(x, *rest))(torch.stack([inside, inside]))


def test_double_backward_of_additive_says_what_to_do():
    _, (query, key, weight, first, width) = operators()["additive"]
    query.requires_grad_()
    out = local_additive(query, key, weight, first, width)
    (grad,) = torch.autograd.grad(out.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        grad.sum().backward()


def test_misfits_are_refused():
    first = starts("inside")
    query, key, weight, weights = draw((N, T, D), (N, S, D), (1, D), (N, T, W))
    for call in (
        lambda: local_dot(query, key[..., 1:], first, W),
        lambda: local_dot(query, key, first[:, 1:], W),
        lambda: local_dot(query[:1], key, first[:1], W),
        lambda: local_dot(query, key, first.int(), W),
        lambda: local_dot(query.double(), key.double(), first, W),
        lambda: local_sum(weights[0], key, first),
        lambda: local_scatter(weights, query[:, 1:], first, S),
        lambda: local_additive(query, key, weight[:, 1:], first, W),
    ):
        with pytest.raises(ValueError, match=r"\d"):
            call()
