"""Training and opening runs from Python: what may change on the way, and what a killed beginning leaves."""

import io
import json

import pytest
import torch
from rich.console import Console

import regard
from regard import registry, runs
from regard.registry import Recipe
from regard.training import Run, read_weights

TINY = registry.recipe("translate-toy").tiny()


@pytest.fixture
def train():
    console = Console(file=io.StringIO())
    return lambda *args, **options: regard.train(*args, console=console, **options)


def test_a_recipe_is_trained_and_loaded(train, tmp_path):
    said = []
    run = train(TINY, "lr=0.002", out=tmp_path / "run", say=said.append)
    assert run.summary.steps == 4 and run.summary.ended == "steps"
    assert Recipe.read(run.folder / "recipe.toml").build("train").lr == 0.002
    assert said[0].startswith("translate-toy: RNNsearch with") and "60 pairs" in said[1]
    for where in (run, run.folder, str(run.folder)):
        ((best,),) = regard.load(where).predict(["the cat sleeps"])
        assert isinstance(best.text, str)


def test_a_loaded_model_says_what_it_is():
    model = regard.load("memn2n-babi")
    size = sum(parameter.numel() for parameter in model.model.parameters())
    assert repr(model) == f"Stories('memn2n-babi': memn2n on babi, {size:,} parameters, cpu)"


def test_a_name_that_is_neither_a_run_nor_a_model_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'translate-en-es'"):
        regard.load("translate-en-se")


def test_a_folder_with_a_run_is_not_trained_over(train, tmp_path):
    train(TINY, out=tmp_path)
    with pytest.raises(FileExistsError, match="already holds a run"):
        train(TINY, out=tmp_path)


class TestGoingOn:
    @pytest.fixture
    def run(self, train, tmp_path):
        return train(TINY, "train.schedule=constant", out=tmp_path / "run")

    def test_what_may_change_is_written_down(self, train, run):
        train("translate-toy", "steps=6", "decode.size=3", out=run.folder, resume=True)
        recipe = Recipe.read(run.folder / "recipe.toml")
        assert recipe.build("train").steps == 6 and recipe.build("decode").size == 3
        (change,) = run.facts()["history"]
        assert change["changed"] == {"train.steps": 6, "decode.size": 3}
        assert change["step"] == 4 and change["at"]
        assert train("translate-toy", out=run.folder, resume=True).summary.steps == 6

    def test_what_is_as_it_was_is_no_change(self, train, run):
        train("translate-toy", "steps=4", out=run.folder, resume=True)
        assert "history" not in run.facts()

    @pytest.mark.parametrize(
        "change", ["system.hidden=16", "task.batch_tokens=256", "lr=0.5", "optimizer=sgd", "schedule=cosine", "seed=1"]
    )
    def test_what_may_not_change_is_named_and_nothing_is_touched(self, train, run, change):
        before = (run.folder / "recipe.toml").read_bytes()
        with pytest.raises(ValueError, match=f"goes on with the {TINY.parsed([change])[0][0]}.*--force"):
            train("translate-toy", change, out=run.folder, resume=True)
        assert (run.folder / "recipe.toml").read_bytes() == before

    def test_force_changes_the_rate(self, train, run):
        train("translate-toy", "lr=0.5", "steps=5", out=run.folder, resume=True, force=True)
        assert Recipe.read(run.folder / "recipe.toml").build("train").lr == 0.5
        assert run.facts()["history"][0]["changed"] == {"train.lr": 0.5, "train.steps": 5}


def test_none_is_written_and_read(train, tmp_path):
    recipe = TINY.change(["clip=none", "minutes=none"])
    assert recipe.build("train").clip is None and "None" not in recipe.toml()
    run = train(recipe, out=tmp_path / "run")
    assert train("translate-toy", "steps=5", "minutes=none", out=run.folder, resume=True).summary.steps == 5


