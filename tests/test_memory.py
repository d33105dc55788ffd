"""Keys that are projected once and looked at many times."""

import warnings

import pytest
import torch

import regard
from regard import _warn, masks
from regard.scores import Additive, General

B, T, S, D, E = 3, 2, 5, 4, 6


@pytest.fixture(params=["additive", "general", "scaled_dot", "multi_head"])
def attention(request):
    torch.manual_seed(0)
    return {
        "additive": lambda: regard.Attention(Additive(D, D, 7)),
        "general": lambda: regard.Attention(General(D, D)),
        "scaled_dot": lambda: regard.Attention("scaled_dot"),
        "multi_head": lambda: regard.MultiHead(D, 2, key_dim=D, value_dim=E),
    }[request.param]()


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(B, S, E)


def test_a_memory_gives_what_its_keys_give(attention, inputs):
    query, key, value = inputs
    mask = masks.lengths(torch.tensor([1, 5, 3]))
    expected = attention(query, key, value, mask=mask)
    memory = attention.remember(key, value, mask=mask)
    assert torch.allclose(attention(query, memory).context, expected.context, atol=1e-6)
    for t in range(T):
        step = attention(query[:, t : t + 1], memory)
        assert torch.allclose(step.context, expected.context[:, t : t + 1], atol=1e-5)


def test_a_mask_at_the_call_is_anded(attention, inputs):
    query, key, value = inputs
    first, second = masks.lengths(torch.tensor([4, 5, 3])), torch.rand(B, T, S) > 0.3
    memory = attention.remember(key, value, mask=first)
    expected = attention(query, key, value, mask=first & second).context
    assert torch.allclose(attention(query, memory, mask=second).context, expected, atol=1e-6)


def test_select_reorders_the_batch(attention, inputs):
    query, key, value = inputs
    mask = masks.lengths(torch.tensor([1, 5, 3]))
    index = torch.tensor([2, 2, 0, 1])
    expected = attention(query, key, value, mask=mask).context[index]
    memory = attention.remember(key, value, mask=mask).select(index)
    assert torch.allclose(attention(query[index], memory).context, expected, atol=1e-6)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_append_equals_having_had_it_all(attention, inputs, grad, masked):
    query, key, value = inputs
    mask = masks.lengths(torch.tensor([1, 2, 0])) if masked else None
    whole = None if mask is None else mask.grow((B, 1, 2), S - 2)
    with torch.set_grad_enabled(grad):
        expected = attention(query, key, value, mask=whole).context
        memory = attention.remember(key[:, :2], value[:, :2], mask=mask)
        for s in range(2, S):
            memory = memory.append(key[:, s : s + 1], value[:, s : s + 1])
        assert memory.length == S
        assert torch.allclose(attention(query, memory).context, expected, atol=1e-6)


def test_two_continuations_of_one_memory_do_not_share_rows(inputs):
    _, key, value = inputs
    attention = regard.Attention("scaled_dot")
    with torch.no_grad():
        base = attention.remember(key[:, :3], value[:, :3]).append(key[:, 3:4], value[:, 3:4])
        one = base.append(key[:, 4:], value[:, 4:])
        other = base.append(-key[:, 4:], -value[:, 4:])
        assert torch.equal(one.key[:, -1:], key[:, 4:])
        assert torch.equal(other.key[:, -1:], -key[:, 4:])
        assert torch.equal(base.key, key[:, :4])


def test_a_growing_cache_is_not_copied_for_each_token():
    attention = regard.Attention("scaled_dot")
    with torch.no_grad():
        memory = attention.remember(torch.randn(1, 1, D))
        places = set()
        for _ in range(200):
            memory = memory.append(torch.randn(1, 1, D))
            places.add(memory.key.data_ptr())
    assert len(places) <= 8  # the room doubles
    assert memory.length == 201


def test_causal_cache_equals_the_whole_sequence():
    torch.manual_seed(0)
    heads, x = regard.MultiHead(8, 2), torch.randn(B, S, 8)
    with torch.no_grad():
        whole = heads(x, mask=masks.causal()).context
        memory = heads.remember(x[:, :1], mask=masks.causal())
        for t in range(S):
            memory = memory if t == 0 else memory.append(x[:, t : t + 1])
            assert torch.allclose(heads(x[:, t : t + 1], memory).context, whole[:, t : t + 1], atol=1e-5)


