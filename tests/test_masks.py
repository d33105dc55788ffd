"""One polarity, one shape contract."""

import warnings

import pytest
import torch

import regard
from regard import _warn, masks
from regard.masks import as_mask

B, H, T, S = 2, 3, 4, 5


def allowed(mask, shape=(B, T, S)):
    return as_mask(mask).tensor(shape).expand(shape)


@pytest.mark.parametrize("shape", [(S,), (B, S), (B, T, S), (1, T, S), (B, 1, S)])
def test_rank_decides_where_dimensions_are_inserted(shape):
    mask = torch.rand(shape) > 0.5
    got = allowed(mask, (B, H, T, S))
    for b in range(B):
        for h in range(H):
            for t in range(T):
                row = mask if mask.ndim == 1 else mask[min(b, len(mask) - 1)]
                row = row[min(t, len(row) - 1)] if row.ndim == 2 else row
                assert torch.equal(got[b, h, t], row)


@pytest.mark.filterwarnings("ignore:a mask of shape")
def test_a_square_batch_is_read_by_rank_not_by_size():
    mask = torch.rand(T, T) > 0.5
    assert torch.equal(allowed(mask, (T, T, T)), mask[:, None].expand(T, T, T))


def test_a_square_mask_for_as_many_items_is_questioned_once(monkeypatch):
    monkeypatch.setattr(_warn, "_shown", set())
    x, mask = torch.randn(T, T, 8), torch.ones(T, T, dtype=torch.bool).tril()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = (mask[None], mask[:, None], masks.lengths(torch.arange(T)), masks.from_torch(key_padding_mask=mask))
        for each in told:
            regard.attend(x, x, mask=each)
        regard.attend(x[:2], x[:2], mask=torch.ones(2, T, dtype=torch.bool))
        regard.attend(x[0], x[0], mask=mask)  # without a batch it can be nothing else
    with pytest.warns(UserWarning, match=r"\(B, S\).*\(T, S\).*mask\[None\].*mask\[:, None\]") as caught:
        regard.attend(x, x, mask=mask)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regard.MultiHead(8, 2)(x, mask=mask & masks.causal())


def test_unbatched_two_dimensions_are_queries_and_keys():
    mask = torch.rand(T, S) > 0.5
    assert torch.equal(allowed(mask, (T, S)), mask)


def test_lengths():
    got = allowed(masks.lengths(torch.tensor([0, 3])))
    assert got.sum(-1).tolist() == [[0] * T, [3] * T]
    assert got[1, 0].tolist() == [True, True, True, False, False]


def test_causal_is_aligned_to_the_end():
    got = allowed(masks.causal(), (2, 5))
    assert got.tolist() == [[True] * 4 + [False], [True] * 5]


def test_window_is_aligned_to_the_end():
    got = allowed(masks.window(1), (2, 5))
    assert got.tolist() == [[False, False, True, True, True], [False, False, False, True, True]]


def test_masks_combine():
    lengths, causal = masks.lengths(torch.tensor([2, 5])), masks.causal()
    tensor = torch.rand(B, S) > 0.5
    assert torch.equal(allowed(lengths & causal), allowed(lengths) & allowed(causal))
    assert torch.equal(allowed(lengths | ~causal), allowed(lengths) | ~allowed(causal))
    assert torch.equal(allowed(causal & tensor), allowed(causal) & allowed(tensor))
    assert torch.equal(allowed(tensor & causal), allowed(causal) & allowed(tensor))
    assert torch.equal(allowed(tensor | causal), allowed(causal) | allowed(tensor))
    assert ~~causal is causal


def test_from_torch_turns_the_polarity_round():
    padding = torch.tensor([[False, False, True], [False, True, True]])
    future = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    expected, _ = module(x, x, x, key_padding_mask=padding, attn_mask=future)
    ours = regard.MultiHead.from_torch(module)
    mask = masks.from_torch(key_padding_mask=padding, attn_mask=future)
    assert torch.allclose(ours(x, mask=mask).context, expected, atol=1e-6)
    additive = torch.zeros(3, 3).masked_fill(future, float("-inf"))
    mask = masks.from_torch(key_padding_mask=padding, attn_mask=additive)
    assert torch.allclose(ours(x, mask=mask).context, expected, atol=1e-6)
    folded = future.expand(4, 3, 3)
    mask = masks.from_torch(key_padding_mask=padding, attn_mask=folded, heads=2)
    assert torch.allclose(ours(x, mask=mask).context, expected, atol=1e-6)
    with pytest.raises(ValueError, match="heads=H"):
        masks.from_torch(attn_mask=folded)
    with pytest.raises(ValueError, match="a bias, not a mask"):
        masks.from_torch(attn_mask=torch.randn(3, 3))
    assert masks.from_torch() is None
    with pytest.raises(TypeError):  # which of the two it is must be said: their shapes may be the same
        masks.from_torch(padding)


