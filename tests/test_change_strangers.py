"""`regard.change` in models of Hugging Face."""

from __future__ import annotations

import pytest
import torch

import regard
from strangers import NAMES, WRITERS, batch, build

WAYS = [(name, way) for name in NAMES for way in ("eager", "sdpa") if (name, way) != ("gemma2", "sdpa")]
OUTPUT = {  # the projection that joins the heads of the attention that is changed
    "llama": ("model.layers.1.self_attn", "o_proj"),
    "mistral": ("model.layers.1.self_attn", "o_proj"),
    "qwen": ("model.layers.1.self_attn", "o_proj"),
    "gemma": ("model.layers.1.self_attn", "o_proj"),
    "bert": ("bert.encoder.layer.1.attention.self", "../output.dense"),
    "t5": ("decoder.block.1.layer.1.EncDecAttention", "o"),
    "bart": ("model.decoder.layers.1.encoder_attn", "out_proj"),
    "whisper": ("model.encoder.layers.0.self_attn", "out_proj"),
    "vit": ("vit.layers.1.attention", "o_proj"),
    "llava": ("model.language_model.layers.0.self_attn", "o_proj"),
}


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_the_same_weights_give_the_same_answer(name, way):
    model, given = build(name, way), batch(name)
    with torch.no_grad():
        plain = model(**given).logits
        with regard.change(model, "*", weights=lambda weights: weights) as calls:
            same = model(**given).logits
        with regard.change(model, "*", weights="uniform"):
            even = model(**given).logits
    mask = given.get("attention_mask") if same.ndim == 3 and same.shape[1] == 6 else None
    kept = slice(None) if mask is None else mask.bool()
    assert torch.allclose(same[kept], plain[kept], atol=1e-5)
    assert not torch.allclose(even[kept], plain[kept], atol=1e-4)
    assert len(calls) >= 2


@pytest.mark.parametrize(("name", "way"), [pair for pair in WAYS if pair[0] in OUTPUT])
def test_without_a_head(name, way):
    """Its part of the projection that joins the heads does the same."""
    model, given = build(name, way), batch(name)
    where, joining = OUTPUT[name]
    with torch.no_grad():
        plain = model(**given).logits
        with regard.change(model, where, head=1, weights="zero"), regard.record(model, only=where) as tape:
            out = model(**given).logits
        assert not tape[where].weights[:, 1].any() and tape[where].weights[:, 0].any()
        if joining.startswith("../"):
            where, joining = where.rpartition(".")[0], joining[3:]
        projection = model.get_submodule(f"{where}.{joining}").weight
        projection[:, 8:16] = 0  # heads are 8 wide
        expected = model(**given).logits
    assert torch.allclose(out, expected, atol=1e-5)
    assert not torch.allclose(out, plain, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in WRITERS if name in OUTPUT])
def test_while_generating(name):
    """With a cache, and for grouped queries that Hugging Face folds into T."""
    model, given = build(name, "sdpa"), batch(name, generate=True)
    options = {"max_new_tokens": 5, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    where, joining = OUTPUT[name]
    with torch.no_grad():
        with regard.change(model, where, head=[0, 3], weights="zero") as calls:
            out = model.generate(**given, **options)
        projection = model.get_submodule(f"{where}.{joining}").weight
        projection[:, :8] = projection[:, 24:] = 0
        expected = model.generate(**given, **options)
    assert list(calls) == [where]
    assert torch.equal(out.sequences, expected.sequences)
    assert torch.allclose(torch.stack(out.logits), torch.stack(expected.logits), atol=1e-5)


def test_returned_weights_are_the_changed_ones():
    model, given = build("bert"), batch("bert")
    with torch.no_grad():
        model(**given, output_attentions=True)  # Hugging Face's own hooks are there first
        with regard.change(model, "*.1.attention.self", weights="uniform"):
            out = model(**given, output_attentions=True)
    allowed = given["attention_mask"][:, None, None].float()
    assert torch.allclose(out.attentions[1], (allowed / allowed.sum(-1, keepdim=True)).expand(2, 4, 6, 6))
    assert not torch.allclose(out.attentions[0], out.attentions[1], atol=1e-3)