def test_values_beside_a_memory_are_refused(attention, inputs):
    query, key, value = inputs
    with pytest.raises(ValueError, match="value="):
        attention(query, attention.remember(key, value), value)


def test_values_default_to_the_keys_before_projection():
    key = torch.randn(B, S, D)
    memory = regard.Attention(General(D, D)).remember(key)
    assert torch.equal(memory.value, key) and not torch.equal(memory.key, key)


def test_a_state_nobody_asked_for_is_refused(inputs):
    with pytest.raises(ValueError, match="no part of this attention has a state"):
        regard.Attention("dot")(*inputs, state=torch.zeros(B))


def test_a_mask_that_was_used_is_not_used_where_it_does_not_belong():
    """What a memory keeps of its mask goes neither with the mask of a call, nor into another memory or mode."""
    attention, x = regard.Attention(), torch.randn(3, 6, 8)
    query = torch.randn(3, 1, 8)
    memory = attention.remember(x, mask=regard.masks.lengths(torch.tensor([6, 4, 2])))
    with torch.inference_mode():
        attention(query, memory)
    first = attention(query.requires_grad_(), memory).context
    first.sum().backward()  # the mask of inference mode could not be kept for this
    narrow = attention(query, memory, mask=regard.masks.lengths(torch.tensor([1, 1, 1])))
    assert torch.allclose(narrow.context[:, 0], x[:, 0])
    assert torch.equal(attention(query, memory).context, first)
    assert torch.allclose(attention(query[[2, 0]], memory.select(torch.tensor([2, 0]))).context, first[[2, 0]])
    grown = memory.append(torch.zeros(3, 1, 8))
    assert (attention(query, grown).weights[:, 0, -1] > 0).all()
    two = attention(torch.cat([query, query], 1), memory).context
    assert torch.allclose(two, first.expand(-1, 2, -1))


@pytest.mark.parametrize(
    "attention",
    [
        regard.Attention("dot", window=regard.windows.LocalMonotonic(1)),
        regard.Attention(regard.scores.LocationAware(4, 4, 4, 2, 3)),
    ],
    ids=["window", "score"],
)
def test_a_forgotten_state_is_noticed_once(attention, monkeypatch):
    """The second single query that begins anew at the same memory; not one for each memory, or several at once."""
    monkeypatch.setattr(_warn, "_shown", set())
    query, key = torch.randn(2, 1, 4), torch.randn(2, 6, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            memory = attention.remember(key)
            out = attention(query, memory)
            attention(query, memory, state=out.state)
            attention(query, memory, state=attention.start(memory))
            attention(query.expand(2, 3, 4), memory)
    with pytest.warns(UserWarning, match=r"state = attention\.start\(memory\)") as told:
        [attention(query, memory) for _ in range(3)]
    assert len(told) == 1 and told[0].filename == __file__


@torch.no_grad()
def test_room_for_rows_that_the_caller_writes():
    attention = regard.Attention("scaled_dot")
    key, value, more = torch.randn(3, 4, 5), torch.randn(3, 4, 6), torch.randn(2, 3, 11)
    memory = attention.remember(key, value, mask=torch.tensor([True, False, True, True]))
    for step, index in enumerate(([2, 0], [1, 0])):
        expected = memory.append(more[step, : memory.shape[0], :5][:, None], more[step, : memory.shape[0], 5:][:, None])
        new = memory.room()
        for rows, written in zip(new.shelf.rows, more[step].split([5, 6], -1)):
            rows[memory.length, : memory.shape[0]] = written[: memory.shape[0]]
        assert new.length == memory.length + 1 == expected.length
        query = torch.randn(memory.shape[0], 1, 5)
        torch.testing.assert_close(attention(query, new).context, attention(query, expected).context)
        memory = new.select(torch.tensor(index))  # of which the next has a table
    assert memory.pages is not None


def test_a_mask_does_not_lengthen_what_another_has_grown_from():
    """A memory and the one that grew from it share their rows; the shorter one stays as long as it was."""
    attention = regard.Attention("scaled_dot")
    with torch.no_grad():
        short = attention.remember(torch.randn(2, 1, 4)).append(torch.randn(2, 1, 4))
        grown = short.append(torch.randn(2, 1, 4))
        within = short.within(regard.masks.lengths(torch.tensor([2, 1])))
        assert (grown.length, short.length, within.length) == (3, 2, 2)
        assert attention(torch.randn(2, 1, 4), within).weights.shape == (2, 1, 2)
