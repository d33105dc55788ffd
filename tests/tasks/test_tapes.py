"""The NTM's tasks: each is what the paper says, and can be stopped and taken up."""

import json
import math

import numpy as np
import pytest
import torch

from regard.tasks import tapes
from regard.tasks.tapes import PAPER, Config, Tapes

random = np.random.default_rng


def test_copy():
    made = tapes.copy(random(0), 3, 4, 8)
    assert made["input"].shape == (3, 9, 9) and made["target"].shape == (3, 9, 8)
    assert (made["input"][:, :4, 8] == 0).all() and (made["input"][:, 4, 8] == 1).all()
    assert (made["input"][:, 5:] == 0).all()  # silent while it is asked
    assert (made["target"][:, 5:] == made["input"][:, :4, :8]).all()
    assert made["mask"].tolist() == [[0] * 5 + [1] * 4] * 3


def test_repeat_copy():
    made = tapes.repeat_copy(random(0), 2, 3, 8, 4, 10)
    vectors = made["input"][:, :3, :8]
    assert made["input"].shape == (2, 3 + 1 + 12 + 1, 10) and made["target"].shape[2] == 9
    assert (made["target"][:, 4:16, :8] == np.concatenate([vectors] * 4, 1)).all()
    assert (made["target"][:, 16] == [0] * 8 + [1]).all() and (made["target"][:, :16, 8] == 0).all()
    assert made["mask"].sum() == 2 * 13
    counts = [tapes.repeat_copy(random(0), 1, 2, 8, n, 10)["input"][0, 2, 9] for n in range(1, 11)]
    assert np.isclose(np.mean(counts), 0, atol=1e-6) and np.isclose(np.var(counts), 1, atol=1e-6)


def test_recall():
    made = tapes.recall(random(0), 50, 4, 6, 3)
    assert made["input"].shape == (50, 4 * 4 + 5 + 3, 8) and made["mask"].sum() == 50 * 3
    for row, target in zip(made["input"], made["target"]):
        items = [row[4 * i + 1 : 4 * i + 4, :6].tolist() for i in range(4)]
        assert all(row[4 * i].tolist() == [0] * 6 + [1, 0] for i in range(4))
        assert row[16].tolist() == row[20].tolist() == [0] * 6 + [0, 1]
        asked = items.index(row[17:20, :6].tolist())
        assert target[21:].tolist() == items[asked + 1]
    assert not made["input"][:, 21:].any()


def test_sort():
    made = tapes.sort(random(0), 5, 20, 8, 16)
    assert made["input"].shape == (5, 37, 10) and (made["input"][:, 20, 9] == 1).all()
    for row, target in zip(made["input"], made["target"]):
        pairs = sorted(
            ((priority, bits.tolist()) for *_, priority, bits in zip(row[:20, 8], row[:20, :8])), reverse=True
        )
        assert [bits for _, bits in pairs][:16] == target[21:].tolist()
    assert made["input"][:, :20, 8].min() >= -1 and made["input"][:, :20, 8].max() <= 1


def test_ngrams():
    made = tapes.ngrams(random(0), 6, 50, 6)
    assert made["input"].shape == made["target"].shape == (6, 49, 1)
    assert (made["input"][:, 1:] == made["target"][:, :-1]).all()
    assert made["mask"].sum(1).tolist() == [45] * 6  # of 50 bits, the first five are not asked for


def test_the_bits_of_a_6gram_follow_their_context():
    """With two outcomes per table entry from Beta(½, ½), most contexts nearly determine the next bit."""
    made = tapes.ngrams(random(0), 400, 200, 6)
    assert 0.5 < float((made["optimal"] / 195).mean()) < 0.8  # nobody pays less than the mean entropy, 0.557 bits


