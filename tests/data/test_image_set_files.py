"""Sets of labels as they lie on disk, and the nouns of captions."""

import json

import numpy as np
import pytest
from PIL import Image

from regard.data import image_sets
from regard.data.image_sets import Nouns
from regard.data.lines import BadLines


@pytest.fixture
def folder(tmp_path):
    labels = {}
    for number in range(20):
        name = f"{number:06d}"
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / f"{name}.jpg")
        labels[name if number % 2 else f"{name}.jpg"] = ["rice", "fried  egg", "rice"]
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    return tmp_path


def test_labels(folder):
    found = image_sets.read(folder)
    assert {split: len(many) for split, many in found.items()} == {"train": 16, "valid": 2, "test": 2}
    assert all(each.labels == ["fried egg", "rice"] for many in found.values() for each in many)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("[1]", "labels.json: a JSON object"),
        ("{", "labels.json: not JSON"),
        ("9" * 5000, "labels.json: not JSON"),
        ('{"000001": "rice"}', "labels of '000001' are no list"),
        ('{"1": ["rice"]}', "'1' is not in"),
        ('{"000001": ["rice"]}', "1 images are too few"),
    ],
)
def test_labels_that_cannot_be_read(folder, written, message):
    (folder / "labels.json").write_text(written)
    with pytest.raises(ValueError, match=message):
        image_sets.read(folder)


def test_bad_entries_are_left_out(folder):
    labels = json.loads((folder / "labels.json").read_text())
    (folder / "labels.json").write_text(json.dumps({**labels, "gone": ["rice"], "000001": [3]}))
    bad = BadLines(skip=True)
    assert sum(map(len, image_sets.read(folder, bad).values())) == 19
    assert bad.total == 2


def test_nouns_by_the_rule():
    said = ["A brown dog runs in the grass .", "The dog jumps over a log .", "Two dogs are on a hill with a man"]
    said += ["A man walking the dog in front of a tree", "men and a woman in grass", "the front of a dog"]
    nouns = Nouns.learn([said] * 5, 10)
    assert nouns.known == ["dog", "grass", "hill", "log", "man", "tree", "woman"]
    assert not {"brown", "runs", "front", "jumps"} & set(nouns.forms)
    assert nouns.of(["Dogs and a dog.", "some women", "the brown hill"]) == ["dog", "hill"]
    assert Nouns.learn([said[:1]] * 6 + [said] * 5, 1).known == ["dog"]
    assert Nouns.learn([said], 10).known == [], "too rare to tell"
