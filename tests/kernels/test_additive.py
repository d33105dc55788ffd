"""The fused additive kernel against loops in float64."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from regard.kernels import _loops
from regard.kernels.additive import additive_scores

# (N, T, S, D, G): few queries or keys (one tanh each), many (shared exponentials), odd everything, more than one head.
SHAPES = [
    (1, 1, 1, 1, 1),
    (2, 1, 7, 33, 1),
    (3, 2, 5, 16, 3),
    (2, 5, 3, 8, 2),
    (2, 4, 4, 64, 1),
    (4, 5, 7, 37, 2),
    (6, 9, 6, 130, 3),
    (1, 17, 11, 256, 1),
]
EMPTY = [(0, 3, 4, 5, 1), (2, 0, 4, 5, 1), (2, 3, 0, 5, 2), (2, 3, 4, 0, 1), (2, 9, 8, 0, 2), (0, 0, 0, 0, 1)]


def reference(query, key, weight):
    """e[n, t, s] = Σ_d v_d tanh(q_d + k_d), in float64."""
    query, key, weight = (np.asarray(x, np.float64) for x in (query, key, weight))
    out = np.zeros((query.shape[0], query.shape[1], key.shape[1]))
    for n, t, s in np.ndindex(out.shape):
        out[n, t, s] = sum(weight[n % len(weight)] * np.tanh(query[n, t] + key[n, s]))
    return out


def reference_gradients(grad, query, key, weight):
    grad, query, key, weight = (np.asarray(x, np.float64) for x in (grad, query, key, weight))
    grads = np.zeros_like(query), np.zeros_like(key), np.zeros_like(weight)
    for n, t, s in np.ndindex(grad.shape):
        g = n % len(weight)
        y = np.tanh(query[n, t] + key[n, s])
        slope = grad[n, t, s] * weight[g] * (1 - y * y)
        grads[0][n, t] += slope
        grads[1][n, s] += slope
        grads[2][g] += grad[n, t, s] * y
    return grads


def draw(n, t, s, d, g, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query, key, weight = (torch.randn(*shape, generator=generator) for shape in ((n, t, d), (n, s, d), (g, d)))
    return query, key, weight


def differentiate(query, key, weight, grad):
    """Scores and the gradients of the inputs."""
    inputs = [x.detach().requires_grad_() for x in (query, key, weight)]
    out = additive_scores(*inputs)
    out.backward(grad)
    return out.detach(), *(x.grad for x in inputs)


def assert_near(found, expected, tolerance=2e-6):
    """Equal up to float32 rounding of numbers as large as the largest; NaN and inf in the same places."""
    found = np.asarray(found, np.float64)
    assert found.shape == expected.shape
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, finite.max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_scores_and_gradients(shape):
    query, key, weight = draw(*shape)
    grad = torch.randn(shape[0], shape[1], shape[2], generator=torch.Generator().manual_seed(1))
    found = differentiate(query, key, weight, grad)
    assert_near(found[0], reference(query, key, weight))
    for one, other in zip(found[1:], reference_gradients(grad, query, key, weight)):
        assert_near(one, other)


def test_row_n_uses_weight_n_modulo_g():
    query, key, _ = draw(4, 6, 5, 3, 2)
    weight = torch.tensor([[1.0, 2, 3], [0, 0, 0]])
    out = additive_scores(query, key, weight)
    assert out[[1, 3]].eq(0).all()
    assert out[[0, 2]].ne(0).all()


@pytest.mark.parametrize("queries", [2, 6])
@pytest.mark.parametrize("size", [7.9, 8.1, 19.99, 20.01, 50, 1e4, 1e30])
def test_large_values(queries, size):
    """Alone they saturate; with opposite signs they cancel, and what remains decides."""
    query, key, weight = draw(2, queries, 5, 24, 1)
    grad = torch.ones(2, queries, 5)
    for signs in (torch.ones(24), torch.arange(24) % 2 * 2.0 - 1):
        for sign in (1, -1):
            large_query, large_key = query + size * signs, key * (size < 1e3) - sign * size * signs
            found = differentiate(large_query, large_key, weight, grad)
            assert_near(found[0], reference(large_query, large_key, weight))
            for one, other in zip(found[1:], reference_gradients(grad, large_query, large_key, weight)):
                assert_near(one, other)


@pytest.mark.parametrize("limit", [-20.0, 20.0])
def test_at_the_edge_of_the_exponentials(limit):
    """Denominators of e^80 share divisions with small ones and must not disturb them."""
    query, key, weight = draw(1, 6, 6, 32, 1)
    query, key = query.clamp(-2, 2), key.clamp(-2, 2)
    query[0, ::2], key[0, ::2] = limit, limit
    query[0, 1::2, :16] = -0.775 * limit  # with such a key, tanh(4.5) = 0.99975 beside 1 - e^-80
    assert _loops.within(query.numpy(), _loops.REACH)
    grad = torch.ones(1, 6, 6)
    found = differentiate(query, key, weight, grad)
    assert_near(found[0], reference(query, key, weight))
    for one, other in zip(found[1:], reference_gradients(grad, query, key, weight)):
        assert_near(one, other)


@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["query", "key", "weight", "both"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_and_inf_as_torch_treats_them(queries, bad, where):
    query, key, weight = draw(2, queries, 5, 40, 1)
    if where in ("query", "both"):
        query[0, 0, 3] = bad
    if where in ("key", "both"):
        key[0, 2, 3] = -bad
    if where == "weight":
        weight[0, 3] = bad
    found = additive_scores(query, key, weight)
    assert_near(found, reference(query, key, weight))
    if bad != bad:
        assert found.isnan().any()

    grad = torch.ones(2, queries, 5)
    grads = differentiate(query, key, weight, grad)[1:]
    for one, other in zip(grads, reference_gradients(grad, query, key, weight)):
        assert_near(one, other)


def test_nan_stays_in_its_row():
    query, key, weight = draw(2, 6, 5, 40, 1)
    clean = additive_scores(query, key, weight)
    query[0, 3, 7] = float("nan")
    found = additive_scores(query, key, weight)
    hit = torch.zeros(2, 6, 5, dtype=torch.bool)
    hit[0, 3] = True
    assert found[hit].isnan().all()
    torch.testing.assert_close(found[~hit], clean[~hit], rtol=0, atol=2e-5)


def test_nan_gradient_passes():
    query, key, weight = draw(1, 6, 5, 8, 1)
    grad = torch.zeros(1, 6, 5)
    grad[0, 2, 3] = float("nan")
    _, grad_query, grad_key, grad_weight = differentiate(query, key, weight, grad)
    assert grad_query[0, 2].isnan().all()
    assert grad_key[0, 3].isnan().all()
    assert grad_weight.isnan().all()
    assert grad_query[0, [0, 1, 3, 4, 5]].eq(0).all()


def test_batch_mates_do_not_matter():
    query, key, weight = draw(3, 6, 5, 40, 1)
    together = additive_scores(query, key, weight)
    query[0, 0, 0], query[2] = float("nan"), 1e3
    assert additive_scores(query, key, weight)[1].equal(together[1])


@pytest.mark.parametrize("queries", [2, 7])
def test_strides(queries):
    query, key, weight = draw(2, queries, 5, 12, 1)
    grad = torch.randn(2, queries, 5)
    expected = differentiate(query, key, weight, grad)
    wide = torch.randn(2, 5, 30)
    wide[..., 1:25:2] = key
    views = query.mT.contiguous().mT, wide[..., 1:25:2], weight.T.contiguous().T
    for one, other in zip(differentiate(*views, grad.permute(2, 0, 1).contiguous().permute(1, 2, 0)), expected):
        assert one.equal(other)
    offset = torch.cat([torch.zeros(1), query.flatten()])[1:].view_as(query)
    assert additive_scores(offset, key, weight).equal(expected[0])

    one_key = key[:1].expand(2, -1, -1)
    assert additive_scores(query, one_key, weight).equal(additive_scores(query, one_key.clone(), weight))
    summed = [x.detach().requires_grad_() for x in (query, key, weight)]
    additive_scores(*summed).sum().backward()  # an expanded gradient
    for one, other in zip(summed, reference_gradients(np.ones((2, queries, 5)), query, key, weight)):
        assert_near(one.grad, other)


@pytest.mark.parametrize("shape", [(1, 37, 40, 256, 1), (3, 21, 40, 320, 1), (8, 20, 20, 128, 2)])
def test_same_bits_on_any_number_of_threads(shape, monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    inputs = draw(*shape)
    grad = torch.randn(*shape[:3])
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            results.append(differentiate(*inputs, grad))
    finally:
        torch.set_num_threads(before)
    assert_near(results[0][0], reference(*inputs))
    for result in results[1:]:
        for one, other in zip(result, results[0]):
            assert one.equal(other)


def test_eight_callers_at_once(monkeypatch):
    monkeypatch.setattr("regard.kernels._pool.INLINE", 0)
    inputs = [draw(3, 9, 8, 128, 1, seed) for seed in range(8)]
    grad = torch.randn(3, 9, 8)
    expected = [differentiate(*each, grad) for each in inputs]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: differentiate(*inputs[index % 8], grad), range(64)))
    for index, result in enumerate(found):
        for one, other in zip(result, expected[index % 8]):
            assert one.equal(other)


@pytest.mark.parametrize("shape", [(2, 6, 5, 16, 2), (2, 1, 5, 16, 1), (2, 0, 5, 16, 1)])
def test_opcheck(shape):
    inputs = [x.requires_grad_() for x in draw(*shape)]
    torch.library.opcheck(additive_scores, inputs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_whole(dynamic):
    inputs = draw(4, 6, 5, 16, 2)

    def step(query, key, weight):
        return additive_scores(query * 2, key, weight).softmax(-1).square().sum()

    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)):
        leaves = [x.detach().requires_grad_() for x in inputs]
        loss = function(*leaves)
        loss.backward()
        results.append((loss.detach(), *(leaf.grad for leaf in leaves)))
    for one, other in zip(*results):
        torch.testing.assert_close(one, other)


def test_double_backward_and_vmap_say_what_to_do():
    inputs = [x.requires_grad_() for x in draw(2, 6, 5, 16, 1)]
    (grad,) = torch.autograd.grad(additive_scores(*inputs).square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        grad.sum().backward()
    query, key, weight = (x.detach() for x in inputs)
    with pytest.raises(RuntimeError, match=r'regard\.kernels\.use\("plain"\)'):
        torch.vmap(lambda q: additive_scores(q, key, weight))(torch.stack([query, query]))


@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        (((2, 3, 4), (2, 5, 4), (4,)), r"\(4,\)"),
        (((2, 3, 4), (2, 5, 6), (1, 4)), r"\(2, 5, 6\)"),
        (((2, 3, 4), (1, 5, 4), (1, 4)), r"\(1, 5, 4\)"),
        (((3, 3, 4), (3, 5, 4), (2, 4)), r"\(2, 4\)"),
    ],
)
def test_misfits_are_refused(shapes, numbers):
    with pytest.raises(ValueError, match=numbers):
        additive_scores(*(torch.zeros(shape) for shape in shapes))
    with pytest.raises(ValueError, match="float64"):
        additive_scores(*(x.double() for x in draw(2, 3, 4, 5, 1)))


def fit(numerator=3, denominator=4, end=8.0, points=1000, sweeps=200):
    """P and Q with tanh(x) ≈ x·P(x²)/Q(x²) on 0..end and the least largest relative error, by Lawson's iteration."""
    x = end / 2 * (1 - np.cos(np.pi * np.arange(1, points + 1) / points))
    ratio = np.tanh(x) / x
    powers = ((x / end) ** 2)[:, None] ** np.arange(max(numerator, denominator) + 1)
    columns = np.hstack([powers[:, : numerator + 1], -ratio[:, None] * powers[:, 1 : denominator + 1]])
    weights, q = np.ones(points), np.ones(points)
    best = np.inf, None, None
    for _ in range(sweeps):
        scale = np.sqrt(weights) / (q * ratio)
        solution = np.linalg.lstsq(columns * scale[:, None], ratio * scale, rcond=None)[0]
        p_coefficients, q_coefficients = solution[: numerator + 1], np.r_[1, solution[numerator + 1 :]]
        q = powers[:, : denominator + 1] @ q_coefficients
        error = np.abs(powers[:, : numerator + 1] @ p_coefficients / (q * ratio) - 1)
        if error.max() < best[0]:
            best = error.max(), p_coefficients, q_coefficients
        weights *= error / error.max() + 1e-3
        weights /= weights.sum()
    units = end ** (-2.0 * np.arange(max(numerator, denominator) + 1))
    return best[0], best[1] * units[: numerator + 1], best[2] * units[: denominator + 1]


def test_coefficients_of_tanh_follow_from_the_fit():
    error, p, q = fit()
    assert error < 1.5e-7
    np.testing.assert_allclose([_loops.P0, _loops.P1, _loops.P2, _loops.P3], p, rtol=1e-5)
    np.testing.assert_allclose([_loops.Q1, _loops.Q2, _loops.Q3, _loops.Q4], q[1:], rtol=1e-5)


def test_accuracy_of_the_functions():
    x = np.concatenate([np.linspace(-10, 10, 20001), np.logspace(-30, 0, 1000)]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    found = np.array([_loops.tanh(value) for value in x])
    np.testing.assert_allclose(found, exact, rtol=5e-7, atol=0)
    assert np.abs(found).max() <= 1
    assert _loops.tanh(np.float32(np.inf)) == 1
    assert np.isnan(_loops.tanh(np.float32(np.nan)))

    x = np.linspace(-20, 20, 20001).astype(np.float32)
    found = np.array([_loops.exp_twice(value) for value in x], np.float64)
    np.testing.assert_allclose(found, np.exp(2 * x.astype(np.float64)), rtol=2e-7)
