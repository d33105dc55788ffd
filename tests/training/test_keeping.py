"""Weights, checkpoints, run folders and averages on disk: what comes back, and what is said about what cannot."""

import json
import pickle

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import regard
from regard.training import Run, average, checkpoint, load_weights, read_weights, rng, write_weights
from training.toys import Toy, same


def test_weights_come_back_and_tied_ones_are_written_once(tmp_path):
    model = Toy()
    write_weights(tmp_path / "w.safetensors", model.state_dict(), {"step": 3, "nll": 0.5})
    assert len(safetensors.torch.load_file(tmp_path / "w.safetensors")) == len(model.state_dict()) - 1
    weights, facts = read_weights(tmp_path / "w.safetensors")
    assert same(weights, model) and facts == {"step": 3, "nll": 0.5}
    fresh = Toy(seed=5)
    load_weights(fresh, tmp_path / "w.safetensors")
    assert same(fresh, model) and fresh.output.weight is fresh.embedding.weight


def test_pieces_of_one_tensor_and_strided_ones(tmp_path):
    whole = torch.arange(24.0).reshape(4, 6)
    tensors = {"a": whole[:2], "b": whole[2:], "c": whole.T, "empty": torch.zeros(0), "void": torch.zeros(0, 3)}
    write_weights(tmp_path / "w", tensors)
    assert same(read_weights(tmp_path / "w")[0], tensors)


def test_half_precision_goes_into_a_float32_model(tmp_path):
    model, fresh = Toy(), Toy(seed=1)
    write_weights(tmp_path / "w", {k: v.half() if v.is_floating_point() else v for k, v in model.state_dict().items()})
    load_weights(fresh, tmp_path / "w")
    assert fresh.hidden.weight.dtype == torch.float32
    torch.testing.assert_close(fresh.hidden.weight, model.hidden.weight, rtol=1e-3, atol=1e-3)


def test_a_foreign_safetensors_file_can_be_read(tmp_path):
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "w")
    assert read_weights(tmp_path / "w")[1] == {}


def test_misfits_are_named(tmp_path):
    write_weights(tmp_path / "w", Toy().state_dict())
    with pytest.raises(ValueError, match=r"w do not fit this Linear: weight is missing; bias is missing; .* 4 more"):
        load_weights(nn.Linear(2, 2), tmp_path / "w")


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "pickle", "directory"])
def test_damaged_weights_are_named(tmp_path, damage):
    path = tmp_path / "w.safetensors"
    write_weights(path, Toy().state_dict())
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    elif damage == "garbage":
        path.write_bytes(b"\x00\xff" * 500)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pickle":
        torch.save(Toy().state_dict(), path)
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises((ValueError, FileNotFoundError), match=r"w\.safetensors( is damaged(, or is not|:)|$)"):
        read_weights(path)


def test_weights_of_another_format_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 9)
    write_weights(tmp_path / "w", Toy().state_dict())
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 9, this version of regard reads format 1"):
        read_weights(tmp_path / "w")


@pytest.fixture
def place(tmp_path):
    """A checkpoint."""
    return checkpoint.write(tmp_path / "checkpoints", 7, Toy().state_dict(), {"some": [1, torch.ones(2)]})


def test_a_checkpoint_comes_back(place):
    weights, state = checkpoint.read(place)
    assert same(weights, Toy()) and state["some"][0] == 1 and torch.equal(state["some"][1], torch.ones(2))


def test_the_two_newest_checkpoints_stay_also_at_the_same_step(place):
    folder = place.parent
    names = [checkpoint.write(folder, step, {}, {"n": n}).name for n, step in enumerate([7, 7, 8, 100, 100])]
    assert names == ["step-00000007-2", "step-00000007-3", "step-00000008", "step-00000100", "step-00000100-2"]
    assert sorted(p.name for p in folder.iterdir()) == names[-2:]
    assert checkpoint.read(checkpoint.last(folder))[1] == {"n": 4}


def test_what_a_killed_process_left_is_not_taken_for_a_checkpoint_and_goes(place):
    folder = place.parent
    (folder / "step-00000009.writing").mkdir()
    (folder / "step-00000009.writing" / "model.safetensors.writing").write_bytes(b"half")
    (folder / "step-00000003").mkdir()  # an old one, half removed
    (folder / "step-00000005").mkdir()
    assert checkpoint.last(folder) == place
    checkpoint.tidy(folder)
    assert sorted(folder.iterdir()) == [folder / "step-00000005", place]


