"""``attn_implementation="regard"`` against ``"eager"``, in a dozen architectures of Hugging Face."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.integrations.transformers import register
from strangers import GROUPED, NAMES, SIDES, WRITERS, batch, build, hugging, queries

register()


def close(ours, theirs, atol=1e-5):
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=atol)


def answers(logits, name):
    """The logits of what is no padding."""
    mask = batch(name).get("attention_mask")
    fits = mask is not None and logits.ndim == 3 and logits.shape[1] == mask.shape[1]
    return logits[mask.bool()] if fits else logits


@pytest.mark.parametrize("name", NAMES)
class TestForward:
    def test_logits(self, name):
        given = batch(name)
        with torch.no_grad():
            expected = build(name)(**given)
            out = build(name, "regard")(**given)
        assert out.get("attentions") is None
        assert close(answers(out.logits, name), answers(expected.logits, name))

    def test_weights_when_asked(self, name):
        given = batch(name)
        with torch.no_grad():
            expected = build(name)(**given, output_attentions=True)
            out = build(name, "regard")(**given, output_attentions=True)
        assert close(answers(out.logits, name), answers(expected.logits, name))
        found = [side for side in SIDES if expected.get(side)]
        assert found
        for side in found:
            for ours, theirs in zip(out[side], expected[side], strict=True):
                assert close(queries(ours, name), queries(theirs, name))

    def test_gradients(self, name):
        grads = []
        for way in ("eager", "regard"):
            model = build(name, way)
            answers(model(**batch(name)).logits, name).square().mean().backward()
            grads.append({path: p.grad for path, p in model.named_parameters() if p.grad is not None})
        for path, expected in grads[0].items():
            assert torch.allclose(grads[1][path], expected, atol=1e-4, rtol=1e-3), path


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("name", WRITERS)
def test_generating(name, asked):
    given = batch(name, generate=True)
    options = {"max_new_tokens": 6, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    with torch.no_grad():
        expected = build(name).generate(**given, **options, output_attentions=True)
        out = build(name, "regard").generate(**given, **options, output_attentions=asked)
    assert torch.equal(out.sequences, expected.sequences)
    assert close(torch.stack(out.logits), torch.stack(expected.logits))
    for side in ("attentions", "decoder_attentions", "cross_attentions"):
        steps = out.get(side)
        if not asked or expected.get(side) is None:
            assert not steps or all(weights is None or not weights for weights in steps)
            continue
        for step, theirs in zip(steps, expected[side], strict=True):
            for ours, layer in zip(step, theirs, strict=True):
                assert close(queries(ours, name), queries(layer, name))


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("asked", [True, False])
def test_caches(cache, asked):
    """A static cache is longer than what is in it, and its first mask is aligned to the beginning."""
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    options = {"max_new_tokens": 4, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    options |= {"cache_implementation": cache, "output_attentions": asked, "disable_compile": True}
    with torch.no_grad():
        expected = build("llama").generate(ids, **options)
        out = build("llama", "regard").generate(ids, **options)
    assert close(torch.stack(out.logits), torch.stack(expected.logits))
    for step, theirs in zip(out.attentions or (), expected.attentions or ()):
        assert all(close(*pair) for pair in zip(step, theirs, strict=True)) if asked else not step


def test_sinks():
    def model(way):
        torch.manual_seed(0)
        layers = ["sliding_attention", "full_attention"]
        options = {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4}
        ropes = {"rope_type": "default", "rope_theta": 10000.0}
        config = hugging.GptOssConfig(**GROUPED, **options, layer_types=layers, rope_parameters=ropes)
        made = hugging.GptOssForCausalLM(config).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        made.set_attn_implementation(way)
        return made

    given = batch("llama")
    with torch.no_grad():
        expected = model("eager")(**given, output_attentions=True)
        out = model("regard")(**given, output_attentions=True)
        quiet = model("regard")(**given)
    assert close(answers(out.logits, "llama"), answers(expected.logits, "llama"))
    assert close(answers(quiet.logits, "llama"), answers(expected.logits, "llama"))
    for ours, theirs in zip(out.attentions, expected.attentions, strict=True):
        assert close(queries(ours, "llama"), queries(theirs, "llama")) and ours.sum(-1).max() < 1


class TestParts:
    """Any score and normalizer of ours in a stranger's model."""

    @pytest.mark.parametrize("asked", [True, False])
    def test_cosine(self, asked):
        register("cosine", score=regard.scores.Cosine(gain=3.0))
        model, given, seen = build("bert", "cosine"), batch("bert"), {}

        def keep(module, args, kwargs, output):
            heads = [layer(args[0]).view(2, 6, 4, 8).transpose(1, 2) for layer in (module.query, module.key)]
            seen["cosine"] = 3 * torch.cosine_similarity(heads[0][:, :, :, None], heads[1][:, :, None], dim=-1)

        hook = model.bert.encoder.layer[0].attention.self.register_forward_hook(keep, with_kwargs=True)
        with torch.no_grad(), regard.record(model) as tape:
            out = model(**given, output_attentions=asked)
        hook.remove()
        allowed = given["attention_mask"].bool()[:, None, None]
        expected = seen["cosine"].masked_fill(~allowed, -torch.inf).softmax(-1)
        assert close(tape.attentions[0], expected)
        assert not asked or close(out.attentions[0], expected)

    @pytest.mark.parametrize("name", ["llama", "t5", "gemma2", "whisper", "llava"])
    def test_sparsemax(self, name):
        register("sparse", normalizer="sparsemax")
        with torch.no_grad():
            dense = build(name)(**batch(name), output_attentions=True)
            out = build(name, "sparse")(**batch(name), output_attentions=True)
        side = "attentions" if out.get("attentions") else "encoder_attentions"
        first = queries(out[side][0], name)
        assert (first == 0).sum() > (queries(dense[side][0], name) == 0).sum()
        rows = first.sum(-1)
        assert torch.allclose(rows, rows.round(), atol=1e-5) and rows.max() > 0.5

    def test_a_score_with_parameters_learns(self):
        score = regard.scores.Additive(query_dim=8, key_dim=8, hidden_dim=4)
        register("additive", score=score)
        build("llama", "additive")(**batch("llama")).logits.square().sum().backward()
        assert all(parameter.grad is not None for parameter in score.parameters())

    def test_generating(self):
        register("cosine", score="cosine")
        model, given = build("llama", "cosine"), batch("llama")
        with torch.no_grad():
            out = model.generate(
                **given, max_new_tokens=4, do_sample=False, output_logits=True, return_dict_in_generate=True
            )
            mask = torch.ones_like(out.sequences)
            mask[:, :6] = given["attention_mask"]
            whole = model(out.sequences, attention_mask=mask).logits[:, 5:-1]
        assert close(torch.stack(out.logits, 1), whole)


