"""Which head says where a word came from: found on data, kept in the run, used by all that asks for alignments."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import registry
from regard.commands import afterwards
from regard.predictors._heads import _same
from regard.predictors.predictor import Predictor
from regard.predictors.text import Text
from regard.training import Run

SMALL = ["dim=16", "heads=2", "system.hidden=16", "names=30", "train_size=10", "valid_size=60", "test_size=20"]


@pytest.fixture
def recipe():
    return registry.recipe("translate-toy-transformer").change(SMALL)


@pytest.fixture
def model(recipe):
    torch.manual_seed(0)
    task = registry.task("toy_grammar")(recipe.build("task"))
    return Text(registry.system("transformer")(recipe.build("system", **task.sizes)), task, recipe, "toy")


@pytest.fixture
def run(model, recipe, tmp_path):
    made = Run.create(tmp_path / "run", recipe.toml())
    model.task.save(made.task)
    made.write_model("best", model.model.state_dict())
    return made


def gold(model, split):
    """As looks: layer 1, head 0 (from 0) follows the right alignment, all others look at the first word."""
    for row, example in enumerate(model.task.examples(split)):
        weights = np.zeros((2, 2, len(example.target.split()), len(example.source.split())))
        weights[..., 0] = 0.5
        for s, t in example.alignment:
            weights[1, 0, t, s] = 0.6
        yield row, torch.from_numpy(weights)


@pytest.mark.parametrize("by", ["gold", "copied"])
def test_the_head_that_follows_the_words_is_found(model, monkeypatch, by):
    monkeypatch.setattr(model, "looks", lambda *_: gold(model, "valid"))
    chosen = model.choose_head(by=by)
    assert (chosen["layer"], chosen["head"], chosen["by"]) == (1, 0, by)
    assert (model.model.config.alignment_layer, model.model.config.alignment_head) == (1, 0)
    assert chosen["right"] > 0.9 > 0.5 > chosen["heads"]["1.1"]


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 0), (0, -1)])
def test_looks_are_what_a_step_with_that_head_gives(model, layer, head):
    """Row t is where the model looks when it writes word t, not one before or after."""
    pairs = model.task.pairs("test")
    ids = model.task.target.encode(pairs.target[3])
    ((_, weights),) = model.looks(pairs.source[3:4], pairs.target[3:4])
    wanted = weights[layer].mean(0) if head < 0 else weights[layer, head]
    assert wanted.shape == (len(ids), len(pairs.source[3].split()))
    model.model.config = replace(model.model.config, alignment_layer=layer, alignment_head=head)
    ((_, batch),) = model.task.batches(pairs.source[3:4])
    with torch.no_grad():
        state = model.model.start(batch)
        for token, row in zip([1, *ids], wanted):
            _, state = model.model.step(torch.tensor([token]), state)
            assert torch.allclose(model.model.alignment(state)[0, :-1], row, atol=1e-5)


def test_the_choice_is_kept_in_the_run_and_in_its_copy(run, tmp_path, capsys):
    before = Predictor.open(run.folder).model.config
    assert (before.alignment_layer, before.alignment_head) == (-1, -1)
    afterwards.align_command(run.folder, split="valid", data=None)
    told = capsys.readouterr().out
    chosen = run.facts()["alignment"]
    assert chosen["by"] == "gold" and told.count("kept") == 1 and len(chosen["heads"]) == 6
    run.pack(tmp_path / "copy")
    for folder in (run.folder, tmp_path / "copy"):
        config = Predictor.open(folder).model.config
        assert (config.alignment_layer, config.alignment_head) == (chosen["layer"], chosen["head"])


def test_evaluate_tells_the_error_of_each_head(run):
    found = Predictor.open(run.folder).evaluate("test")
    assert {name for name in found if name.startswith("aer@")} == {
        "aer@1.1", "aer@1.2", "aer@1.mean", "aer@2.1", "aer@2.2", "aer@2.mean",
    }  # fmt: skip


def test_one_attention_leaves_nothing_to_choose():
    model = Predictor.open("translate-en-es-rnn")
    with pytest.raises(ValueError, match="nothing to choose"):
        model.choose_head()
    ((_, weights),) = model.looks(["I love coffee."], ["Me encanta el café."])
    assert weights.shape[:2] == (1, 1) and (weights.sum(-1) <= 1 + 1e-5).all() and (weights.sum(-1) > 0).all()


def test_copied_words_are_names_and_numbers():
    source = ["Tom", "has", "2", "a", ".", "in", "in", "Boston"]
    target = ["in", "Boston", "hat", "Tom", "2", "a", "."]
    assert _same(source, target) == [(0, 3), (2, 4), (7, 1)]


def test_systems_that_read_other_words_cannot_vote_together(run, recipe, tmp_path):
    other = registry.task("number_words")(registry.recipe("translate-numbers").build("task"))
    twin = Run.create(tmp_path / "twin", recipe.toml())
    Predictor.open(run.folder).task.save(twin.task)
    other.source.save(twin.task / "source.json")
    sizes = {"source_vocab": len(other.source), "target_vocab": Predictor.open(run.folder).task.sizes["target_vocab"]}
    twin.write_model("best", registry.system("transformer")(recipe.build("system", **sizes)).state_dict())
    with pytest.raises(ValueError, match="different source vocabularies"):
        Predictor.open(run.folder, twin.folder)