class Evil:
    def __reduce__(self):
        return print, ("code from a file was run",)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "foreign", "evil", "missing"])
def test_damaged_states_are_named_and_no_code_of_theirs_runs(place, damage, capsys):
    path = place / checkpoint.STATE
    (place / checkpoint.SUMS).unlink()  # as older versions wrote it; what the sum finds is tested below
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "garbage":
        path.write_bytes(bytes(range(256)) * 9)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        torch.save([1, 2], path)
    elif damage == "evil":
        path.write_bytes(pickle.dumps({"format": 1, "x": Evil()}, protocol=2))
    else:
        path.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=r"state\.pt( is damaged, or was not written by|$)"):
        checkpoint.read(place)
    assert capsys.readouterr().out == ""


def test_a_state_of_another_format_is_refused(place):
    torch.save({"format": 2}, place / checkpoint.STATE)
    (place / checkpoint.SUMS).unlink()
    with pytest.raises(ValueError, match=r"state\.pt has format 2, this version of regard reads format 1"):
        checkpoint.read(place)


def test_a_run_is_a_folder(tmp_path):
    run = Run.create(tmp_path / "deep" / "run", recipe='[train]\nsteps = 3\nnames = ["ä", "深度"]\n')
    assert Run.open(run.folder).recipe() == {"train": {"steps": 3, "names": ["ä", "深度"]}}
    assert run.task.is_dir() and run.last() is None and run.kept() == []
    run.note(ended="well")
    facts = run.facts()
    assert facts["format"] == 1 and facts["regard"] == regard.__version__ and facts["ended"] == "well"
    with pytest.raises(FileNotFoundError, match="has no trained weights yet"):
        run.weights()
    with pytest.raises(ValueError, match="unknown weights 'beast': did you mean 'best'"):
        run.weights("beast")