class TestWithRecordAndChange:
    @pytest.mark.parametrize("asked", [True, False])
    @pytest.mark.parametrize("name", ["llama", "t5", "gemma2"])
    def test_a_tape(self, name, asked):
        with torch.no_grad():
            expected = build(name)(**batch(name), output_attentions=True)
            with regard.record(model := build(name, "regard")) as tape:
                model(**batch(name), output_attentions=asked)
        sides = [side for side in SIDES if expected.get(side)]
        for side in sides:
            for ours, theirs in zip(getattr(tape, side), expected[side], strict=True):
                assert close(queries(ours, name), queries(theirs, name))

    def test_a_change(self):
        model, given = build("llama", "regard"), batch("llama")
        where = "model.layers.0.self_attn"
        with torch.no_grad(), regard.change(model, where, head=2, weights="zero"):
            quiet, loud = model(**given), model(**given, output_attentions=True)
        assert close(quiet.logits, loud.logits)
        assert not loud.attentions[0][:, 2].any() and loud.attentions[0][:, 1].any()


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"name": "sdpa"}, "Hugging Face's own"),
            ({"score": "cosnie"}, "did you mean 'cosine'"),
            ({"score": "additive"}, "it needs query_dim, key_dim, hidden_dim"),
            ({"score": regard.scores.LocationAware(8, 8, 4, filters=2, kernel=3)}, "LocationAware needs a state"),
            ({"normalizer": "softmaxx"}, "did you mean 'softmax'"),
        ],
    )
    def test_register(self, options, said):
        with pytest.raises(ValueError, match=said):
            register(**options)

    def test_without_transformers(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "transformers", None)
        with pytest.raises(ImportError, match="pip install transformers"):
            register()
