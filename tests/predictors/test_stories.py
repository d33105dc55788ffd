"""Stories from the folder of a run to answers, tables and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard
from regard import registry
from regard.predictors.predictor import Predictor
from regard.training import Run, read_weights

CHANGES = ["task.data=", "train_size=200", "test_size=40", "epochs=2", "tensorboard=false", "threads=1"]


def trained(folder: Path, name: str, *changes: str) -> Path:
    return regard.train(name, *CHANGES, *changes, out=folder).folder


@pytest.fixture(scope="module")
def memn2n(tmp_path_factory):
    return trained(
        tmp_path_factory.mktemp("runs") / "memn2n", "memn2n-babi", "tasks=1,2,16", "restarts=2", "linear_start=no"
    )


@pytest.fixture(scope="module")
def memnn(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "memnn", "memnn-babi", "tasks=1,2")


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("Mary moved to the garden.\nJohn went to the office.\nWhere is Mary?\nWhere is John?\n")
    return path


@pytest.mark.parametrize("kind", ["memn2n", "memnn"])
def test_evaluate_gives_the_table_of_tasks(kind, request):
    model = Predictor.open(request.getfixturevalue(kind))
    found = model.evaluate()
    tasks = [name for name in found if name.startswith("error, task ")]
    assert tasks == [f"error, task {name}" for name in model.task.names]
    assert found["error"] == pytest.approx(sum(found[name] for name in tasks) / len(tasks))
    assert found["tasks_solved"] == sum(found[name] <= 5 for name in tasks) and 0 <= found["support"] <= 100
    few = model.evaluate(limit=10)
    assert all(few[name] % 10 == 0 for name in tasks)


def test_errors_are_counted_as_one_counts_them(memn2n):
    model = Predictor.open(memn2n)
    questions = model.task.questions("test")["16"]
    answers = model.replies(questions, task="16")
    wrong = sum(answer.text != one.answer for answer, one in zip(answers, questions))
    assert model.evaluate()["error, task 16"] == pytest.approx(100 * wrong / len(questions))


@pytest.mark.parametrize("kind", ["memn2n", "memnn"])
def test_answers_to_a_typed_story(kind, request, story):
    model = Predictor.open(request.getfixturevalue(kind))
    assert len(list(model.answer(story))) == 2
    first, second = (json.loads(line) for line in model.answer(story, as_json=True))
    assert first["task"] == "1" and first["story"] == ["Mary moved to the garden.", "John went to the office."]
    assert len(first["weights"][0]) == 2 and second["question"] == "Where is John?"
    answer = model.predict("Mary moved to the garden. John went to the office.", "Where is Mary?")
    assert answer.text == first["answer"]
    assert model.predict(["Mary moved to the garden."], "Where is Mary?", task="2").task == "2"


def test_the_task_whose_words_fit_is_asked(memn2n):
    model = Predictor.open(memn2n)
    assert model.predict("Greg is a frog. Lily is a frog. Lily is green.", "What color is Greg?").task == "16"
    assert model.predict("Mary got the milk there. Mary went to the garden.", "Where is the milk?").task == "2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Mary moved to the gardn.\nWhere is Mary?", r"story.txt, line 1: the word 'gardn' .*did you mean 'garden'"),
        ("Mary moved to the garden.\nWhere is Bob?", r"story.txt, line 2: the word 'bob'"),
        ("Mary moved to the garden.\nWhere is Mary", r"line 2: .*end it with '\?'"),
        ("Mary moved to the garden.", r"line 1: a story without a question"),
        ("", "there is nothing in it"),
    ],
)
def test_what_cannot_be_answered_says_where(memn2n, tmp_path, text, message):
    path = tmp_path / "story.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        list(Predictor.open(memn2n).answer(path))


def test_show(memn2n, story, tmp_path):
    model = Predictor.open(memn2n)
    (table,) = model.show(["3"], None, task="16")
    assert "support" in table and "hop 3" in table and "What color is" in table
    assert len(list(model.show([str(story)], None))) == 3  # two tables and a line between them
    lines = list(model.show(["1", "2"], tmp_path / "hops.png"))
    assert (tmp_path / "hops-1.png").stat().st_size > 5000 and str(tmp_path / "hops-2.png") in lines
    assert list(model.show([], tmp_path / "hops.html"))[-1] == str(tmp_path / "hops.html")
    for what, message in ((["41"], "numbers 1 to 40"), (["story.text"], "neither a file")):
        with pytest.raises(ValueError, match=message):
            list(model.show(what, None))
    with pytest.raises(ValueError, match="no task here is called '3'"):
        list(model.show([], None, task="3"))


def test_weights_belong_to_their_sentences(memn2n):
    """Of a long story the memory holds the end, and the last sentence is the last column."""
    model = Predictor.open(memn2n)
    limit = model.task.memory[0]
    told = [f"{who} went to the {where}." for who in ("Mary", "John") for where in ("garden", "office")] * 10
    answer = model.predict(told, "Where is Mary?", task="1")
    assert answer.story == tuple(told[-limit:]) and answer.weights.shape == (3, limit)
    home = model._models(0)
    (batch,) = model.task.batches([next(iter(_asked(told)))], 0)
    newest_first = home.predict(batch)["weights"][0, 0]
    assert torch.allclose(answer.weights, newest_first.flip(-1))


def _asked(told):
    from regard.data.stories import read_typed

    return read_typed([*told, "Where is Mary?"], "story")


def test_a_training_that_was_stopped_goes_on_the_same(tmp_path):
    """Linear start, the count of errors and the order of batches are state."""
    changes = ["tasks=1,16", "restarts=2", "linear_patience=1", "epochs=4"]
    whole = trained(tmp_path / "whole", "memn2n-babi", *changes)
    parts = trained(tmp_path / "parts", "memn2n-babi", *changes, "steps=10")
    regard.train("memn2n-babi", "steps=none", out=parts, resume=True)
    one, other = (read_weights(Run.open(folder).weights("last"))[0] for folder in (whole, parts))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_joint_training_answers_all_tasks(tmp_path):
    folder = trained(tmp_path / "joint", "memn2n-babi", "tasks=1,16", "joint=true", "variant=joint", "restarts=1")
    model = Predictor.open(folder)
    assert len(model.task.vocabularies) == 1 and model.model.config.dim == 50
    assert {"error, task 1", "error, task 16"} < set(model.evaluate())


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "tasks", "limit"), [("memn2n-babi", "1,16", 2.0), ("memnn-babi", "1,2", 2.0)])
def test_it_learns_generated_tasks(tmp_path, recipe, tasks, limit):
    sizes = ["train_size=1000", "test_size=500", f"epochs={registry.recipe(recipe).build('train').epochs}"]
    folder = trained(tmp_path / "run", recipe, f"tasks={tasks}", *sizes)
    found = Predictor.open(folder).evaluate()
    assert found["error"] <= limit, found
