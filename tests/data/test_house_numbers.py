"""House numbers: what is read, what is made, and that digits are painted into their boxes."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pytest

from regard.data import house_numbers
from regard.data.canvases import drawn
from regard.tasks.digits import Config, Digits

ITEMS = {
    "train": [["1", 100, 50, [["9", 30, 12, 40, 30], ["1", 20, 10, 30, 30]]], ["2", 9, 9, [["10", 1, 1, 5, 7]]]] * 2,
    "test": [
        ["1", 100, 50, [["5", 20, 10, 30, 30]]],
        ["2", 90, 50, [[str(n), 9 * n, 2, 9 * n + 8, 9] for n in (1, 2, 3)]],
    ],
}


def write(folder, content):
    (folder / house_numbers.NAME).write_bytes(gzip.compress(json.dumps(content).encode()))
    return folder


def test_numbers_are_read_from_left_to_right_and_cut(tmp_path):
    found = house_numbers.read(write(tmp_path, ITEMS), most=2)
    assert found["train"].digits.tolist() == [[1, 9], [0, -1]] * 2
    assert found["test"].digits.tolist() == [[5, -1]], "a number that is too long is left out"
    wide, tall = 20 * 1.3, 20 * 1.3  # the box round all digits is 20 to 40 and 10 to 30
    left, top = 30 - wide / 2, 20 - tall / 2
    expected = [[(20 - left) / wide, (10 - top) / tall, (30 - left) / wide, (30 - top) / tall]]
    assert np.allclose(found["train"].boxes[0, :1], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"it must be \{\"train\""),
        ({"train": [["1", 3, 4, [["x", 1, 2, 3, 4]]]], "test": []}, "train, item 0"),
        ({"train": [["1", 3, 4, [["1", 5, 2, 3, 4]]]], "test": []}, "train, item 0"),
        ({"train": [["1", 3, 4, []]], "test": []}, "train, item 0"),
        ({"train": [], "test": []}, "train: no number"),
        ({"train": None, "test": []}, "train: a list of numbers was expected, not null"),
        ({"train": [["1", 3, 4, [["1", 10**400, 2, 3, 4]]]], "test": []}, "train, item 0"),
        ({"train": [["1", 3, 4, [["1", 1, 2, float("inf"), 4]]]], "test": []}, "train, item 0"),
        ({"train": [["1", 3, 4, [[float("nan"), 1, 2, 3, 4]]]], "test": []}, "train, item 0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, message):
    folder = write(tmp_path, content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message) as error:
            house_numbers.read(folder, 5)
    assert house_numbers.NAME in str(error.value)


def test_damaged_and_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="no data at"):
        house_numbers.read(tmp_path, 5)
    write(tmp_path, ITEMS)
    path = tmp_path / house_numbers.NAME
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="not annotations of house numbers"):
        house_numbers.read(tmp_path, 5)


def test_digits_are_painted_into_their_boxes():
    images, labels = drawn(np.random.default_rng(0), 300)
    numbers = house_numbers.made(np.random.default_rng(1), labels[:40], 3)
    canvas = house_numbers.HouseNumbers(54, numbers, labels, moves=False)
    plan = canvas.plan(np.random.default_rng(2), 40)
    plan["paper"][:], plan["ink"][:] = 0.0, 1.0
    pictures = canvas.paint(images[:, None], np.arange(40), plan)[:, 0]
    for digits, boxes, picture in zip(numbers.digits, numbers.boxes, pictures):
        inside = np.zeros((54, 54), bool)
        for box in boxes[digits >= 0] * 54:
            left, top, right, bottom = np.rint(box).astype(int)
            inside[max(top - 3, 0) : bottom + 3, max(left - 3, 0) : right + 3] = True
            part = picture[top:bottom, left:right] > 0.5
            assert part.any(1).mean() > 0.8, "ink fills the height of a box"
        assert not (picture[~inside] > 0.5).any(), "ink is in the boxes alone"


def test_ink_differs_from_paper():
    numbers = house_numbers.made(np.random.default_rng(1), np.arange(10), 2)
    canvas = house_numbers.HouseNumbers(54, numbers, np.arange(10), moves=True)
    plan = canvas.plan(np.random.default_rng(2), 2000)
    assert np.abs(plan["ink"] - plan["paper"][:, 0]).min() > 0.29
    assert (np.abs(plan["moved"]) <= house_numbers.MOVED).all() and plan["moved"].std() > 0.01


def test_the_task_gives_targets_with_an_end(tmp_path):
    task = Digits(Config(kind="house", numbers=str(write(tmp_path, ITEMS)), most=3, drawn=2000, valid=1, batch=2))
    assert task.sizes == {"channels": 1, "height": 54, "width": 54, "classes": 11, "objects": 4, "end": True}
    assert [task.count(split) for split in ("train", "valid", "test")] == [3, 1, 2]
    batch = task.make("test", np.array([0, 1]))
    assert batch["target"].tolist() == [[5, 10, -1, -1], [1, 2, 3, 10]]
    assert task.named(batch, 1) == "123"


def test_pairs_may_be_ordered_added_and_lower_than_wide():
    task = Digits(Config(kind="two", ordered=True, size=60, height=36, drawn=60, batch=4))
    batch = task.make("test", np.arange(4))
    assert batch["image"].shape == (4, 1, 36, 60) and task.sizes["objects"] == 2 and task.sizes["classes"] == 10
    assert (batch["target"] @ batch["target"].new_tensor([10, 1]) == batch["label"]).all()
    added = Digits(Config(kind="sum", size=60, height=36, drawn=60, batch=4))
    assert added.sizes["classes"] == 19 and "objects" not in added.sizes
    assert (added.make("test", np.arange(4))["label"] == batch["digits"].sum(1)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "plain", "height": 30}, "height = 30"),
        ({"kind": "sum", "ordered": True}, "have one class"),
        ({"kind": "house", "binarize": True}, "binarize"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
