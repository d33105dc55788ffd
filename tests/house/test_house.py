"""What a new kind of system costs: a task, a system and a recipe outside the package, and nothing else."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import forked
import regard
from contracts.test_every_recipe import check_answers, train_kill_and_resume
from regard import registry
from regard.serve.card import Card

HERE = Path(__file__).parent


@pytest.fixture(params=["stub_captions", "stub_language"])
def stub(request, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    importlib.import_module(request.param)
    yield request.param
    sys.modules.pop(request.param)


def test_it_is_trained_killed_resumed_measured_asked_drawn_and_served(stub, tmp_path, monkeypatch):
    recipe = registry.recipe(str(HERE / f"{stub}.toml"))
    run = train_kill_and_resume(recipe, tmp_path, monkeypatch)
    model = regard.load(run)
    assert model.evaluate("test", limit=2)
    check_answers(model, tmp_path)


def test_its_options_and_its_form_follow_from_its_question(stub, tmp_path, monkeypatch):
    run = regard.train(registry.recipe(str(HERE / f"{stub}.toml")).tiny(), out=tmp_path / "run")
    card = Card(regard.load(run))
    schema = card.Question.model_json_schema()
    first = next(iter(schema["properties"]))
    assert first == {"stub_captions": "image", "stub_language": "prompt"}[stub]
    assert "nbest" in schema["properties"]

    def typed(*words, stdin=""):
        done = forked.run(*words, stdin=stdin, cwd=tmp_path, REGARD_IMPORT=stub)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "nbest=1" in typed("predict", run.folder, "--help")
    if stub == "stub_language":
        answers = typed("predict", run.folder, stdin="ab\nc\n").splitlines()
        assert len(answers) == 2 and answers[0].startswith("ab") and answers[1].startswith("c")
        found = json.loads(typed("predict", run.folder, "--json", "nbest=2", stdin="ab\n"))
        assert found["prompt"] == "ab" and len(found["answers"]) == 2
    else:
        shown = typed("show", run.folder, "3", "--out", "stripes.html")
        assert shown.startswith("3: ") and (tmp_path / "stripes.html").stat().st_size > 1000
