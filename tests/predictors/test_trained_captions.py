"""What is measured of captions, on systems whose answers are known."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from regard import registry, runs
from regard.axes import Words
from regard.commands.predict import predict_command
from regard.commands.train import _next
from regard.data import scenes
from regard.decode.written import Written
from regard.metrics.pointing import cells_of
from regard.predictors.writer import Writer

SIDE = 6


def model(recipe="caption-scenes"):
    made = runs.assemble(registry.recipe(recipe).tiny().change(["pixels=48"]), seed=0)
    return Writer(made.model, made.task, made.recipe, "a test")


def saying(found: Writer, right: bool) -> Writer:
    """The first reference of each scene, and maps that lie on the object of each word, or beside all of them."""
    rows = iter(range(99))

    def write(items):
        answers = []
        for row in (next(rows) for _ in items):
            things = found.task.scene("test", row).things
            text = scenes.captions(things)[0] if right else "a red circle"
            words = text.split()
            free = ~sum(cells_of(thing.box, SIDE) for thing in things).astype(bool)
            weights = np.tile(free.ravel() / free.sum(), (len(words), 1))
            for place, number in scenes.mentioned(words, things) if right else ():
                touched = cells_of(things[number].box, SIDE).ravel()
                weights[place] = touched / touched.sum()
            answers.append([Written(Words(words), torch.from_numpy(weights), 0.0, 0.0)])
        return answers

    found.write = write
    return found


def test_captions_that_are_true_and_point():
    values = saying(model(), right=True).evaluate("test")
    assert values["true"] == values["pointing"] == 100
    assert 5 < values["chance"] < 35
    assert values["bleu1"] == pytest.approx(100)
    assert 0 < values["variation"] <= 1 and 0 < values["entropy"] < np.log(36)


def test_captions_that_are_false():
    values = saying(model(), right=False).evaluate("test")
    assert values["true"] < 50 and values.get("pointing", 0) == 0
    assert values["variation"] == 0


def test_one_that_looks_once_has_no_maps():
    values = model("caption-flickr8k-once").evaluate("test", limit=3)
    assert not values.keys() & {"variation", "pointing"} and values.keys() >= {"bleu4", "cider_d", "true"}


def test_photographs_are_captioned(tmp_path):
    found = model()
    for name in ("b.png", "a.jpg"):
        Image.new("RGB", (30, 20), "red").save(tmp_path / name)
    told = [line.split("\t") for line in found.answer(tmp_path)]
    assert [path.rpartition("/")[2] for path, _ in told] == ["a.jpg", "b.png"]
    (line,) = found.answer(tmp_path / "a.jpg", as_json=True)
    assert json.loads(line).keys() == {"image", "text", "answers"}
    with pytest.raises(ValueError, match="say which picture"):
        list(found.answer(None))
    found.write = lambda items, **_: [[Written(Words([]), None, 0.0, 0.0, {}, item)] for item in items]
    with pytest.raises(ValueError, match=r"a\.png: not written, there is nothing to draw"):
        list(found.show([str(tmp_path / "a.jpg")], tmp_path / "a.png"))


@pytest.mark.parametrize(
    ("task", "predict"),
    [("captions", ["predict RUN picture.jpg"]), ("video_captions", ["predict RUN clip.npz"]), ("tracking", [])],
)
def test_what_one_may_do_next_can_be_done(task, predict):
    run = SimpleNamespace(recipe=lambda: {"task": {"name": task}})
    assert _next(run) == ["evaluate RUN", *predict, "show RUN"]


def test_a_broken_photograph_takes_no_other_with_it(tmp_path, capsys, monkeypatch):
    found = model()
    for name in ("a.png", "z.png"):
        Image.new("RGB", (30, 20), "red").save(tmp_path / name)
    (tmp_path / "text.jpg").write_text("Dear reader")
    with pytest.raises(ValueError, match=r"text\.jpg: not a JPEG"):
        list(found.answer(tmp_path / "text.jpg"))
    lines = found.answer(tmp_path)
    assert [next(lines).partition("\t")[0].rpartition("/")[2] for _ in range(2)] == ["a.png", "z.png"]
    with pytest.raises(ValueError, match="1 of 3 questions have no answer"):
        next(lines)
    assert "text.jpg: not a JPEG" in capsys.readouterr().err
    monkeypatch.setattr(runs, "load", lambda *where, **_: found)
    with pytest.raises(ValueError, match="1 of 3 files have no answer"):  # as a shell writes *.png
        predict_command("a run", [str(tmp_path / name) for name in ("a.png", "text.jpg", "z.png")])
    out, err = capsys.readouterr()
    assert [line.partition("\t")[0].rpartition("/")[2] for line in out.splitlines()] == ["a.png", "z.png"]
    assert "text.jpg: not a JPEG" in err
