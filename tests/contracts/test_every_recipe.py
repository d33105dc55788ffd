"""What every recipe must do: its [tiny] section is trained, killed, taken up, measured, asked, drawn and served."""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard import registry, runs
from regard.predictors.predictor import Answer
from regard.serve.card import Card
from regard.training import read_weights
from regard.views.page import encode
from regard.views.picture import write

RECIPES = list(registry.recipes())


class Killed(BaseException):
    """As sudden as a signal."""


def weights(run):
    return read_weights(run.weights("last"))[0]


def train_kill_and_resume(recipe, folder, monkeypatch):
    """The run of a recipe's [tiny] that was killed and taken up, after the same weights as without."""
    quiet = Console(file=io.StringIO())
    recipe = recipe.tiny().change(["checkpoint_minutes=0"])
    straight = regard.train(recipe, out=folder / "straight", console=quiet)
    assert straight.summary.steps == 4

    system = registry.system(recipe.sections["system"]["name"])
    forward, calls = system.forward, []

    def dying(self, batch):
        calls.append(self.training)
        if sum(calls) == 3:
            raise Killed
        return forward(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(system, "forward", dying)
        with pytest.raises(Killed):
            regard.train(recipe, out=folder / "killed", console=quiet)
    run = regard.train(recipe.name, out=folder / "killed", resume=True, console=quiet)
    assert run.summary.steps == 4
    one, other = weights(straight), weights(run)
    assert one.keys() == other.keys()
    for key in one:
        assert torch.equal(one[key], other[key]), key
    return run


@pytest.mark.parametrize("name", RECIPES)
def test_trained_killed_taken_up_and_measured(name, tmp_path, monkeypatch):
    model = regard.load(train_kill_and_resume(registry.recipe(name), tmp_path, monkeypatch))
    found = model.evaluate("test", limit=2)
    assert found and all(isinstance(value, float) for value in found.values())
    check_answers(model, tmp_path)


def check_answers(model, folder):
    """Ask it its own example: the answer's text, its pictures in every form, and the same over HTTP."""
    asked = list(model.examples())[:1]
    assert asked, "a predictor has an example to start from"
    (answer,) = model.ask(asked)
    assert isinstance(answer, Answer), answer
    assert isinstance(answer.text, str) and all(isinstance(note, str) for note in answer.notes)
    for number, picture in enumerate(answer.pictures):
        assert picture.terminal()
        for suffix in [".html", *([".png"] if picture.figure else [".gif"])]:
            (path,) = write(folder / f"{number}{suffix}", [picture])
            assert Path(path).stat().st_size > 1000
    card = Card(model)
    about = card.about()
    assert about.title and about.sentence and about.examples
    (reply,) = card.answer([card.Question(**about.examples[0])])
    assert reply.text == answer.text
    sent = json.loads(reply.model_dump_json())["pictures"]
    assert close(sent, [encode(picture.view()) for picture in answer.pictures if picture.view])
    if model.model.uses:
        assert answer.pictures, "a system that attends shows where"


def close(one, other):
    """The same but for rounding: how a matrix product rounds depends on where its operands lie in memory."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        return one == pytest.approx(other, rel=1e-4, abs=1e-6)
    return one == other


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_what_it_says(name):
    recipe = registry.recipe(name)
    assert recipe.about and recipe.tiny()
    for section in ("task", "train", "decode"):
        recipe.build(section)
    made = runs.assemble(recipe.tiny())
    assert type(made.model) is registry.system(recipe.sections["system"]["name"])
    recipe.build("system", **made.task.sizes)
