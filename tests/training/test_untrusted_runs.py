"""Runs from strangers: what is refused before it costs anything, and that it is said by name."""

import io
import json
import os
import re
import shutil
import time

import pytest
import safetensors.torch
import torch
from rich.console import Console

import regard
from regard import registry
from regard.training import Run, read_weights, untrusted, write_weights

RECIPE = registry.recipe("translate-toy-transformer").tiny()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.train(RECIPE, out=tmp_path_factory.mktemp("runs") / "run", console=Console(file=io.StringIO())).folder


@pytest.fixture
def run(trained, tmp_path):
    return Run(shutil.copytree(trained, tmp_path / "run"))


def change(run, *changes):
    recipe = registry.Recipe.read(run.folder / "recipe.toml").change(changes)
    (run.folder / "recipe.toml").write_text(recipe.toml())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("system.dim=40000", "dim = 40000 is unusually large"),
        ("system.dim=8000", "much larger than .*safetensors"),
        ("system.hidden=9000", "do not fit"),  # 200,000 numbers more than there are, which is not much
        ("system.encoder_layers=1000000", "encoder_layers = 1000000 is unusually large"),
        ("system.encoder_layers=10000", "much larger than .*safetensors"),
        ("decode.size=1000000000", "size = 1000000000 is unusually large"),
        ("decode.ratio=1e300", "ratio = 1e.300 is unusually large"),
        ("task.train_size=1000000000000", "train_size = 1000000000000 is unusually large"),
    ],
)
def test_sizes_are_compared_with_the_weights_before_memory_is_taken(run, setting, words):
    change(run, setting)
    before = time.monotonic()
    with pytest.raises(ValueError, match=words):
        regard.load(run)
    assert time.monotonic() - before < 20


def test_settings_of_the_task_are_checked_too(run):
    path = run.task / "task.json"
    about = json.loads(path.read_text())
    about["config"]["valid_size"] = 10**12
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"task\.json: valid_size = 1000000000000"):
        regard.load(run)


def test_trust_lifts_the_limits(run):
    change(run, "decode.size=2000", "decode.method=greedy")
    with pytest.raises(ValueError, match="--trust"):
        regard.load(run)
    assert regard.load(run, trust=True).recipe.build("decode").size == 2000


def test_a_budget_counts_what_is_made(tmp_path):
    write_weights(tmp_path / "w", {"x": torch.zeros(1000)})
    makers = [
        lambda n: torch.empty(n, n),
        lambda n: torch.zeros((n, n)),
        lambda n: torch.full(size=(n, n), fill_value=1.0),
        lambda n: torch.randint(0, 5, (n, n)),
        lambda n: torch.eye(n),
        lambda n: torch.zeros(3).new_ones(n, n),
        lambda n: torch.arange(n * n),
        lambda n: torch.nn.Linear(n, n),
        lambda n: torch.nn.Embedding(n, n),
        lambda n: torch.nn.LSTM(n, n),
    ]
    for maker in makers:
        with untrusted.Budget(tmp_path / "w"):
            maker(100)
        with untrusted.Budget(tmp_path / "w"), pytest.raises(ValueError, match="much larger"):
            maker(1_000_000)
        with untrusted.Budget(tmp_path / "w"), torch.device("meta"):
            maker(1_000)  # takes no memory


def test_every_recipe_stays_within_its_budget(tmp_path):
    """The weights of each, as written by the training, are enough."""
    from regard import runs

    for name in registry.shipped():
        opened = runs.open_run(name)
        with untrusted.Budget(opened.run.weights()):
            runs.assemble(opened.recipe, task=opened.task)


WRONG = {
    "whole numbers": (lambda x: x.to(torch.int32), "is of type int32, in the model float32"),
    "another shape": (lambda x: x.flatten(), r"is \(\d+,\), in the model \(\d+, \d+\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_tensors_of_another_shape_or_type_are_named(run, case):
    spoil, words = WRONG[case]
    path = run.weights()
    tensors = safetensors.torch.load_file(path)
    name = next(name for name, tensor in tensors.items() if tensor.ndim == 2)
    write_weights(path, tensors | {name: spoil(tensors[name])})
    with pytest.raises(ValueError, match=f"best.safetensors do not fit this Transformer: .*{re.escape(name)} {words}"):
        regard.load(run)


def test_missing_and_further_tensors_are_named(run):
    path = run.weights()
    tensors, _ = read_weights(path)
    gone = next(iter(tensors))
    write_weights(path, {name: x for name, x in tensors.items() if name != gone} | {"more": torch.zeros(1)})
    with pytest.raises(ValueError, match=f"{re.escape(gone)} is missing; more is not in the model"):
        regard.load(run)


@pytest.mark.parametrize(
    "about", ["[]", "3", "[" * 5000, '{"aliases": 3}', '{"aliases": {"a": "nothing"}}', '{"aliases": {"a": []}}', "{"]
)
def test_what_a_file_says_of_itself_is_checked(tmp_path, about):
    safetensors.torch.save_file({"x": torch.zeros(2)}, tmp_path / "w", metadata={"regard": about})
    with pytest.raises(ValueError, match="w is damaged"):
        read_weights(tmp_path / "w")


@pytest.mark.parametrize(
    "facts",
    [
        *({"created": 3}, {"summary": []}, {"history": {}}, {"history": [3]}, {"alignment": [0, 1]}, {"packed": {}}),
        *({"alignment": {"layer": "x", "head": 0}}, {"alignment": {"layer": 0, "head": [1]}}),
    ],
)
def test_the_types_of_what_run_json_says_are_checked(run, facts):
    run_json = run.folder / "run.json"
    run_json.write_text(json.dumps(json.loads(run_json.read_text()) | facts))
    with pytest.raises(ValueError, match=r"created|summary|history|alignment|packed"):
        regard.load(run.folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["recipe.toml", "task/task.json", "models/best.safetensors", "task/more", "run.json"])
def test_pipes_are_not_waited_for(run, name):
    path = run.folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises((ValueError, FileNotFoundError), match=r"pipe|is not a run"):
        regard.load(run.folder)


def test_links_that_lead_out_of_a_run_are_refused(run, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (run.task / "notes.txt").symlink_to(secret)
    with pytest.raises(ValueError, match=r"notes\.txt is a link that leads out of the run"):
        regard.load(run.folder)
    with pytest.raises(ValueError, match="leads out of the run"):
        Run.open(run.folder, trust=False).pack(tmp_path / "pack")
    assert not (tmp_path / "pack").exists()
    regard.load(run.folder, trust=True)


def test_links_within_a_run_and_to_a_run_are_taken(run, tmp_path):
    (run.task / "again.json").symlink_to("task.json")
    (tmp_path / "link").symlink_to(run.folder)
    regard.load(tmp_path / "link")


def test_files_that_describe_nothing_that_can_be_built(run):
    about = json.loads((run.task / "task.json").read_text())
    spoilt = {key: None for key in about if key not in ("format", "task", "config", "data")}
    (run.task / "task.json").write_text(json.dumps(about | spoilt))
    for path in run.task.glob("*.json"):
        if path.name != "task.json":
            path.write_text('{"pieces": 3}')
    with pytest.raises(ValueError, match=re.escape(str(run.folder))):
        regard.load(run.folder)