def test_the_optimal_predictor_by_hand():
    bits = np.array([[0, 1, 0, 1, 0, 1, 1]])
    # order 3: after 01: 0; after 10: 1; after 01: 0 again; after 10: 1 again; after 01, which had two 0: 1
    expected = -sum(math.log2(p) for p in (0.5, 0.5, 1.5 / 2, 1.5 / 2, 0.5 / 3))
    assert np.isclose(tapes.optimal(bits, 3)[0], expected)


@pytest.mark.parametrize("what", PAPER)
def test_every_task_fits_its_sizes_and_repeats_its_batches(what):
    task = Tapes(Config(what, **PAPER[what], batch=3, batches=4, measured=2))
    loader, again = task.loader("train", seed=5), task.loader("train", seed=5)
    for one, two in zip([*loader, *loader], [*again, *again], strict=True):
        assert one["input"].shape[2] == task.sizes["inputs"] and one["target"].shape[2] == task.sizes["outputs"]
        assert one["input"].shape[:2] == one["target"].shape[:2] == one["mask"].shape
        assert all(torch.equal(one[name], two[name]) for name in one) and one["mask"].any()
        assert all(tensor.dtype == torch.float32 for tensor in one.values())
    other = next(iter(task.loader("train", seed=6)))
    first = next(iter(task.loader("train", seed=5)))
    assert other["input"].shape != first["input"].shape or not torch.equal(other["input"], first["input"])


def test_epochs_differ_in_training_only():
    task = Tapes(Config(longest=3, batch=2, batches=3, measured=3))
    for split, same in (("train", False), ("valid", True), ("test", True)):
        loader = task.loader(split)
        first, second = list(loader), list(loader)
        alike = [torch.equal(a["input"], b["input"]) for a, b in zip(first, second)]
        assert any(alike) is all(alike) is same


def test_a_stopped_loader_goes_on():
    task = Tapes(Config(batch=2, batches=5))
    whole = task.loader("train")
    expected = [*whole, *whole]
    stopped = task.loader("train")
    walk = iter(stopped)
    for _ in range(3):
        next(walk)
    state = json.loads(json.dumps(stopped.state_dict()))
    taken_up = task.loader("train")
    taken_up.load_state_dict(state)
    rest = [*taken_up, *taken_up]
    assert len(rest) == 7
    assert all(torch.equal(a["input"], b["input"]) for a, b in zip(rest, expected[3:], strict=True))


def test_a_state_of_other_settings_is_refused():
    state = Tapes(Config(batch=2)).loader("train").state_dict()
    with pytest.raises(ValueError, match=r"config was .* and is"):
        Tapes(Config(batch=3)).loader("train").load_state_dict(state)


def test_where_it_is_measured_every_length_comes_up():
    task = Tapes(Config("repeat_copy", longest=3, repeats=2, batch=1, measured=6))
    found = [int(made["mask"].sum()) for made in task.loader("valid")]
    assert sorted(found) == sorted(length * repeats + 1 for length in (1, 2, 3) for repeats in (1, 2))


def test_saved_and_loaded(tmp_path):
    task = Tapes(Config("sort", shortest=8, longest=8, top=6))
    task.save(tmp_path)
    assert Tapes.load(tmp_path).config == task.config
    assert Tapes.load(tmp_path, batch=3).config.batch == 3
    with pytest.raises(ValueError, match="'batch'"):
        Tapes.load(tmp_path, bach=3)
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(ValueError, match=r"task\.json: not the description"):
        Tapes.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"what": "copi"}, "'copy'"),
        ({"shortest": 3, "longest": 2}, "shortest=3 and longest=2"),
        ({"what": "recall", "shortest": 1}, "2 <= shortest"),
        ({"what": "sort", "shortest": 8, "longest": 8}, "top 16 of 8"),
        ({"what": "ngrams", "shortest": 9, "longest": 9}, "bits=1"),
        ({"batch": 0}, "batch"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)


def test_no_data_is_read():
    with pytest.raises(ValueError, match="generates its own data"):
        Tapes(Config(), "some/folder")
    with pytest.raises(ValueError, match="'train'"):
        Tapes(Config()).loader("trian")
