"""What every system must do, whatever its paper says."""

import ast
import copy
import fnmatch
import importlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard import registry

VOCAB, B, S, T = 23, 4, 7, 6


def pairs():
    """Four pairs of different lengths."""
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.randint(4, VOCAB, (B, n), generator=generator) for n in (S, T + 1))
    source_lengths, target_lengths = torch.tensor([7, 5, 3, 1]), torch.tensor([6, 4, 6, 2])
    target[:, 0] = 1
    for b in range(B):
        source[b, source_lengths[b] :] = 0
        target[b, target_lengths[b]] = 2
        target[b, target_lengths[b] + 1 :] = 0
    return {
        "source": source,
        "source_lengths": source_lengths,
        "target": target,
        "target_lengths": target_lengths,
    }


def alone(batch, b):
    """One pair of a batch, without padding."""
    s, t = int(batch["source_lengths"][b]), int(batch["target_lengths"][b])
    return {
        "source": batch["source"][b : b + 1, :s],
        "source_lengths": batch["source_lengths"][b : b + 1],
        "target": batch["target"][b : b + 1, : t + 1],
        "target_lengths": batch["target_lengths"][b : b + 1],
    }


TEXT = {"source_vocab": VOCAB, "target_vocab": VOCAB}
SMALL = {"embedding": 8, "hidden": 12, "layers": 2, "radius": 2}
BUILDERS = {
    "transformer": [
        {"dim": 16, "heads": 2, "hidden": 24, "encoder_layers": 2, "decoder_layers": 2},
        {"dim": 16, "heads": 2, "hidden": 24, "encoder_layers": 1, "decoder_layers": 2, "norm": "pre", "tied": False},
        {"dim": 16, "heads": 2, "hidden": 24, "encoder_layers": 1, "decoder_layers": 1, "score": "additive"},
        {"dim": 16, "heads": 2, "hidden": 24, "encoder_layers": 1, "decoder_layers": 1, "alignment_head": 1},
    ],
    "rnnsearch": [{"embedding": 8, "hidden": 12, "attention": 10, "maxout": 6}],
    "luong": [
        {**SMALL, "score": score, "local": local, "feed": feed, "reverse": feed}
        for score in ("dot", "general", "additive", "location")
        for local in ("none", "m", "p")
        for feed in (True, False)
    ]
    + [{**SMALL, "attention": False}],
    "seq2seq": [
        {"embedding": 8, "hidden": 12, "layers": 2},
        {"embedding": 8, "hidden": 12, "layers": 1, "cell": "gru", "feed_summary": True, "maxout": 6, "reverse": False},
    ],
}
CASES = [(name, options) for name, many in BUILDERS.items() for options in many]


def show(value):
    if isinstance(value, str):
        return value
    return "-".join(str(v) for v in value.values() if isinstance(v, str | bool)) or "plain"


def build(name, options, **more):
    torch.manual_seed(1)
    cls = registry.system(name)
    config = importlib.import_module(cls.__module__).Config(**TEXT, **{**options, "dropout": 0.0, **more})
    return cls(config)


def test_every_system_has_a_builder():
    missing = set(registry.systems()) - set(BUILDERS)
    assert not missing, f"add {missing} to BUILDERS in tests/contracts/test_systems.py"


@pytest.mark.parametrize(("name", "options"), CASES, ids=show)
class TestSystem:
    def test_loss_reaches_every_parameter(self, name, options):
        model = build(name, options)
        out = model(pairs())
        assert set(out) >= {"loss", "count"} and out["count"] == pairs()["target_lengths"].sum()
        out["loss"].backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), path

    def test_batch_mates_and_padding_do_not_matter(self, name, options):
        model, batch = build(name, options).eval(), pairs()
        with torch.no_grad():
            together = model(batch)
            each = [model(alone(batch, b)) for b in range(B)]
        total = sum(out["nll"] * out["count"] for out in each) / sum(out["count"] for out in each)
        assert torch.allclose(together["nll"], total, atol=1e-5)

    def test_step_by_step_equals_teacher_forcing(self, name, options):
        model, batch = build(name, options).eval(), pairs()
        target, lengths = batch["target"], batch["target_lengths"]
        with torch.no_grad():
            state, nll = model.start(batch), torch.zeros(B)
            for t in range(T):
                logits, state = model.step(target[:, t], state)
                log_prob = torch.log_softmax(logits, -1).gather(1, target[:, t + 1 : t + 2])[:, 0]
                nll -= torch.where(t < lengths, log_prob, 0.0)
                alignment = model.alignment(state)
                if alignment is not None:
                    assert alignment.shape == batch["source"].shape
                    assert (alignment[batch["source"] == 0] == 0).all()
            assert torch.allclose(nll.sum() / lengths.sum(), model(batch)["nll"], atol=1e-5)

    def test_a_state_can_be_reordered(self, name, options):
        from regard.decode import select

        model, batch, index = build(name, options).eval(), pairs(), torch.tensor([2, 0, 0])
        with torch.no_grad():
            state = model.start(batch)
            _, state = model.step(batch["target"][:, 0], state)
            expected, _ = model.step(batch["target"][:, 1], state)
            got, _ = model.step(batch["target"][index, 1], select(state, index))
        assert torch.allclose(got, expected[index], atol=1e-5)

    def test_saved_and_loaded_it_computes_the_same(self, name, options, tmp_path):
        model = build(name, options).eval()
        kept = {path: tensor.contiguous() for path, tensor in model.state_dict().items()}
        distinct = {path: tensor.clone() for path, tensor in kept.items()}
        save_file(distinct, tmp_path / "model.safetensors")
        other = build(name, options).eval()
        for parameter in other.parameters():
            torch.nn.init.normal_(parameter)
        other.load_state_dict(load_file(tmp_path / "model.safetensors"))
        with torch.no_grad():
            assert torch.equal(model(pairs())["loss"], other(pairs())["loss"])
            assert torch.equal(copy.deepcopy(model)(pairs())["loss"], model(pairs())["loss"])

    def test_a_tape_sees_every_attention_it_declares(self, name, options):
        model = build(name, options)
        with regard.record(model) as tape, torch.no_grad():
            model(pairs())
        declared = {} if options.get("attention") is False else model.looks
        for pattern in declared:
            assert fnmatch.filter(tape.names(), pattern), f"{pattern} was not seen, only {tape.names()}"
        for seen in tape.names():
            assert any(fnmatch.fnmatch(seen, pattern) for pattern in declared), f"{seen} is not declared in looks"


@pytest.mark.parametrize("name", registry.systems())
def test_systems_leave_attention_to_the_core(name):
    """No softmax and no sum of values of their own: those are the core's."""
    path = Path(importlib.import_module(f"regard.systems.{name}").__file__)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("softmax", "bmm", "baddbmm", "einsum", "scaled_dot_product_attention"), node.lineno


@pytest.mark.parametrize("name", registry.systems())
def test_systems_do_not_import_each_other(name):
    path = Path(importlib.import_module(f"regard.systems.{name}").__file__)
    for other in set(registry.systems()) - {name}:
        assert f"regard.systems.{other}" not in path.read_text()