def test_none_of_older_versions_is_read(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(TINY.toml().replace("clip = 1.0", 'clip = "None"'))
    assert Recipe.read(path).build("train").clip is None


@pytest.mark.parametrize("point", range(5))
def test_a_run_that_was_killed_while_it_began_can_begin_again(train, tmp_path, point):
    """Whatever files of a beginning are there without run.json, the folder is free."""
    run = train(TINY, out=tmp_path / "whole")
    parts = [("recipe.toml",), ("task", "source.json"), ("task", "target.json"), ("task", "task.json")]
    folder = tmp_path / "cut"
    for part in parts[:point]:
        place = folder.joinpath(*part)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(run.folder.joinpath(*part).read_bytes())
    folder.mkdir(exist_ok=True)
    (folder / ".recipe.toml.1a2b").write_text("half")
    assert train(TINY, out=folder).summary.steps == 4


def test_run_json_comes_last(tmp_path):
    seen = []
    Run.create(tmp_path / "run", TINY.toml(), lambda task: seen.append(sorted(p.name for p in tmp_path.rglob("*"))))
    assert seen == [["checkpoints", "models", "recipe.toml", "run", "task"]]


def test_somebody_elses_folder_is_left_alone(train, tmp_path):
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(FileExistsError, match="not empty and is not a run"):
        train(TINY, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_assembling_is_seeded_only_if_asked():
    torch.manual_seed(7)
    first = torch.rand(1)
    one, other = (runs.assemble(TINY, seed=3).model.state_dict() for _ in range(2))
    assert all(torch.equal(one[key], other[key]) for key in one)
    torch.manual_seed(7)
    task = runs.assemble(TINY).task
    assert task.sizes and first != torch.rand(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system.hidden = 8.5", r"hidden is a whole number, not 8\.5"),
        ("sytem.hidden = 8", "system"),
        ("task.sizee = 8", r"no key 'sizee'"),
    ],
)
def test_a_wrong_tiny_section_is_named(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(TINY.toml() + f"\n[tiny]\n{text}\n")
    with pytest.raises(ValueError, match=message) as error:
        registry.recipe(str(path))
    assert "mine.toml" in str(error.value)


@pytest.mark.parametrize(
    ("typed", "meant"), [("learning_rate=1", "lr"), ("batch_size=2", "batch_tokens"), ("max_epochs=3", "epochs")]
)
def test_names_of_other_toolkits_are_understood(typed, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        TINY.change([typed])


@pytest.mark.parametrize(
    ("recipe", "typed", "section"),
    [
        ("gpt-shakespeare", "vocab=300", "task"),  # the system's own is told by the task
        ("bert-text", "hidden=32", "system"),  # the recipe chooses this one, and not the share that is hidden
        ("dialog-babi", "tasks=1", "task"),
    ],
)
def test_a_key_of_two_sections_is_that_which_is_meant(recipe, typed, section):
    key, _, value = typed.partition("=")
    changed = registry.recipe(recipe).change([typed]).sections
    assert str(changed[section][key]) == value
    with pytest.raises(ValueError, match=r"could be system\.longest or task\.longest: write which"):
        registry.recipe("coqa-made").change(["longest=9"])


def test_json_of_history_is_plain(train, tmp_path):
    run = train(TINY, out=tmp_path / "run")
    train("translate-toy", "steps=5", out=run.folder, resume=True)
    assert json.loads((run.folder / "run.json").read_text())["history"]


def test_a_run_starts_from_the_weights_of_another_where_they_fit(train, tmp_path):
    said = []
    first = train(TINY, out=tmp_path / "first")
    changes = (f"init={first.folder}", "system.maxout=6", "steps=1", "lr=1e-9")
    second = train(TINY, *changes, out=tmp_path / "second", say=said.append)
    before, after = (read_weights(run.weights("last"))[0] for run in (first, second))
    assert before.keys() == after.keys()
    alike = [name for name in before if before[name].shape == after[name].shape]
    assert 0 < len(alike) < len(before)
    for name in alike:
        torch.testing.assert_close(before[name], after[name], atol=1e-6, rtol=0)
    (line,) = [line for line in said if line.startswith("starts from")]
    assert f"{len(alike)} of {len(before)} tensors" in line and "new: " in line and "unused: " in line
    with pytest.raises(ValueError, match="none of its"):
        train(registry.recipe("memnn-babi").tiny(), f"init={first.folder}", out=tmp_path / "third")