def test_only_the_first_process_creates(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    Run.create(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_folders_that_are_no_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing is not a run: there is no such folder"):
        Run.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"is not a run: there is no run\.json in it"):
        Run.open(tmp_path)
    Run.create(tmp_path / "run")
    with pytest.raises(FileExistsError, match="already holds a run; resume it, or choose another folder"):
        Run.create(tmp_path / "run")
    with pytest.raises(FileExistsError, match="is not empty and is not a run"):
        Run.create(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="file is a file"):
        Run.create(tmp_path / "file")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\xff"])
def test_a_damaged_run_is_named(tmp_path, content):
    run = Run.create(tmp_path / "run")
    (run.folder / "run.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"run\.json is damaged, or was not written by regard"):
        Run.open(run.folder)


def test_a_run_of_another_version_is_refused(tmp_path):
    run = Run.create(tmp_path / "run")
    (run.folder / "run.json").write_text(json.dumps({"format": 2, "regard": "7.0"}))
    with pytest.raises(ValueError, match=r"run has format 2, written by regard 7\.0; this is regard .* reads format 1"):
        Run.open(run.folder)


def test_a_damaged_recipe_is_named(tmp_path):
    run = Run.create(tmp_path / "run", recipe="[train\n")
    with pytest.raises(ValueError, match=r"recipe\.toml: "):
        run.recipe()
    (run.folder / "recipe.toml").unlink()
    with pytest.raises(FileNotFoundError, match=r"has lost its recipe\.toml"):
        run.recipe()


def test_average(tmp_path):
    models = [Toy(seed=seed) for seed in range(3)]
    for index, model in enumerate(models):
        model.calls += index
        write_weights(tmp_path / str(index), model.state_dict())
    mean = average([tmp_path / str(index) for index in range(3)])
    expected = np.mean([model.hidden.weight.detach().double().numpy() for model in models], axis=0)
    np.testing.assert_array_equal(mean["hidden.weight"].numpy(), expected.astype(np.float32))
    assert mean["calls"] == 2
    assert mean["output.weight"] is mean["embedding.weight"]
    assert same(average([tmp_path / "1"]), models[1])


def test_average_in_float64_does_not_count_tied_weights_twice(tmp_path):
    for index in range(2):
        write_weights(tmp_path / str(index), Toy(seed=index).double().state_dict())
    mean = average([tmp_path / "0", tmp_path / "1"])
    expected = (Toy(seed=0).embedding.weight.double() + Toy(seed=1).embedding.weight.double()) / 2
    torch.testing.assert_close(mean["embedding.weight"], expected.detach(), rtol=0, atol=1e-12)


def test_only_models_of_one_make_are_averaged(tmp_path):
    write_weights(tmp_path / "a", Toy().state_dict())
    write_weights(tmp_path / "b", Toy(width=4).state_dict())
    write_weights(tmp_path / "c", nn.Linear(1, 1).state_dict())
    with pytest.raises(ValueError, match=r"b and .*a are not of one make: embedding.weight is \(10, 4\) in the first"):
        average([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="bias is"):
        average([tmp_path / "a", tmp_path / "c"])
    with pytest.raises(ValueError, match="nothing to average"):
        average([])


def test_everything_random_is_kept_apart_and_put_back(tmp_path):
    import random

    def draw():
        return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(()).item()

    device = torch.device("cpu")
    rng.seed(3)
    draw()
    torch.save(rng.state(device), tmp_path / "rng")
    first = draw()
    with rng.apart(3, device):
        inside = draw()
        draw()
    second = draw()
    rng.restore(torch.load(tmp_path / "rng", weights_only=True), device)
    assert (draw(), draw()) == (first, second)
    rng.seed(3)
    assert draw() == inside


def test_a_pack_predicts_and_tells_nothing_else(tmp_path):
    run, model = Run.create(tmp_path / "run", "# A toy\n"), Toy()
    about = {"format": 1, "task": "toy", "config": {}, "data": "/home/me/secret"}
    (run.task / "task.json").write_text(json.dumps(about))
    (run.task / "tokenizer.json").write_text("{}")
    run.write_model("average", model.state_dict(), {"step": 7})
    run.write_model("best", Toy(seed=3).state_dict())
    checkpoint.write(run.checkpoints, 7, model.state_dict(), {})
    run.note(summary={"minutes": 3.0})
    pack = run.pack(tmp_path / "pack")
    files = {str(path.relative_to(pack.folder)) for path in pack.folder.rglob("*") if path.is_file()}
    assert files == {"run.json", "recipe.toml", "task/task.json", "task/tokenizer.json", "models/best.safetensors"}
    assert "secret" not in (pack.task / "task.json").read_text()
    assert pack.facts()["summary"] == {"minutes": 3.0} and pack.facts()["packed"] == "average"
    stored = safetensors.torch.load_file(pack.weights())
    assert len(stored) == len(model.state_dict()) - 1  # the tied one is still written once
    assert {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()} == {torch.float16}
    fresh = Toy(seed=1)
    load_weights(fresh, pack.weights())
    torch.testing.assert_close(fresh.hidden.weight, model.hidden.weight, rtol=1e-3, atol=1e-3)
    whole = run.pack(tmp_path / "whole", "average", half=False)
    assert same(read_weights(whole.weights())[0], model)
    with pytest.raises(FileExistsError, match="already holds a run"):
        run.pack(tmp_path / "pack")


@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.STATE])
def test_a_flipped_bit_is_noticed_wherever_it_is(place, name):
    path = place / name
    content = path.read_bytes()
    key = content.find(b"sha256") if name == checkpoint.WEIGHTS else -99
    for at in range(0, len(content), 7):
        if key - 2 <= at < key + 12:
            continue  # the name of the sum: then nothing that counts is damaged
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(checkpoint.Damaged, match="is damaged"):
            checkpoint.read(place)
    path.write_bytes(content)
    checkpoint.read(place)


def test_files_without_a_sum_are_read(place):
    """As older versions wrote them."""
    model = Toy()
    tensors = {name: x.clone() for name, x in model.state_dict().items()}
    header = {"regard": json.dumps({"format": 1, "aliases": {}, "step": 7})}
    safetensors.torch.save_file(tensors, place / checkpoint.WEIGHTS, metadata=header)
    (place / checkpoint.SUMS).unlink()
    weights, state = checkpoint.read(place)
    assert same(weights, model) and state["some"][0] == 1
    assert read_weights(place / checkpoint.WEIGHTS)[1] == {"step": 7}


def test_the_same_weights_make_the_same_file(tmp_path):
    for name in "ab":
        write_weights(tmp_path / name, Toy().state_dict(), {"step": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
