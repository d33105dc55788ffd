"""One query against rows in any order: a float64 loop, and the plain way after putting them in order."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import kernels, masks
from regard.kernels.paged import Pages
from regard.normalizers import Softmax, Sparsemax
from regard.scores import Additive, Cosine, Gaussian, General, InverseDistance, ScaledDot


def by_hand(query, pages, allowed, scale):
    """(N, H, E) and (N, H, S) in Python's floats."""
    count, length = pages.place.shape
    contexts, weights = [], []
    for n in range(count):
        for h in range(query.shape[1]):
            rows = [int(place) for place in pages.place[n]]
            scores = [
                scale * sum(a * b for a, b in zip(query[n, h, 0].tolist(), pages.key[row, h].tolist())) for row in rows
            ]
            scores = [x if allowed is None or allowed[n, 0, 0, s] else -math.inf for s, x in enumerate(scores)]
            top = max(scores)
            each = [math.exp(x - top) if x > -math.inf else 0.0 for x in scores]
            each = [x / sum(each) if sum(each) else 0.0 for x in each]
            weights.append(each)
            columns = zip(*(pages.value[row, h].tolist() for row in rows))
            contexts.append([sum(w * x for w, x in zip(each, column)) for column in columns])
    shape = (count, query.shape[1], 1)
    return torch.tensor(contexts).view(*shape, -1), torch.tensor(weights).view(*shape, length)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 20), st.integers(1, 5))


@given(sizes, st.booleans(), st.integers(0, 1000))
def test_against_a_loop(sizes, masked, seed):
    torch.manual_seed(seed)
    (count, heads, length, width, depth), rows = sizes, 12
    pages = Pages(
        torch.randn(rows, heads, width), torch.randn(rows, heads, depth), torch.randint(rows, (count, length))
    )
    query = torch.randn(count, heads, 1, width)
    allowed = torch.rand(count, 1, 1, length) < 0.6 if masked else None
    with torch.no_grad():
        context, scores = pages.look(ScaledDot(), {}, Softmax(), query, allowed)
        weights = Softmax()(scores, allowed)
    expected = by_hand(query, pages, allowed, width**-0.5)
    torch.testing.assert_close(context, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights, expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "cosine", "gaussian", "additive", "mlp_dot"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_cache_that_is_reordered_answers_as_one_in_order(score, masked):
    """As in a beam: append, reorder, drop, append again; every kind of score, whether it has this kernel or not."""
    torch.manual_seed(0)
    heads = regard.MultiHead(12, 3, score=score).eval()
    x = torch.randn(4, 7, 12)
    mask = masks.lengths(torch.tensor([7, 5, 6, 3])) if masked else None
    orders = [[0, 0, 1, 2, 3], [4, 2, 2, 0], [3, 1, 0], [0, 1, 2, 2]]
    with torch.no_grad():
        memory = heads.remember(x, mask=mask)
        plain, keep = x, mask.tensor((4, 1, 1, 7)) if masked else None
        for order in orders:
            index = torch.tensor(order)
            memory, plain = memory.select(index), plain[index]
            keep = None if keep is None else keep[index]
            new = torch.randn(len(order), 1, 12)
            memory, plain = memory.append(new), torch.cat([plain, new], 1)
            keep = None if keep is None else torch.cat([keep, keep.new_ones(len(order), 1, 1, 1)], -1)
            out = heads(new, memory, weights=True)
            with kernels.use("plain"):
                right = heads(new, heads.remember(plain), mask=keep, weights=True)
            assert memory.shape == (len(order), 3, plain.shape[1], 4)
            for name in ("context", "weights", "scores"):
                torch.testing.assert_close(getattr(out, name), getattr(right, name), rtol=1e-4, atol=1e-5)


def test_reordering_copies_no_keys():
    attention = regard.MultiHead(8, 2).eval()
    with torch.no_grad():
        memory = attention.remember(torch.randn(3, 5, 8)).append(torch.randn(3, 1, 8))
        chosen = memory.select(torch.tensor([2, 0]))
        attention(torch.randn(2, 1, 8), chosen)
        assert chosen.pages.key.data_ptr() == memory.key.data_ptr()
        assert chosen._key is None
        grown = chosen.append(torch.randn(2, 1, 8))
        assert grown.pages.key.data_ptr() == memory.key.data_ptr()
        assert grown.length == 7
        torch.testing.assert_close(grown.key[:, :, :6], memory.key[[2, 0]])


def test_two_that_grow_from_one_do_not_meet():
    attention = regard.MultiHead(8, 2).eval()
    with torch.no_grad():
        base = attention.remember(torch.randn(3, 5, 8)).append(torch.randn(3, 1, 8)).select(torch.tensor([1, 2]))
        new = torch.randn(2, 1, 8)
        one, other = base.append(new), base.append(-new)
        torch.testing.assert_close(one.key[:, :, -1:], attention._split(attention.key(new)))
        torch.testing.assert_close(other.key[:, :, -1:], attention._split(attention.key(-new)))
        torch.testing.assert_close(one.key[:, :, :-1], other.key[:, :, :-1])


def test_gradients_go_through_a_selection():
    attention = regard.MultiHead(8, 2)
    x = torch.randn(3, 5, 8, requires_grad=True)
    out = attention(torch.randn(2, 1, 8), attention.remember(x).select(torch.tensor([2, 2])))
    out.context.sum().backward()
    assert x.grad[:2].eq(0).all()
    assert x.grad[2].ne(0).any()


@pytest.mark.parametrize("score", [General(6, 6), Cosine(), Gaussian(), Additive(6, 6, 6)])
def test_rows_that_all_items_share_without_heads(score):
    """(R, D) instead of (R, H, D), as in a memory without heads."""
    torch.manual_seed(0)
    pages = Pages(torch.randn(9, 6), torch.randn(9, 5), torch.randint(9, (3, 4)))
    query = torch.randn(3, 1, 6)
    with torch.no_grad():
        context, scores = pages.look(score, {}, Softmax(), query, None)
        with kernels.use("plain"):
            right = score(query, pages.gather(pages.key))
    torch.testing.assert_close(scores, right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(context, right.softmax(-1) @ pages.gather(pages.value), rtol=1e-4, atol=1e-5)


def test_a_gain_at_the_call_reaches_the_rows():
    pages = Pages(torch.randn(9, 2, 6), torch.randn(9, 2, 6), torch.randint(9, (3, 4)))
    query, gain = torch.randn(3, 2, 1, 6), torch.rand(3, 2, 1)
    with torch.no_grad():
        _, scores = pages.look(Cosine(), {"gain": gain}, Softmax(), query, None)
        right = Cosine()(query, pages.gather(pages.key), gain)
    torch.testing.assert_close(scores, right, rtol=1e-4, atol=1e-5)


def test_where_another_way_is_taken():
    pages = Pages(torch.randn(9, 2, 6), torch.randn(9, 2, 6), torch.randint(9, (3, 4)))
    query, scaled, softmax = torch.randn(3, 2, 1, 6), ScaledDot(), Softmax()

    def taken(score=scaled, normalizer=softmax, query=query, pages=pages):
        return pages.look(score, {}, normalizer, query, None) is not None

    with torch.no_grad():
        assert taken()
        assert not taken(score=InverseDistance())
        assert not taken(normalizer=Sparsemax())
        assert not taken(query=query.double())
        assert not taken(query=query.expand(-1, -1, 2, -1))
        assert not taken(pages=pages._replace(place=pages.place[:, :0]))
        with kernels.use("plain"):
            assert not taken()
    assert not taken()  # it has no gradient
