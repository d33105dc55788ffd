"""What every task must do, whatever it reads. Each is made as the [tiny] section of a recipe says."""

import json
from functools import cache

import pytest
import torch

from regard import registry, runs
from regard._lazy import names

TASKS = names("regard.tasks")


@cache
def tiny(name: str) -> registry.Recipe | None:
    """The first recipe that uses a task."""
    found = (registry.recipe(recipe).tiny() for recipe in registry.recipes())
    return next((recipe for recipe in found if recipe.sections["task"]["name"] == name), None)


@cache
def make(name: str):
    recipe = tiny(name)
    return registry.task(name)(recipe.build("task"))


def numbers(batch):
    """A batch as tensors alone."""
    return {key: getattr(value, "index", value) for key, value in batch.items()}


def same(one, other) -> bool:
    one, other = numbers(one), numbers(other)
    return one.keys() == other.keys() and all(
        torch.equal(one[key].to_dense(), other[key].to_dense()) for key in one if isinstance(one[key], torch.Tensor)
    )


@pytest.mark.parametrize("name", TASKS)
def test_a_recipe_uses_it(name):
    assert tiny(name) is not None, f"no recipe in regard/recipes has the task {name}, in itself or in [tiny]"


@pytest.mark.parametrize("name", registry.recipes())
def test_a_loader_goes_on_after_any_batch(name):
    recipe = registry.recipe(name).tiny()
    task = registry.task(recipe.sections["task"]["name"])(recipe.build("task"))
    whole = list(task.loader("train", seed=3))
    running, second = task.loader("train", seed=3), task.loader("train", seed=3)
    assert len(whole) == len(running)
    states = [running.state_dict(), *(running.state_dict() for _ in running)]
    for done, state in enumerate(states):
        other = task.loader("train", seed=3)
        other.load_state_dict(json.loads(json.dumps(state)))
        rest = list(other)
        assert len(rest) == len(whole) - done
        assert all(map(same, rest, whole[done:]))
        if done == 1:
            next(iter(other))
            assert other.epoch == 1
    list(second)
    assert all(map(same, list(running), list(second))), "the second epoch depends on how the first was read"


@pytest.mark.parametrize("name", TASKS)
class TestTask:
    def test_validation_and_test_are_the_same_every_time(self, name):
        task = make(name)
        for split in ("valid", "test"):
            loader = task.loader(split)
            first, again = list(loader), list(loader)
            assert first and all(map(same, first, again))

    def test_saved_and_loaded_it_gives_the_same_batches(self, name, tmp_path):
        task = make(name)
        task.save(tmp_path)
        other = registry.task(name).load(tmp_path)
        assert other.config == task.config and other.sizes == task.sizes
        assert same(next(iter(other.loader("train", seed=5))), next(iter(task.loader("train", seed=5))))
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]

    def test_another_seed_is_not_gone_on_with(self, name):
        task = make(name)
        with pytest.raises(ValueError, match="cannot go on where it stopped: seed was"):
            task.loader("train", seed=2).load_state_dict(task.loader("train", seed=1).state_dict())

    def test_an_unknown_split_names_the_nearest(self, name):
        with pytest.raises(ValueError, match="did you mean 'train'"):
            make(name).loader("trian")

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda about: about["config"].update(sedd=1), "no setting 'sedd'"),
            (lambda about: about["config"].update({next(iter(about["config"])): [[]]}), r"is .*, not \[\[\]\]"),
            (lambda about: about.update(format=9), "format 9"),
            (lambda about: about.update(task="other"), "the task 'other'"),
            (lambda about: about.pop("config"), "not the description of a task"),
            (lambda about: about.update(config=3), "not the description of a task"),
            (lambda about: about.update(data=["x"]), "not the description of a task"),
        ],
    )
    def test_a_damaged_description_is_named(self, name, tmp_path, damage, message):
        make(name).save(tmp_path)
        path = tmp_path / "task.json"
        about = json.loads(path.read_text())
        damage(about)
        path.write_text(json.dumps(about))
        with pytest.raises(ValueError, match=message) as error:
            registry.task(name).load(tmp_path)
        assert str(path) in str(error.value)

    @pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "[" * 100_000])
    def test_what_is_no_description_is_named(self, name, tmp_path, text):
        (tmp_path / "task.json").write_text(text)
        with pytest.raises(ValueError, match=r"task\.json: not the description of a task"):
            registry.task(name).load(tmp_path)

    def test_data_that_is_not_there_is_named(self, name, tmp_path):
        recipe = tiny(name)
        expected = "no data at|there is no|generates its own data"
        with pytest.raises(ValueError, match=expected) as error:
            runs.assemble(recipe, tmp_path / "nowhere")
        assert "nowhere" in str(error.value)