@pytest.mark.parametrize(
    ("mask", "remedy"),
    [
        (torch.ones(B, S, dtype=torch.long), r"mask\.bool\(\)"),
        (torch.ones(B, S), r"mask > 0\.5"),
        ([[True] * S] * B, r"torch\.as_tensor"),
    ],
)
def test_other_dtypes_are_refused_with_the_line_that_converts(mask, remedy):
    with pytest.raises(ValueError, match=remedy):
        as_mask(mask)


def test_misfits_name_both_shapes():
    with pytest.raises(ValueError, match=r"\(4, 5\).*\(2, 4, 5\).*mask\[None\]"):
        allowed(torch.ones(T, S, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"\(2, 6\).*\(2, 4, 5\)"):
        allowed(torch.ones(B, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"\(2, 1\)"):  # a single key is not every key
        allowed(torch.ones(B, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"7.*5 keys"):
        allowed(masks.lengths(torch.tensor([7, 1])))
    with pytest.raises(ValueError, match="3 lengths for a batch of 2"):
        allowed(masks.lengths(torch.tensor([1, 1, 1])))


def test_a_tensor_of_lengths_is_made_once_for_the_layers_of_a_model():
    numbers = torch.tensor([2, 5])
    mask = masks.lengths(numbers)
    first = mask.tensor((B, T, S))
    assert mask.tensor((B, T + 1, S)) is first
    assert mask.tensor((B, 2, T, S)).shape == (B, 1, 1, S)
    assert mask.tensor((B, T, S + 1)).sum().item() == 7
    numbers[0] = 1
    assert mask.tensor((B, T, S)).sum().item() == 6
    with torch.inference_mode():
        assert mask.tensor((B, T, S)).is_inference()
    assert not mask.tensor((B, T, S)).is_inference()


@pytest.mark.parametrize("lengths", [torch.tensor([1.0, float("nan")]), torch.tensor([-1, 2]), torch.ones(2, 2).long()])
def test_bad_lengths(lengths):
    with pytest.raises(ValueError, match="length"):
        masks.lengths(lengths)


def test_negative_radius():
    with pytest.raises(ValueError, match="-1"):
        masks.window(-1)


@pytest.mark.parametrize(
    "mask",
    [
        masks.lengths(torch.tensor([2, 5])),
        masks.lengths(torch.tensor([2, 5])) & masks.causal(),
        ~masks.lengths(torch.tensor([2, 5])),
        as_mask(torch.rand(B, S) > 0.5) | masks.lengths(torch.tensor([2, 3])),
    ],
)
def test_select_and_grow(mask):
    before = allowed(mask, (B, 1, S))
    index = torch.tensor([1, 1, 0])
    assert torch.equal(mask.select(index).tensor((3, 1, S)).expand(3, 1, S), before[index])
    after = mask.grow((B, 1, S), 2).tensor((B, 1, S + 2)).expand(B, 1, S + 2)
    assert torch.equal(after[..., :S], before)
    assert after[..., S:].all()


def test_they_show_what_they_are():
    padding, near = masks.lengths(torch.tensor([1, 2])), masks.window(3)
    assert repr(padding & masks.causal()) == "lengths([1, 2]) & causal()"
    assert repr(~(padding | near) & masks.causal()) == "~(lengths([1, 2]) | window(3)) & causal()"
    assert repr(masks.as_mask(torch.ones(2, 3).bool()) & near & ~near) == "a Boolean (2, 3) & window(3) & ~window(3)"
    assert repr(masks.lengths(torch.arange(64))) == "lengths((64,))"  # and no screen full of numbers
    assert repr(masks.segments(torch.zeros(2, 9).long())) == "segments((2, 9))"
