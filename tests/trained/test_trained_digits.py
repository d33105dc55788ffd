"""Runs on pictures and games that answer and show where they looked; weights as they are at first."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
from regard import registry
from regard.systems import cnn, ram, ram_agent
from regard.tasks.catch import Catch
from regard.tasks.catch import Config as CatchConfig
from regard.tasks.digits import Config, Digits
from regard.trained.digits import PICTURES
from regard.trained.digits import Digits as Trained
from regard.trained.games import Games


@pytest.fixture(scope="module")
def task():
    return Digits(Config(drawn=100, batch=4))


@pytest.fixture(scope="module")
def trained(task):
    torch.manual_seed(0)
    model = ram.RAM(ram.Config(**task.sizes, glimpses=3, scales=2, hidden=16))
    return Trained(model, task, registry.recipe("ram-mnist"), "a-run")


def test_evaluate(trained):
    found = trained.evaluate()
    assert found.keys() == {"nll", "error"} and 50 < found["error"] <= 100
    assert trained.evaluate(limit=1) != found


def test_predict_by_number_and_by_file(trained, task, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = task.pictures["test"].image[2, 0]
    image.fromarray(pixels).save(tmp_path / "two.png")
    by_number, by_file = trained.predict([2, tmp_path / "two.png"])
    assert torch.allclose(by_number.probabilities, by_file.probabilities, atol=1e-6)
    assert by_number.truth == str(task.pictures["test"].label[2]) and by_file.truth is None
    assert trained.predict([]) == []
    with pytest.raises(ValueError, match="no picture 10 in test: they are 0 to 9"):
        trained.predict([10])
    with pytest.raises(ValueError, match=r"none\.png: no such file"):
        trained.predict(["none.png"])


def test_answer(trained, tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((28, 28), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_text(f"0\n{tmp_path / 'a.png'}\n")
    lines = list(trained.answer(tmp_path / "list.txt"))
    assert len(lines) == 2 and lines[0].split("\t")[0] == "0" and len(lines[1].split("\t")) == 3
    (only,) = trained.answer(tmp_path / "a.png", as_json=True)
    told = json.loads(only)
    assert abs(sum(told["probabilities"].values()) - 1) < 1e-2 and "truth" not in told
    assert [line.split("\t")[0] for line in trained.answer(tmp_path)] == [str(tmp_path / "a.png")]


def test_show(trained, tmp_path):
    lines = list(trained.show([], tmp_path / "a.png"))
    assert len(lines) == 9 and lines[-1] == str(tmp_path / "a.png") and "image" in lines[1]
    assert (tmp_path / "a.png").stat().st_size > 5000
    list(trained.show(["1"], tmp_path / "a.gif"))
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"
    with pytest.raises(ValueError, match="one picture at a time"):
        list(trained.show(["1", "2"], tmp_path / "b.gif"))


def test_without_its_data_it_shows_drawn_digits(trained, tmp_path, monkeypatch):
    trained.task.save(tmp_path / "task")
    told = json.loads((tmp_path / "task" / "task.json").read_text())
    told["config"]["data"] = "mnist"
    (tmp_path / "task" / "task.json").write_text(json.dumps(told))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    away = Trained(trained.model, Digits.load(tmp_path / "task"), trained.recipe, "a-run")
    lines = list(away.show(["0"], None))
    assert "drawn" in lines[0] and len(lines) == 3
    with pytest.raises(ValueError, match="no data at"):
        away.evaluate()


def test_what_looks_at_everything_has_no_picture(task):
    model = cnn.CNN(cnn.Config(**task.sizes, hidden=8))
    whole = Trained(model, task, registry.recipe("ram-mnist"), "a-run")
    with pytest.raises(ValueError, match="nothing to show"):
        list(whole.show([], None))
    assert len(whole.predict([0])) == 1


def test_every_view_of_a_system_is_fed():
    for name in registry.systems():
        view = getattr(registry.system(name), "view", None)
        assert view is None or view in PICTURES, f"regard/trained/digits.py cannot draw {name}"


def test_games(tmp_path):
    task = Catch(CatchConfig(size=9, batch=8, measured=1))
    torch.manual_seed(0)
    model = ram_agent.RAMAgent(ram_agent.Config(**task.sizes, size=3, hidden=8))
    games = Games(model, task, registry.recipe("ram-catch"), "a-run")
    assert 0 <= games.evaluate()["caught"] <= 100
    first, *_, path = games.show(["2"], tmp_path / "game.gif")
    assert first.startswith("game 2: ") and path == str(tmp_path / "game.gif")
    assert (tmp_path / "game.gif").read_bytes()[:3] == b"GIF"
    with pytest.raises(ValueError, match=r"write a \.gif"):
        list(games.show([], tmp_path / "game.png"))
    with pytest.raises(ValueError, match="the number of one game"):
        list(games.show(["first"], None))
    with pytest.raises(ValueError, match="1 to 8"):
        games.predict(9)
