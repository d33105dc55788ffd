"""Gradients of keys and values that are looked at one query after the other: made at once, and the same."""

import pytest
import torch
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint

import regard
from regard import masks
from regard.kernels import deferred

SCORES = {
    "scaled_dot": lambda: regard.scores.ScaledDot(),
    "general": lambda: regard.scores.General(6, 6),
    "additive": lambda: regard.scores.Additive(6, 6, 8),
    "location_aware": lambda: regard.scores.LocationAware(6, 6, 8, filters=2, kernel=3),
}


def unrolled(attention, source, queries, value=None):
    """Contexts of queries asked one by one, each of which also depends on the context before."""
    memory = attention.remember(source, value, mask=masks.lengths(torch.tensor([5, 3])))
    state, context, found = attention.start(memory), 0.0, []
    for query in queries.unbind(1):
        out = attention((query + context)[:, None], memory, state=state)
        state, context = out.state, out.context[:, 0]
        found.append(context)
    return torch.stack(found, 1)


def inputs(dtype=torch.float32):
    drawn = torch.Generator().manual_seed(0)
    shapes = (2, 5, 6), (2, 4, 6), (2, 5, 6)
    return [torch.randn(*shape, generator=drawn, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_the_same_as_one_by_one(name, shared, monkeypatch):
    torch.manual_seed(0)
    attention = regard.Attention(SCORES[name]())
    found = []
    for pays in (deferred.pays, lambda rows: False):
        monkeypatch.setattr(regard.kernels, "pays", pays)
        source, queries, value = inputs()
        leaves = [source, queries, *([] if shared else [value]), *attention.parameters()]
        out = unrolled(attention, source, queries, None if shared else value)
        found.append([out, *grad(out.square().sum(), leaves)])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_one_product_for_all_looks(monkeypatch):
    """Else the gradient of the values would be written once for every query."""
    made = []
    product = deferred._Gate.backward
    monkeypatch.setattr(
        deferred._Gate, "backward", staticmethod(lambda ctx, given: made.append(given) or product(ctx, given))
    )
    source, queries, _ = inputs()
    unrolled(regard.Attention("scaled_dot"), source, queries).sum().backward()
    assert made == [None]


def test_a_part_of_the_graph_leaves_nothing_behind():
    """A pass that does not reach the values must not add to the next one that does."""
    attention = regard.Attention("scaled_dot")
    source, queries, value = inputs()
    (wanted,) = grad(unrolled(attention, source, queries, value).sum(), [value])
    out = unrolled(attention, source, queries, value).sum()
    grad(out, [queries], retain_graph=True)
    once = grad(out, [value], retain_graph=True)[0]
    again = grad(out, [value])[0]
    torch.testing.assert_close(once, wanted)
    torch.testing.assert_close(again, wanted)


def test_a_value_that_is_used_elsewhere_too():
    attention = regard.Attention("scaled_dot")
    source, queries, value = inputs()
    own = value * 1.0
    out = unrolled(attention, source, queries, own).sum() + own.square().sum()
    (both,) = grad(out, [value])
    (looked,) = grad(unrolled(attention, source, queries, value).sum(), [value])
    torch.testing.assert_close(both, looked + 2 * value)


def test_second_derivatives():
    attention = regard.Attention("scaled_dot").double()
    source, queries, value = inputs(torch.float64)
    run = lambda source, queries, value: unrolled(attention, source, queries, value)  # noqa: E731
    assert torch.autograd.gradcheck(run, (source, queries, value))
    assert torch.autograd.gradgradcheck(run, (source, queries, value))


def test_two_backward_passes_add_up():
    attention = regard.Attention("scaled_dot")
    source, queries, value = inputs()
    out = unrolled(attention, source, queries, value).sum()
    out.backward(retain_graph=True)
    once = value.grad.clone()
    out.backward()
    torch.testing.assert_close(value.grad, 2 * once)


def test_under_autocast_and_without_gradients_nothing_is_deferred():
    value = torch.randn(2, 5, 6, requires_grad=True)
    assert deferred.pays(value)
    assert not deferred.pays(value.detach())
    with torch.no_grad():
        assert not deferred.pays(value)
    with torch.autocast("cpu", torch.bfloat16):
        assert not deferred.pays(value)
    with regard.kernels.use("plain"):
        assert not regard.kernels.defers(value)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("whole", [True, False])
def test_under_checkpointing(whole, reentrant):
    """The forward pass is made again in the backward one, within the memory or around it."""
    attention = regard.Attention(SCORES["general"]())
    source, queries, value = inputs()

    def stepped(source, queries, value):
        memory = attention.remember(source, value, mask=masks.lengths(torch.tensor([5, 3])))
        context, found = torch.zeros(2, 6, requires_grad=True), []
        for query in queries.unbind(1):
            step = lambda query, context: attention((query + context)[:, None], memory).context[:, 0]  # noqa: E731
            context = checkpoint(step, query, context, use_reentrant=False)
            found.append(context)
        return torch.stack(found, 1)

    def run(*given):
        if whole:
            return checkpoint(lambda *each: unrolled(attention, *each), *given, use_reentrant=reentrant)
        return stepped(*given)

    leaves = [source, queries, value]
    unrolled(attention, *leaves).square().sum().backward()
    wanted = [leaf.grad.clone() for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    run(*leaves).square().sum().backward()
    for leaf, expected in zip(leaves, wanted, strict=True):
        torch.testing.assert_close(leaf.grad, expected, atol=1e-5, rtol=1e-5)
