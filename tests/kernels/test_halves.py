"""Half precision on the CPU: additive scores and windows go through the float32 kernels, and are rounded once."""

import pytest
import torch

import regard
from regard.scores import Additive, General, Perceptron
from regard.windows import LocalMonotonic, LocalPredictive

B, T, S, D = 3, 5, 17, 12
HALVES = [torch.bfloat16, torch.float16]
ATTENTIONS = {
    "additive": lambda: regard.Attention(Additive(D, D, 16)),
    "perceptron": lambda: regard.Attention(Perceptron(D, D, 16), "smoothed"),
    "general in local-m": lambda: regard.Attention(General(D, D), window=LocalMonotonic(2)),
    "general in local-p": lambda: regard.Attention(General(D, D), window=LocalPredictive(D, 2)),
    "additive in local-m": lambda: regard.Attention(Additive(D, D, 16), window=LocalMonotonic(2)),
}


def inputs(dtype, seed=0):
    dice = torch.Generator().manual_seed(seed)
    return [torch.randn(B, n, D, generator=dice).to(dtype).requires_grad_() for n in (T, S, S)]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_scores_are_those_of_float32_rounded_once(dtype):
    query, key, weight = (torch.randn(*shape).to(dtype) for shape in ((B, T, D), (B, S, D), (D,)))
    form = regard.kernels.AdditiveForm(query, key, weight)
    exact = regard.kernels.AdditiveForm(query.float(), key.float(), weight.float())
    found = regard.kernels.scores(form)
    assert found.dtype == dtype and torch.equal(found, regard.kernels.scores(exact).to(dtype))
    assert not torch.equal(found, form.scores())  # operation by operation, each rounded
    first = torch.randint(-3, S, (B, T))
    for narrow, wide in ((form, exact), *(((regard.kernels.DotForm(f.query, f.key, 0.3)) for f in (form, exact)),)):
        windows = regard.kernels.local_scores(narrow, first, 4)
        assert windows.dtype == dtype
        assert torch.equal(windows, regard.kernels.local_scores(wide, first, 4).to(dtype))
    weights = torch.rand(B, T, 4).to(dtype)
    found = regard.kernels.local_sum(weights, key, first)
    assert torch.equal(found, regard.kernels.local_sum(weights.float(), key.float(), first).to(dtype))


def gradients(attention, given):
    """Of all inputs and parameters as one vector, through a mask."""
    attention.zero_grad()
    out = attention(*given, mask=regard.masks.lengths(torch.tensor([S, 9, 1])))
    assert out.context.dtype == given[0].dtype
    out.context.square().sum().backward()
    found = [x.grad for x in (*given, *attention.parameters()) if x.grad is not None]
    assert all(grad.dtype == given[0].dtype for grad in found)
    return torch.cat([grad.double().flatten() for grad in found])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_gradients_are_nearer_to_the_exact_ones_than_on_the_plain_path(name, dtype):
    """On average: in one draw, luck with the rounding is up to a quarter of the error."""
    errors = torch.zeros(12, 2)
    for seed, row in enumerate(errors):
        torch.manual_seed(seed)
        attention = ATTENTIONS[name]().to(dtype)
        found = gradients(attention, inputs(dtype, seed))
        with regard.kernels.use("plain"):
            plain = gradients(attention, inputs(dtype, seed))
            exact = [x.detach().double().requires_grad_() for x in inputs(dtype, seed)]
            wanted = gradients(attention.double(), exact)
        row[:] = torch.stack([(grad - wanted).norm() / wanted.norm() for grad in (found, plain)])
    ours, theirs = errors.mean(0)
    assert ours <= 1.02 * theirs and errors[:, 0].max() < 0.2


@pytest.mark.parametrize("name", ATTENTIONS)
def test_autocast_never_writes_a_row_for_each_query_and_key(name, monkeypatch):
    """What trains in bfloat16 takes the kernels too, also where the score's own weights stay float32."""

    def forbidden(*_):
        raise AssertionError("the plain path was taken")

    monkeypatch.setattr(regard.kernels, "rows", forbidden)
    monkeypatch.setattr(regard.kernels.AdditiveForm, "scores", forbidden)
    attention = ATTENTIONS[name]()
    with torch.autocast("cpu", torch.bfloat16):
        out = attention(*inputs(torch.float32))
    out.context.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters() if parameter.grad is not None)


def test_double_precision_is_not_rounded():
    query, key, _ = inputs(torch.float64)
    attention = ATTENTIONS["additive"]().double()
    with regard.kernels.use("plain"):
        wanted = attention(query, key).context
    torch.testing.assert_close(attention(query, key).context, wanted, atol=1e-14, rtol=1e-12)
    with (
        regard.kernels.use("fused"),
        pytest.raises(ValueError, match="float32 and halves on the CPU, not"),
    ):
        _ = attention(query, key).context


@pytest.mark.parametrize("name", ["additive", "additive in local-m", "general in local-p"])
def test_they_go_through_compile(name):
    torch._dynamo.reset()
    attention, (query, key, value) = ATTENTIONS[name](), inputs(torch.float32)
    compiled = torch.compile(lambda *x: attention(*x).context, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(query, key, value), attention(query, key, value).context)
