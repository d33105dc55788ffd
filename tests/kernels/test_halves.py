"""Half precision on the CPU: additive scores and windows go through the float32 kernels, and are rounded once;
dot products to learn from are matrix products."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import regard
from regard import masks
from regard.kernels import halves
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


needs_products = pytest.mark.skipif(not halves.has_products(), reason="this processor has no products of bfloat16")
MASKS = {
    "none": lambda t, s: None,
    "lengths": lambda t, s: masks.lengths(torch.tensor([s, 2])),
    "each query its own": lambda t, s: torch.rand(2, 3, t, s, generator=torch.Generator().manual_seed(1)) < 0.6,
    "a query with no key": lambda t, s: (torch.arange(t)[:, None] > 0).expand(1, 1, t, s),
    "causal": lambda t, s: masks.causal(),
    "causal and lengths": lambda t, s: masks.causal() & masks.lengths(torch.tensor([s, 2])),
}


def dot_product(given, mask, *, plain=False):
    """Context and the gradients of query, key and value."""
    leaves = [x.detach().requires_grad_() for x in given]
    with regard.kernels.use("plain" if plain else "fused"):
        context = regard.Attention("scaled_dot")(*leaves, mask=mask).context
    weight = torch.linspace(-1, 1, context.numel()).reshape(context.shape)
    return [context.detach(), *torch.autograd.grad((context.double() * weight).sum(), leaves)]


def relative_error(found, wanted):
    return max(float((a.double() - b).norm() / (b.norm() + 1e-3)) for a, b in zip(found, wanted, strict=True))


@needs_products
@pytest.mark.parametrize("block", [2**19, 6 * 70 * 70, 70 * 70, 64], ids=["whole", "items", "heads", "queries"])
@pytest.mark.parametrize("keys", [70, 90, 55])
@pytest.mark.parametrize("mask", MASKS)
def test_dot_products_to_learn_from_are_the_exact_ones(mask, keys, block, monkeypatch):
    monkeypatch.setattr(halves, "_BLOCK", block)
    made = []
    monkeypatch.setattr(halves, "attend", lambda *given, attend=halves.attend: made.append(given) or attend(*given))
    dice = torch.Generator().manual_seed(0)
    given = [torch.randn(2, 3, n, d, generator=dice).bfloat16() for n, d in ((70, 8), (keys, 8), (keys, 12))]
    found = dot_product(given, MASKS[mask](70, keys))
    wanted = dot_product([x.double() for x in given], MASKS[mask](70, keys), plain=True)
    assert made and all(x.dtype == torch.bfloat16 for x in found)
    assert relative_error(found, wanted) < 0.02


@needs_products
def test_dot_products_are_the_same_under_autocast_and_checkpointing_and_from_any_layout():
    dice = torch.Generator().manual_seed(0)
    given = [torch.randn(2, 70, 3, 8, generator=dice).requires_grad_() for _ in range(3)]

    def run(query, key, value):
        with torch.autocast("cpu", torch.bfloat16):
            query, key, value = (x.bfloat16().transpose(1, 2) for x in (query, key, value))
            return regard.Attention("scaled_dot")(query, key, value, mask=masks.causal()).context

    def gradients_of(context):
        assert context.dtype == torch.bfloat16
        return torch.autograd.grad(context.float().square().sum(), given)

    for one, two in zip(gradients_of(run(*given)), gradients_of(checkpoint(run, *given, use_reentrant=False))):
        assert one.shape == (2, 70, 3, 8) and torch.equal(one, two)


@needs_products
def test_a_learned_bias_gets_its_gradient():
    """It goes through SDPA, whose mask has one."""
    query = torch.randn(2, 3, 70, 8, dtype=torch.bfloat16, requires_grad=True)
    assert halves.fits(query, query, query, None)
    assert not halves.fits(query, query, query, torch.zeros(70, 70, dtype=torch.bfloat16, requires_grad=True))


@needs_products
def test_gradients_of_gradients_are_refused_by_name():
    query = torch.randn(2, 3, 70, 8, dtype=torch.bfloat16, requires_grad=True)
    context = regard.Attention("scaled_dot")(query, query, query).context
    with pytest.raises(RuntimeError, match="plain"):
        torch.autograd.grad(context.square().sum(), query, create_graph=True)
