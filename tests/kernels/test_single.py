"""One query at a time: the plain way in float64, however keys and values lie."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import regard
from regard import kernels
from regard.kernels import dot, single
from regard.kernels.forms import AdditiveForm, DotForm, SquareForm
from regard.normalizers import Softmax

FORMS = {
    "dot": lambda q, k, v: DotForm(q, k, 0.7),
    "square": lambda q, k, v: SquareForm(q, k, -0.3),
    "additive": AdditiveForm,
}
LEADING = [(), (3,), (2, 3)]


def exact(form, value, allowed, temperature=1.0):
    """Context and scores in float64 by plain operations."""
    wide = type(form)(*(t.double() if isinstance(t, torch.Tensor) else t for t in vars(form).values()))
    return Softmax(temperature)(wide.scores(), allowed) @ value.double(), wide.scores()


def made(kind, leading, length, width, depth, per_head=False):
    query, key = torch.randn(*leading, 1, width), torch.randn(*leading, length, width)
    weight = torch.randn(leading[-1], width) if per_head else torch.randn(width)
    return FORMS[kind](query, key, weight), torch.randn(*leading, length, depth)


def close(found, right, size=1.0):
    torch.testing.assert_close(found, right.float(), rtol=1e-4, atol=2e-5 * size)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("length", [1, 3, 4, 21])
@pytest.mark.parametrize("width", [1, 20, 67])
def test_against_float64(kind, leading, length, width):
    torch.manual_seed(length)
    form, value = made(kind, leading, length, width, 5, per_head=len(leading) == 2)
    allowed = torch.rand(*leading[:1], *[1] * (len(leading) - 1), 1, length) < 0.6
    for mask in (None, allowed, torch.rand(*leading, 1, length) < 0.5, torch.zeros_like(allowed)):
        for found, right in zip(single.look(form, value, mask, 0.5), exact(form, value, mask, 0.5)):
            close(found, right, width**0.5)
    close(single.scores(form), exact(form, value, None)[1], width**0.5)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("leading", [(), (2, 2)])
def test_many_keys_are_read_in_pieces(kind, leading):
    from regard.kernels import _loops

    length = 2 * _loops.PIECE + 5
    form, value = made(kind, leading, length, 3, 2)
    allowed = torch.rand(length) < 0.5
    allowed[: _loops.PIECE] = False  # a piece with nothing in it
    for mask in (None, allowed, torch.zeros_like(allowed)):
        for found, right in zip(single.look(form, value, mask, 1.0), exact(form, value, mask)):
            close(found, right)


@pytest.mark.parametrize("kind", FORMS)
def test_as_they_lie(kind):
    """In a cache that has grown, (S, N, H, D), and transposed."""
    form, value = made(kind, (2, 3), 10, 8, 6)
    grown = form.key.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    values = value.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    turned, other = (t.mT.contiguous().mT for t in (form.key, value))
    for key, held in ((grown, values), (turned, other), (grown, other)):
        lying = type(form)(form.query, key, *list(vars(form).values())[2:])
        for mask in (None, torch.rand(2, 3, 1, 10) < 0.5):
            for found, right in zip(single.look(lying, held, mask, 1.0), exact(form, value, mask)):
                close(found, right)


@pytest.mark.parametrize("leading", [(), (5, 3)])
def test_the_same_on_any_number_of_threads(leading, monkeypatch):
    monkeypatch.setattr(single, "READ", 1e6)  # worth several threads
    form, value = made("dot", leading, 9000, 8, 8)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(single.look(form, value, None, 1.0)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("kind", FORMS)
def test_not_a_number_comes_out(kind):
    form, value = made(kind, (3,), 6, 4, 4)
    form.key[1, 2, 0] = torch.nan
    allowed = torch.ones(3, 1, 6, dtype=torch.bool)
    assert single.look(form, value, None, 1.0)[0].isnan().any(-1).flatten().tolist() == [False, True, False]
    allowed[1, 0, 2] = False  # unless it may not be attended
    assert not single.look(form, value, allowed, 1.0)[0].isnan().any()
    form, value = made(kind, (3,), 6, 4, 4)
    value[0, 5, 1] = torch.nan
    assert single.look(form, value, None, 1.0)[0].isnan().nonzero().tolist() == [[0, 0, 1]]


def test_large_scores_do_not_overflow():
    form = DotForm(torch.tensor([[1000.0]]), torch.tensor([[1.0], [0.999], [-1.0]]))
    close(single.look(form, torch.eye(3), None, 1.0)[0], torch.tensor([[0.7310586, 0.2689414, 0.0]]))


def taken(*args, **changed):
    """Does an attention with these inputs go through the kernel?"""
    count = 0

    def noted(*given):
        nonlocal count
        count += 1
        return right(*given)

    right = single.look
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single, "look", noted)
        regard.attend(*args, **changed)
    return bool(count)


def test_when_it_is_taken():
    q, k = torch.randn(2, 1, 4), torch.randn(2, 5, 4)
    assert taken(q, k)
    assert taken(q, k, score="gaussian")
    assert not taken(q.expand(2, 3, 4), k)
    assert not taken(q.double(), k.double())
    assert not taken(q.bfloat16(), k.bfloat16())
    assert not taken(q, k, normalizer="sparsemax")
    assert not taken(q, k, dropout=0.5)
    assert not taken(q, k[:, :0])
    assert not taken(q[:0], k[:0])
    assert not taken(q.requires_grad_(), k)
    with torch.no_grad():
        assert taken(q, k)
        for kind in ("plain", "chunked"):
            with kernels.use(kind):
                assert not taken(q, k)
        with torch.autocast("cpu", torch.bfloat16):
            assert not taken(q, k)
    with FakeTensorMode():
        assert not taken(torch.randn(2, 1, 4), torch.randn(2, 5, 4))


def test_under_vmap_and_grad():
    q, k = torch.randn(3, 2, 1, 4), torch.randn(3, 2, 5, 4)
    right = regard.attend(q, k).context
    torch.testing.assert_close(torch.vmap(lambda q, k: regard.attend(q, k).context)(q, k), right)
    slope = torch.func.grad(lambda q: regard.attend(q, k).context.sum())(q)
    asked = q.clone().requires_grad_()
    regard.attend(asked, k).context.sum().backward()
    torch.testing.assert_close(slope, asked.grad)


def test_weights_and_scores_are_those_that_were_summed():
    attention = regard.Attention(regard.scores.Additive(4, 4, 6)).eval()
    q, k, v = torch.randn(2, 1, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 5, [True, False, True, False, True]])
    with torch.no_grad():
        out = attention(q, k, v, mask=mask)
        with kernels.use("plain"):
            right = attention(q, k, v, mask=mask)
        for parameter in attention.parameters():
            parameter.zero_()
        for name in ("context", "weights", "scores"):
            torch.testing.assert_close(getattr(out, name), getattr(right, name), rtol=1e-4, atol=1e-5)
        assert attention(q, k, v, weights=False).weights is None


@pytest.mark.parametrize("leading", [(), (2,), (1, 2)])
@pytest.mark.parametrize("more", [0, 3])
def test_few_queries_and_many_keys_are_cut_in_parts(leading, more):
    q, k = torch.randn(*leading, 5, 4), torch.randn(*leading, dot._LONG + more, 4)
    assert dot._is_long(DotForm(q, k), k)
    out = regard.attend(q, k)
    right = regard.attend(q.double(), k.double())
    close(out.context, right.context)
    assert not dot._is_long(DotForm(q.requires_grad_(), k), k)
