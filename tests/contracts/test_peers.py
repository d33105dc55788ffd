"""Equal to what PyTorch ships: scaled_dot_product_attention, and nn.MultiheadAttention with its weights copied."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import regard
from contracts.part_cases import KERNELS


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def causal(queries: int, keys: int) -> Tensor:
    """Aligned to the end, as `regard.masks.causal` is; torch's `is_causal` differs from it where T != S."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


@pytest.mark.parametrize("kernel", [*KERNELS, None])
@pytest.mark.parametrize("masking", ["none", "padding", "causal", "padding and causal", "per head"])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 9), (1, 6)])
@pytest.mark.parametrize("width", [8, 5])
def test_sdpa(kernel: str | None, masking: str, queries: int, keys: int, width: int) -> None:
    generator = torch.Generator().manual_seed(queries)
    query, key, value = (
        torch.randn(3, 2, n, d, generator=generator).requires_grad_()
        for n, d in ((queries, 8), (keys, 8), (keys, width))
    )
    lengths = torch.tensor([keys, keys - 2, 1])
    there = torch.arange(keys) < lengths[:, None, None, None]  # (B, 1, 1, S)
    heads = (torch.rand(3, 2, queries, keys, generator=generator) < 0.5) | (torch.arange(keys) == 0)
    theirs, ours = {
        "none": (None, None),
        "padding": (there, regard.masks.lengths(lengths)),
        "causal": (causal(queries, keys), regard.masks.causal()),
        "padding and causal": (there & causal(queries, keys), regard.masks.lengths(lengths) & regard.masks.causal()),
        "per head": (heads, heads),
    }[masking]
    expected = scaled_dot_product_attention(query, key, value, attn_mask=theirs)
    # Where padding and causality leave a query nothing at all, torch gives NaN (or not) and we give 0.
    alive = torch.ones(1, dtype=torch.bool) if theirs is None else theirs.any(-1, keepdim=True)
    expected = torch.where(alive, expected, 0.0)
    with nullcontext() if kernel is None else regard.kernels.use(kernel):
        out = regard.attend(query, key, value, mask=ours)
    close(out.context, expected)
    close(out.weights.sum(-1, keepdim=True), alive.expand(3, 2, queries, 1).float())
    if alive.all():
        for found, wanted in zip(
            *(torch.autograd.grad(x.square().sum(), (query, key, value)) for x in (out.context, expected)), strict=True
        ):
            close(found, wanted)


def test_causal_of_equal_lengths_is_torchs() -> None:
    query = torch.randn(2, 4, 6, 8)
    close(
        regard.attend(query, query, mask=regard.masks.causal()).context,
        scaled_dot_product_attention(query, query, query, is_causal=True),
    )


@pytest.mark.parametrize("masking", ["none", "padding", "causal", "padding and causal", "per head"])
@pytest.mark.parametrize("widths", [{}, {"kdim": 6, "vdim": 10}, {"bias": False}], ids=["same", "kdim vdim", "no bias"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7)])
@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention(masking: str, widths: dict, queries: int, keys: int, training: bool) -> None:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, **widths).train(training)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = regard.MultiHead.from_torch(theirs)
    assert ours.training == training
    query = torch.randn(2, queries, 12)
    key, value = torch.randn(2, keys, widths.get("kdim", 12)), torch.randn(2, keys, widths.get("vdim", 12))
    ignored = torch.zeros(2, keys, dtype=torch.bool)
    ignored[1, keys - 2 :] = True
    pairs = ~causal(queries, keys)
    per_head = (torch.rand(6, queries, keys) < 0.4) & (torch.arange(keys) != 0)
    given: dict = {
        "none": {},
        "padding": {"key_padding_mask": ignored},
        "causal": {"attn_mask": pairs},
        "padding and causal": {"key_padding_mask": ignored, "attn_mask": pairs},
        "per head": {"attn_mask": per_head},
    }[masking]
    expected, weights = theirs(query, key, value, **given, average_attn_weights=False)
    heads = 3 if masking == "per head" else None
    out = ours(query, key, value, mask=regard.masks.from_torch(**given, heads=heads))
    close(out.context, expected)
    close(out.weights, weights)


def test_multihead_attention_gradients() -> None:
    torch.manual_seed(2)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    ours = regard.MultiHead.from_torch(theirs)
    query = torch.randn(2, 4, 8)
    theirs(query, query, query)[0].square().sum().backward()
    ours(query).context.square().sum().backward()
    close(torch.cat([x.weight.grad for x in (ours.query, ours.key, ours.value)]), theirs.in_proj_weight.grad)
    close(torch.cat([x.bias.grad for x in (ours.query, ours.key, ours.value)]), theirs.in_proj_bias.grad)
    close(ours.out.weight.grad, theirs.out_proj.weight.grad)


def test_float_masks_of_torch() -> None:
    """0/-inf masks are Boolean ones in disguise; anything else is a bias and refused."""
    additive = torch.zeros(4, 4).masked_fill(~causal(4, 4), float("-inf"))
    mask = regard.masks.from_torch(attn_mask=additive)
    assert mask is not None and mask.tensor((1, 4, 4)).equal(causal(4, 4)[None])
    with pytest.raises(ValueError, match="bias"):
        regard.masks.from_torch(attn_mask=additive.nan_to_num(neginf=-1e9))
