"""Lines become batches and back, what is asked is checked, and what was written is measured."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.tasks.handwriting import Config, Handwriting

SMALL = {"longest": 6, "batch": 4, "min_count": 1, "train_size": 20, "valid_size": 5, "test_size": 8}


@pytest.fixture(scope="module")
def task():
    return Handwriting(Config(**SMALL))


def test_batches_are_normalized_and_end_with_a_rest(task):
    batches = list(task.loader("train", shuffle=False))
    rows = torch.cat(
        [batch["points"][row, 1:length] for batch in batches for row, length in enumerate(batch["lengths"])]
    )
    assert torch.allclose(rows[:, :2].mean(0), torch.zeros(2), atol=1e-3)
    assert torch.allclose(rows[:, :2].std(0), torch.ones(2), atol=1e-2)
    batch = batches[0]
    assert batch["points"].shape[1] == batch["lengths"].max() + 1 and not batch["points"][:, 0].any()
    last = batch["points"][torch.arange(4), batch["lengths"]].numpy()
    assert np.allclose(task.restored(last), [0, 0, 1], atol=1e-5)
    assert batch["text"].shape == (4, int(batch["text_lengths"].max()))
    first = task.lines("train")[0]
    assert np.allclose(task.restored(task.normalized(first.points)), first.points, atol=1e-4)


def test_what_is_left_out_is_told_of_each_split(tmp_path):
    stroke = [[0, 0], [4, 1], [5, 3]]
    for split, texts in {"train": "ab", "valid": ["a", "", ""]}.items():
        lines = [json.dumps({"text": text, "strokes": [stroke]}) for text in texts]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    task = Handwriting(Config(**{**SMALL, "data": str(tmp_path)}))
    told = {split: task.loader(split).report() for split in ("valid", "train")}
    assert "left out" not in told["train"]
    assert "2 left out, of more than 1,200 points or without a text" in told["valid"]


def test_a_loader_goes_on_where_it_stopped(task):
    loader = task.loader("train", seed=3)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    expected = next(steps)
    other = task.loader("train", seed=3)
    other.load_state_dict(state)
    assert torch.equal(next(iter(other))["points"], expected["points"])


def test_saved_and_loaded(task, tmp_path):
    task.save(tmp_path)
    again = Handwriting.load(tmp_path)
    assert again.sizes == task.sizes and np.array_equal(again.deviation, task.deviation)
    assert again.encode("ab?") == task.encode("ab?")
    assert again.alone("test") == task.alone("test")


def test_what_is_asked_is_checked(task):
    item = task.asked("a", bias=1.0, seed=3, style=2)
    assert item.told == f"{task.item('test', 2).text} a" and len(item.points) > 1
    for text, said in [("Ä", "cannot write 'Ä'"), ("  ", "nothing to write")]:
        with pytest.raises(ValueError, match=said):
            task.asked(text)
    with pytest.raises(ValueError, match="no line 99 in test: they are 0 to 7"):
        task.asked("a", style=99)
    for changes, said in [
        ({"batch": 0}, "batch must be at least 1"),
        ({"join": 2}, "text=false"),
        ({"longest": 1}, "longest"),
    ]:
        with pytest.raises(ValueError, match=said):
            Config(**changes)


def test_perfect_writing_is_perfect(task):
    pairs = []
    for number in range(task.count("test")):
        item = task.item("test", number)
        pairs.append((item, SimpleNamespace(points=item.points[1:], stopped=True)))
    found = task.measure("test", pairs)
    assert found["stopped"] == found["length"] == 100 and found["read_data"] == 100 and found["read"] > 90
    short = [(item, SimpleNamespace(points=one.points[: len(one.points) // 2], stopped=True)) for item, one in pairs]
    worse = task.measure("test", short)
    assert worse["length"] == 0 and worse["read"] < 70
    assert task.measure("test", []) == {}


def test_ones_own_lines(tmp_path):
    strokes = [[[0, 0], [3, 9], [6, 0]], [[8, 0], [8, 9]]]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"text": "vI", "strokes": strokes, "id": f"x{n}"}) + "\n" for n in range(40)))
    task = Handwriting(Config(data=str(path), batch=4, min_count=1))
    assert task.known["characters"] == ["I", "v"] and task.known["pace"] == 2
    assert task.suggested()[0] == {"text": "vI"}
    assert task.loader("train").report().endswith("points")
    free = Handwriting(Config(data=str(path), text=False))
    assert free.sizes["characters"] == 0 and "text" not in next(iter(free.loader("test")))
    with pytest.raises(ValueError, match=r"too few drawings for '.*' to join 30; say join=1"):
        Handwriting(Config(data=str(path), text=False, join=30)).lines("valid")
    with pytest.raises(ValueError, match="at most 2 points"):
        Handwriting(Config(data=str(path), max_points=2))


def test_no_texts_no_data(tmp_path):
    path = tmp_path / "mine.jsonl"
    bent = ({"strokes": [[[0, 0], [1, n], [2, 1]]], "id": f"x{n}"} for n in range(40))
    path.write_text("".join(json.dumps(each) + "\n" for each in bent))
    with pytest.raises(ValueError, match="has a text"):
        Handwriting(Config(data=str(path)))
    with pytest.raises(ValueError, match="lines can also be made: data=letters"):
        Handwriting(Config(data="nowhere"))
    path.write_text("".join(json.dumps({"strokes": [[[0, 0], [n, 0]]], "id": f"x{n}"}) + "\n" for n in range(40)))
    with pytest.raises(ValueError, match="lie on a line"):
        Handwriting(Config(data=str(path), text=False))
