"""Runs on pictures and games that answer and show where they looked; weights as they are at first."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
from regard import registry
from regard.predictors.digits import PICTURES
from regard.predictors.digits import Digits as Predictor
from regard.predictors.games import Games
from regard.systems import cnn, draw, ram, ram_agent, stn
from regard.tasks.catch import Catch
from regard.tasks.catch import Config as CatchConfig
from regard.tasks.digits import Config, Digits


@pytest.fixture(scope="module")
def task():
    return Digits(Config(drawn=100, batch=4))


@pytest.fixture(scope="module")
def trained(task):
    torch.manual_seed(0)
    model = ram.RAM(ram.Config(**task.sizes, glimpses=3, scales=2, hidden=16))
    return Predictor(model, task, registry.recipe("ram-mnist"), "a-run")


def test_evaluate(trained):
    found = trained.evaluate()
    assert found.keys() == {"nll", "error", "parameters", "multiplications"} and 50 < found["error"] <= 100
    assert found["parameters"] == sum(each.numel() for each in trained.model.parameters())
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
    (tmp_path / "b.png").write_text("no picture")
    image.fromarray(np.zeros((28, 28), np.uint8)).save(tmp_path / "c.png")
    lines = trained.answer(tmp_path)
    assert [Path(next(lines).split("\t")[0]).name for _ in range(2)] == ["a.png", "c.png"]
    with pytest.raises(ValueError, match="1 of 3 questions have no answer"):
        next(lines)


def test_show(trained, tmp_path):
    lines = list(trained.show([], tmp_path / "a.png"))
    assert len(lines) == 9 and lines[-1] == str(tmp_path / "a.png") and "image" in lines[1]
    assert (tmp_path / "a.png").stat().st_size > 5000
    list(trained.show(["1"], tmp_path / "a.gif"))
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"
    with pytest.raises(ValueError, match="one picture at a time"):
        list(trained.show(["1", "2"], tmp_path / "b.gif"))


@pytest.mark.parametrize(("data", "said"), [("mnist", "its first test pictures"), ("fashion-mnist", "drawn")])
def test_without_its_data_it_shows_shipped_or_drawn_digits(trained, tmp_path, monkeypatch, data, said):
    trained.task.save(tmp_path / "task")
    told = json.loads((tmp_path / "task" / "task.json").read_text())
    told["config"]["data"] = data
    (tmp_path / "task" / "task.json").write_text(json.dumps(told))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    away = Predictor(trained.model, Digits.load(tmp_path / "task"), trained.recipe, "a-run")
    lines = list(away.show(["0"], None))
    assert said in lines[0] and len(lines) == 3
    with pytest.raises(ValueError, match="no data at"):
        away.evaluate()


def test_what_looks_at_everything_has_no_picture(task):
    model = cnn.CNN(cnn.Config(**task.sizes, hidden=8))
    whole = Predictor(model, task, registry.recipe("ram-mnist"), "a-run")
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
    with pytest.raises(ValueError, match="there is no game 5000: they are 0 to 7"):
        list(games.show(["5000"], None))
    with pytest.raises(ValueError, match="1 to 8"):
        games.predict(9)


def embedded(path):
    """The kinds and titles of the views of a page."""
    found = re.search(r'<script type="application/json" id="regard-data">(.*?)</script>', path.read_text(), re.DOTALL)
    return [(view["kind"], view["title"]) for view in json.loads(found[1])["views"]]


@pytest.mark.parametrize(("module", "options", "kind"), [(ram, {"glimpses": 3}, "glimpses"), (stn, {}, "rectified")])
def test_a_page_for_each_kind(task, tmp_path, module, options, kind):
    torch.manual_seed(0)
    name = module.__name__.rpartition(".")[2]
    model = registry.system(name)(module.Config(**task.sizes, **options))
    trained = Predictor(model, task, registry.recipe("ram-mnist"), "a-run")
    *_, path = trained.show(["0", "3"], tmp_path / "page.html")
    assert path.endswith("page.html")
    assert [view for view, _ in embedded(tmp_path / "page.html")] == [kind, kind]


@pytest.fixture(scope="module")
def drawer():
    task = Digits(Config(drawn=20, batch=4, binarize=True))
    torch.manual_seed(0)
    config = draw.Config(**task.sizes, steps=3, hidden=16, latent=4, read=3, write=3)
    return Predictor(draw.DRAW(config), task, registry.recipe("draw-mnist"), "a-run")


class TestImagined:
    def test_what_it_draws_at_random_is_the_same_each_time(self, drawer):
        before = torch.get_rng_state()
        assert drawer.evaluate() == drawer.evaluate()
        assert (
            list(drawer.show(["1"], None)) == list(drawer.show(["1"], None)) != list(drawer.show(["1"], None, seed=1))
        )
        assert torch.equal(torch.get_rng_state(), before)

    def test_pictures_that_nobody_has_shown_it(self, drawer, tmp_path):
        *texts, _ = drawer.show([], tmp_path / "page.html", imagine=2, seed=7)
        assert len([text for text in texts if text]) == 2
        assert [kind for kind, _ in embedded(tmp_path / "page.html")] == ["canvas", "canvas"]
        assert list(drawer.show([], None, imagine=2, seed=7)) == texts != list(drawer.show([], None, imagine=2, seed=8))
        for ending in ("png", "gif"):
            assert (tmp_path / f"made.{ending}").name in list(drawer.show([], tmp_path / f"made.{ending}", imagine=1))[
                -1
            ]

    def test_what_cannot_be(self, drawer, trained):
        with pytest.raises(ValueError, match="either pictures are shown or imagined"):
            list(drawer.show(["3"], None, imagine=1))
        with pytest.raises(ValueError, match="RAM, which draws nothing"):
            list(trained.show([], None, imagine=1))
