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
from contracts.cases import Case, all_cases
from regard import registry

CASES = [(name, case) for name, many in all_cases().items() for case in many]
GENERATING = [
    (name, case) for name, case in CASES if hasattr(registry.system(name), "step") and "target" in case.batch()
]


def build(name: str, case: Case, seed: int = 1):
    torch.manual_seed(seed)
    cls = registry.system(name)
    return cls(importlib.import_module(cls.__module__).Config(**case.options))


def run(model, batch):
    """The model on a batch; whatever it draws, it draws the same each time."""
    torch.manual_seed(2)
    return model(batch)


def test_every_system_has_a_case():
    missing = set(registry.systems()) - {name for name, _ in CASES}
    assert not missing, f"add {missing} to a file of tests/contracts/cases"


@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
class TestSystem:
    def test_loss_reaches_every_parameter(self, name, case):
        model = build(name, case)
        out = run(model, case.batch())
        assert set(out) >= {"loss", "count"} and out["count"] > 0
        assert all(value.ndim == 0 and torch.isfinite(value) for value in out.values())
        out["loss"].backward()
        for path, parameter in model.named_parameters():
            if any(fnmatch.fnmatch(path, pattern) for pattern in case.frozen):
                continue
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), path

    def test_it_trains_in_bfloat16(self, name, case):
        """As ``precision=bfloat16`` has it: finite, and near what it is in float32."""
        model, batch = build(name, case), case.batch()
        plain = run(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            out = run(model, batch)
        out["loss"].backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), path
        assert out["count"] == plain["count"]
        for key in out:
            assert torch.isfinite(out[key]), key

    def test_batch_mates_and_padding_do_not_matter(self, name, case):
        if case.alone is None:
            pytest.skip("its examples cannot be told apart")
        model, batch = build(name, case).eval(), case.batch()
        with torch.no_grad():
            together = run(model, batch)
            each = [run(model, one) for one in case.alone(batch)]
        total = sum(out["count"] for out in each)
        assert together["count"] == total
        for key in together.keys() - {"count"}:
            mean = sum(out[key] * out["count"] for out in each) / total
            assert torch.allclose(together[key], mean, atol=1e-5), key

    def test_saved_and_loaded_it_computes_the_same(self, name, case, tmp_path):
        model, batch = build(name, case).eval(), case.batch()
        save_file({path: tensor.clone() for path, tensor in model.state_dict().items()}, tmp_path / "model.safetensors")
        other = build(name, case, seed=3).eval()
        other.load_state_dict(load_file(tmp_path / "model.safetensors"))
        with torch.no_grad():
            assert torch.equal(run(model, batch)["loss"], run(other, batch)["loss"])
            assert torch.equal(run(copy.deepcopy(model), batch)["loss"], run(model, batch)["loss"])

    @pytest.mark.filterwarnings("ignore:regard.record saw no attention")  # the controls have none
    def test_a_tape_sees_every_attention_it_declares(self, name, case):
        model = build(name, case)
        with regard.record(model) as tape, torch.no_grad():
            run(model, case.batch())
        declared = model.uses if case.looks else {}
        for pattern in declared:
            assert fnmatch.filter(tape.names(), pattern), f"{pattern} was not seen, only {tape.names()}"
        for seen in tape.names():
            assert any(fnmatch.fnmatch(seen, pattern) for pattern in declared), f"{seen} is not declared in uses"

    def test_its_attention_can_be_changed(self, name, case):
        """The same weights give the same loss, others another. Attention by position shows its weights too late."""
        model, batch = build(name, case).eval(), case.batch()
        with torch.no_grad():
            plain = run(model, batch)["loss"]
            for pattern in model.uses if case.looks else ():
                where = [module for path, module in model.named_modules() if fnmatch.fnmatch(path, pattern)]
                if any(isinstance(module, regard.parts.Glimpse) for module in where):
                    said = "only when it has used them"
                    with pytest.raises(ValueError, match=said), regard.change(model, pattern, weights="zero"):
                        run(model, batch)
                    continue
                with regard.change(model, pattern, weights=lambda weights: weights):
                    assert torch.allclose(run(model, batch)["loss"], plain, rtol=1e-4)
                if name != "memnn":  # which is told in training what to look at
                    with regard.change(model, pattern, weights="zero"):
                        assert not torch.equal(run(model, batch)["loss"], plain)


@pytest.mark.parametrize(("name", "case"), GENERATING, ids=str)
class TestGenerating:
    def test_step_by_step_equals_teacher_forcing(self, name, case):
        model, batch = build(name, case).eval(), case.batch()
        target, lengths = batch["target"], batch["target_lengths"]
        columns = batch["source"] > 0 if case.columns is None else case.columns(batch)
        limit = model.limit(batch)
        assert limit.shape == lengths.shape and (limit >= 1).all()
        with torch.no_grad():
            state, nll = model.start(batch), torch.zeros(len(target))
            for t in range(int(lengths.max())):
                logits, state = model.step(target[:, t], state)
                log_prob = torch.log_softmax(logits, -1).gather(1, target[:, t + 1 : t + 2])[:, 0]
                nll -= torch.where(t < lengths, log_prob, 0.0)
                alignment = model.alignment(state)
                several = isinstance(alignment, dict)
                for name, looked in (alignment if several else {"": alignment}).items():
                    there = columns[name] if several else columns
                    if looked is not None:
                        assert looked.shape == there.shape
                        assert (looked[~there] == 0).all()
            assert torch.allclose(nll.sum() / lengths.sum(), model(batch)["nll"], atol=1e-5)

    def test_a_state_can_be_reordered(self, name, case):
        from regard.decode import select

        model, batch, index = build(name, case).eval(), case.batch(), torch.tensor([2, 0, 0])
        with torch.no_grad():
            state = model.start(batch)
            _, state = model.step(batch["target"][:, 0], state)
            expected, _ = model.step(batch["target"][:, 1], state)
            got, _ = model.step(batch["target"][index, 1], select(state, index))
        assert torch.allclose(got, expected[index], atol=1e-5)


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
