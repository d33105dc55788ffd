"""`regard.record` in models of Hugging Face: what they return with ``attn_implementation="eager"``, by every way."""

from __future__ import annotations

import warnings

import pytest
import torch

import regard
from strangers import NAMES, SIDES, WRITERS, batch, build, queries


def close(ours, theirs, atol=1e-5):
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=atol)


@pytest.mark.parametrize("name", NAMES)
def test_eager_weights_are_those_that_it_returns(name):
    model, given = build(name), batch(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with regard.record(model) as tape:
            out = model(**given, output_attentions=True)
    found = [side for side in SIDES if out.get(side)]
    assert found
    for side in found:
        ours = getattr(tape, side)
        assert len(ours) == len(out[side]) == 2
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(ours, out[side]))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gemma2"])  # which has no SDPA
def test_sdpa_weights_are_those_of_eager(name):
    given = batch(name)
    with torch.no_grad():
        expected = build(name)(**given, output_attentions=True)
        with regard.record(model := build(name, "sdpa")) as tape:
            out = model(**given)
    assert out.get("attentions") is None
    for side in SIDES:
        for ours, theirs in zip(getattr(tape, side), expected.get(side) or ()):
            assert close(queries(ours, name), queries(theirs, name))


def joined(steps):
    """What a model returns for each step of generating, as one tensor for each layer."""
    layers = []
    for layer in zip(*steps):
        ends = torch.tensor([weights.shape[-2] for weights in layer]).cumsum(0)
        length = max(int(ends[-1]), *(weights.shape[-1] for weights in layer))
        rows = []
        for weights, end in zip(layer, ends.tolist()):
            start = end - weights.shape[-1] if layer[-1].shape[-1] < ends[-1] and weights.shape[-1] < end else 0
            rows.append(torch.nn.functional.pad(weights, (start, length - start - weights.shape[-1])))
        layers.append(torch.cat(rows, dim=-2))
    return layers


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", WRITERS)
def test_generating_with_a_cache(name, implementation):
    """With grouped queries, Hugging Face's SDPA folds the heads of a group into T; a cache of a sliding window drops
    keys, so that the columns of later steps begin later."""
    if (name, implementation) == ("gemma2", "sdpa"):
        pytest.skip("Gemma 2 has no SDPA")
    given = batch(name, generate=True)
    options = {"max_new_tokens": 6, "do_sample": False}
    with torch.no_grad():
        expected = build(name).generate(
            **given, **options, output_attentions=True, output_scores=True, return_dict_in_generate=True
        )
        with regard.record(model := build(name, implementation)) as tape:
            model.generate(**given, **options)
    pairs = [(tape.attentions, expected.get("attentions") or expected.get("decoder_attentions"))]
    if expected.get("cross_attentions"):
        pairs.append((tape.cross_attentions, expected["cross_attentions"]))
        for ours, theirs in zip(tape.encoder_attentions, expected["encoder_attentions"]):
            assert close(queries(ours, name), queries(theirs, name))
    for ours, theirs in pairs:
        for mine, layer in zip(ours, joined(theirs), strict=True):
            prompt = theirs[0][0].shape[-2]
            assert mine.shape == layer.shape
            assert close(mine[..., prompt:, :], layer[..., prompt:, :])
            assert close(queries(mine[..., :prompt, :], name), queries(layer[..., :prompt, :], name))


class TestOnlyWhatWasAskedFor:
    def test_names_heads_and_last_queries(self):
        model, given = build("bart", "sdpa"), batch("bart")
        with torch.no_grad():
            with regard.record(model) as whole:
                model(**given)
            with regard.record(model, only="*.encoder_attn", heads=[3, 0], last=2) as part:
                model(**given)
            with regard.record(model, only="*.encoder_attn", heads=-1, last=9) as one:
                model(**given)
        assert part.names() == [name for name in whole if name.endswith("encoder_attn")]
        for name in part:
            assert torch.allclose(part[name].weights, whole[name].weights[:, [3, 0], -2:])
            assert part[name].heads == [3, 0]
            assert torch.allclose(one[name].weights, whole[name].weights[:, 3:])

    def test_memory_stays_the_same_while_generating(self):
        model, given = build("llama", "sdpa"), batch("llama")
        held = []
        with torch.no_grad(), regard.record(model, last=3) as tape:
            for length in (8, 30):
                model.generate(**given, max_new_tokens=length, do_sample=False)
                held.append(sum(look.shape[-2] for name in tape for look in tape[name].calls))
        assert held == [6, 6]
        with torch.no_grad(), regard.record(model) as whole:
            model.generate(**given, max_new_tokens=30, do_sample=False)
        for name in tape:
            assert torch.equal(tape[name].weights, whole[name].weights[..., -3:, :])

    def test_a_prompt_is_shortened_too(self):
        model, given = build("mistral", "sdpa"), batch("mistral")
        with torch.no_grad(), regard.record(model, last=4) as tape:
            model.generate(**given, max_new_tokens=3, do_sample=False)
        with torch.no_grad(), regard.record(model) as whole:
            model.generate(**given, max_new_tokens=3, do_sample=False)
        for name in tape:
            assert [look.shape[-2] for look in tape[name].calls] == [2, 1, 1]
            assert torch.allclose(tape[name].weights, whole[name].weights[..., -4:, :])

    def test_there_must_be_such_a_head(self):
        model = build("llama", "sdpa")
        said = r"heads=\[4\], but 'model.layers.0.self_attn' has 4"
        with pytest.raises(ValueError, match=said), regard.record(model, heads=4):
            model(**batch("llama"))
        with pytest.raises(ValueError, match="at least 1, not 0"), regard.record(model, last=0):
            pass


def test_beam_search_is_not_joined():
    model, given = build("bart", "sdpa"), batch("bart", generate=True)
    with torch.no_grad(), regard.record(model) as tape:
        model.generate(**given, max_new_tokens=6, num_beams=3)
    with pytest.raises(ValueError, match=r"reordered|read \.calls"):
        _ = tape.decoder_attentions
    assert len(tape.encoder_attentions) == 2


def test_training_with_dropout():
    model, given = build("bert"), batch("bert")
    expected = model(**given, output_attentions=True).attentions[0]
    model.train()
    model.bert.embeddings.eval()
    with regard.record(model, only="*.0.attention.self") as tape:
        out = model(**given, output_attentions=True)
    assert torch.allclose(tape.attentions[0], expected, atol=1e-6)
    assert not torch.allclose(out.attentions[0], expected, atol=1e-2)  # after dropout
