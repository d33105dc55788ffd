"""The task of sets: photographs with labels or captions, generated scenes, and what is measured."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import regard
from regard import registry
from regard.data import scenes
from regard.predictors.classifier import Chosen
from regard.tasks.image_sets import Config, ImageSets


def photograph(path, number):
    pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path):
    """Twenty plates: rice on all, an egg on every second, and fish on the first."""
    labels = {}
    for number in range(20):
        photograph(tmp_path / f"{number}.png", number)
        labels[str(number)] = ["rice", *(["egg"] if number % 2 else []), *(["fish"] if number == 0 else [])]
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    return tmp_path


def task(folder, **changes):
    settings = {"size": 32, "stage": 5, "store": str(folder / "store"), "batch": 4}
    return ImageSets(Config(data=str(folder), **{**settings, **changes}))


def test_labels_and_batches(folder):
    made = task(folder)
    assert made.classes[:2] == ["rice", "egg"] and made.known["frequent"] == ["rice", "egg"]
    assert made.sizes == {"classes": len(made.classes), "features": 112, "most": 2}
    names = [each.file.stem for each in made.photographs_of("train")]
    features, seen = made.features("train"), 0
    for batch in made.loader("train", seed=2):
        for given, labels in zip(batch["features"], batch["labels"]):
            row = next(n for n in range(len(features)) if torch.equal(given, features[[n]][0]))
            right = {made.classes[number] for number in labels.nonzero()[:, 0].tolist()}
            assert ("egg" in right) == (int(names[row]) % 2 == 1) and "rice" in right
            seen += 1
    assert seen == 16


def test_a_label_that_training_does_not_have(folder):
    made = task(folder)
    held = made.photographs_of("test")[0].file.stem
    labels = json.loads((folder / "labels.json").read_text())
    (folder / "labels.json").write_text(json.dumps({**labels, held: ["rice", "dragon"]}))
    made = task(folder)
    assert "dragon" not in made.classes and ["rice"] in made.right("test", range(2))


def test_nouns_of_captions(tmp_path):
    lines = []
    for number in range(20):
        photograph(tmp_path / f"{number}.png", number)
        lines.append(f"{number}.png\tA man is with the {('dog', 'ball')[number % 2]} .")
        lines.append(f"{number}.png\tTwo brown dogs")
    (tmp_path / "captions.tsv").write_text("\n".join(lines))
    made = task(tmp_path, most_frequent=3)
    assert made.classes == ["man", "ball", "dog"] or made.classes == ["man", "dog", "ball"]
    assert {tuple(each) for each in made.right("train", range(16))} == {("ball", "man"), ("dog", "man")}
    made.save(tmp_path / "task")
    other = ImageSets.load(tmp_path / "task")
    assert other.right("valid", range(2)) == made.right("valid", range(2))


def test_what_is_measured():
    made = ImageSets(Config(pixels=32, test_size=50))
    found, empty = [], []
    for row in range(50):
        things = sorted(made.scene("test", row).things, key=lambda thing: thing.column)
        maps = torch.zeros(2, 4, 16)  # heads, steps, places
        for step, thing in enumerate(things):
            maps[:, step, 4 * thing.row + thing.column] = 1
        labels = tuple(thing.name for thing in things)
        found.append(Chosen(", ".join(labels), torch.ones(24), {"decoder.layers.0.cross": maps}, labels))
        empty.append(Chosen("nothing", torch.ones(24), {}, ()))
    values = made.measure("test", found)
    assert values["f1"] == values["iou"] == values["f1_class"] == values["pointing"] == 100
    assert values["size_error"] == 0 and values["chance"] < 20 and 0 < values["f1_frequent"] < 30
    values = made.measure("test", empty)
    assert values["f1"] == 0 and values["size_error"] > 1 and "pointing" not in values


def test_scenes_are_labelled_by_their_objects():
    made = ImageSets(Config(pixels=32, test_size=9, batch=4))
    rows = iter(range(9))
    for batch in made.loader("test"):
        for labels in batch["labels"]:
            named = sorted(made.classes[number] for number in labels.nonzero()[:, 0].tolist())
            assert named == scenes.labels(made.scene("test", next(rows)).things)


@pytest.mark.parametrize("changes", [(), ("predictor=td", "cardinality=true")])
def test_a_set_is_an_answer(tmp_path, changes):
    recipe = registry.recipe("set-scenes").tiny().change(changes)
    model = regard.load(regard.train(recipe, out=tmp_path / "run", console=Console(file=io.StringIO())))
    (answer,) = model.ask(model.examples()[:1])
    labels = answer.fields["labels"]
    assert answer.text == (", ".join(labels) or "nothing") and set(labels) <= set(model.task.classes)
    assert len(set(labels)) == len(labels) and set(labels) <= set(answer.fields["probabilities"])
    pictures = [picture.view() for picture in answer.pictures]
    assert [view.data["words"] for view in pictures] == ([] if changes or not labels else [labels])


def test_settings_are_checked():
    with pytest.raises(ValueError, match="most_frequent must be at least 1, not 0"):
        Config(most_frequent=0)
