"""The record that looking returns: weights on demand, and manners."""

import copy
import gc
import weakref

import pytest
import torch

import regard
from regard import kernels
from regard.normalizers import Hard
from regard.scores import Additive, General
from regard.windows import LocalPredictive

B, T, S, D = 2, 4, 6, 8


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(B, S, D)


def attentions():
    return [
        regard.Attention("scaled_dot"),
        regard.Attention(General(D, D)),
        regard.Attention(Additive(D, D, D)),
        regard.Attention("dot", window=LocalPredictive(D, 1)),
        regard.MultiHead(D, 2),
        regard.MultiHead(D, 2, score="additive"),
    ]


def names(attention):
    inner = attention.attention if isinstance(attention, regard.MultiHead) else attention
    return f"{type(attention).__name__}-{type(inner.score).__name__}"


@pytest.mark.parametrize("attention", attentions(), ids=names)
def test_the_fast_path_writes_no_weights_until_they_are_read(attention, inputs):
    lazy, now, never = (attention(*inputs, weights=want) for want in ("lazy", True, False))
    assert torch.allclose(lazy.context, now.context, atol=1e-5)
    assert torch.allclose(never.context, now.context, atol=1e-5)
    before = lazy.context.clone()
    assert torch.allclose(lazy.weights, now.weights, atol=1e-5)
    assert lazy.weights is lazy.weights
    assert torch.equal(lazy.context, before)
    assert never.weights is None and never.scores is None


def test_scaled_dot_really_is_lazy(inputs):
    assert callable(vars(regard.attend(*inputs))["_weights"])


def test_an_optimizer_step_does_not_change_weights_read_later():
    query = torch.nn.Parameter(torch.randn(1, T, D))
    key = torch.randn(B, S, D)
    attention = regard.Attention(General(D, D))
    for call in (lambda: regard.attend(query.expand(B, T, D), key), lambda: attention(query.expand(B, T, D), key)):
        with kernels.use("plain"):
            expected = call().weights.detach().clone()
        out = call()
        optimizer = torch.optim.SGD([query, *attention.parameters()], lr=10.0)
        (out.context**2).sum().backward()
        optimizer.step()
        assert torch.allclose(out.weights, expected, atol=1e-6)


@pytest.mark.parametrize("attention", attentions(), ids=names)
def test_a_loss_on_weights_read_before_backward(attention, inputs):
    query, key, value = (t.clone().requires_grad_() for t in inputs)
    gradients = []
    for kind in ("plain", None):
        with kernels.use("plain") if kind else torch.enable_grad():
            out = attention(query, key, value)
            ((out.weights**2).sum() + out.context.sum()).backward()
        gradients.append([t.grad.clone() for t in (query, key, value)])
        for t in (query, key, value):
            t.grad = None
    for plain, fast in zip(*gradients, strict=True):
        assert torch.allclose(plain, fast, atol=1e-5)


def test_weights_are_before_dropout(inputs):
    attention = regard.Attention("scaled_dot", dropout=0.5)
    out = attention(*inputs)
    assert torch.allclose(out.weights.sum(-1), torch.ones(B, T))
    assert not torch.allclose(out.context, out.weights @ inputs[2])
    attention.eval()
    assert torch.allclose(attention(*inputs).context, out.weights @ inputs[2], atol=1e-6)


def test_a_generator_repeats_dropout_and_sampling(inputs):
    def draw(attention):
        return attention(*inputs, generator=torch.Generator().manual_seed(3)).context

    for attention in (
        regard.Attention("dot", dropout=0.5),
        regard.Attention("dot", "hard"),
        regard.Attention("dot", "gumbel"),
        regard.MultiHead(D, 2, dropout=0.5),
    ):
        assert torch.equal(draw(attention), draw(attention))
        assert not torch.equal(attention(*inputs).context, attention(*inputs).context)
    seeds = (torch.Generator().manual_seed(3) for _ in range(2))
    first, second = (regard.attend(*inputs, dropout=0.5, generator=seed).context for seed in seeds)
    assert torch.equal(first, second)


def test_random_draws_are_made_once(inputs):
    out = regard.Attention("dot", Hard("sample"))(*inputs)
    assert torch.allclose(out.weights @ inputs[2], out.context)
    probability = torch.softmax(out.scores, -1)
    assert torch.allclose(out.log_prob, (probability * out.weights).sum(-1).log(), atol=1e-6)


def test_it_is_a_record(inputs):
    out = regard.attend(*inputs)
    with pytest.raises(TypeError, match=r"out\.context and out\.weights"):
        _context, _weights = out
    with pytest.raises(TypeError, match=r"out\.context"):
        out[0]
    with pytest.raises(AttributeError, match=r"out\.context\.mean"):
        out.mean()
    with pytest.raises(AttributeError, match="context, weights, scores"):
        out.wieghts  # noqa: B018
    with pytest.raises(TypeError, match=r"relu.*out\.context"):
        torch.relu(out)
    assert "when read" in repr(out)


def test_it_is_a_pytree(inputs):
    out = regard.attend(*inputs, weights=True)
    leaves, spec = torch.utils._pytree.tree_flatten(out)
    assert len(leaves) == 3
    again = torch.utils._pytree.tree_unflatten(leaves, spec)
    assert torch.equal(again.weights, out.weights)
    doubled = torch.utils._pytree.tree_map(lambda t: 2 * t, out)
    assert torch.equal(doubled.context, 2 * out.context)
    assert torch.utils._pytree.tree_flatten(regard.attend(*inputs))[0][0].shape == (B, T, D)


def test_it_can_be_copied(inputs):
    out = regard.attend(*inputs)
    assert torch.equal(copy.deepcopy(out).weights, out.weights)


def test_weights_false_keeps_nothing_alive():
    query, key = torch.randn(1, T, D), torch.randn(1, S, D)
    seen = weakref.ref(key)
    out = regard.attend(query, key, torch.randn(1, S, D), weights=False)
    del key
    gc.collect()
    assert seen() is None and out.context is not None


def test_unknown_want(inputs):
    with pytest.raises(ValueError, match="'lazy', True or False"):
        regard.attend(*inputs, weights="always")


def test_the_place_of_a_window_can_be_read(inputs):
    """Luong's pₜ = S σ(vᵀ tanh(W q)), equation 9, where S is the number of allowed keys."""
    query, key, value = inputs
    window = LocalPredictive(D, 1)
    attention, lengths = regard.Attention("dot", window=window), torch.tensor([6, 3])
    for want in ("lazy", True, False):
        out = attention(query, key, value, mask=regard.masks.lengths(lengths), weights=want)
        share = torch.sigmoid(torch.tanh(query @ window.query.weight.T) @ window.v.weight.T).squeeze(-1)
        torch.testing.assert_close(out.place, lengths[:, None] * share)
        (slope,) = torch.autograd.grad(out.place.sum(), window.v.weight)
        assert slope.any()
    monotonic = regard.Attention("dot", window=regard.windows.LocalMonotonic(2))
    assert monotonic(query, key).place.tolist() == [[0, 1, 2, 3]] * B
    assert monotonic(query[:, :1], key, state=torch.tensor([4, 4])).place.tolist() == [[4]] * B
    assert regard.Attention()(query, key).place is None
