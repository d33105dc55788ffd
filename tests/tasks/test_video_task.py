"""The task of video captions: MSVD's format, folders of frames, generated clips, and questions with a file."""

import io
import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from regard import registry, runs
from regard.axes import Words
from regard.data import SPLITS, moves
from regard.data.tokens import BOS, EOS, UNKNOWN
from regard.decode.written import Written
from regard.predictors import _questions
from regard.predictors.writer import Writer
from regard.questions import form
from regard.tasks.video_captions import Config, Item, VideoCaptions

SAID = ["A man runs.", "a man is running", "the man runs", "A zebra !"]


@pytest.fixture
def msvd(tmp_path):
    """Twenty clips of 5 frames; "zebra" is seen too seldom to be known."""
    ids = [f"clip{n}" for n in range(20)]
    features = np.random.default_rng(0).standard_normal((20, 5, 6)).astype(np.float16)
    np.savez(tmp_path / "features.npz", features=features, ids=np.array(ids))
    said = [{"id": name, "caption": SAID[: 3 + (n == 0)]} for n, name in enumerate(ids)]
    (tmp_path / "training_label.json").write_text(json.dumps(said))
    return tmp_path


def task(folder, **changes):
    return VideoCaptions(Config(data=str(folder), **{"batch": 4, "min_count": 3, "max_length": 6, **changes}))


def test_words_and_sizes(msvd):
    made = task(msvd)
    assert made.words[4:] == ["a", "is", "man", "running", "runs", "the"]
    assert made.sizes == {"vocab": 10, "features": 6, "longest": 6}
    assert {split: made.count(split) for split in ("train", "valid", "test")} == {"train": 14, "valid": 2, "test": 4}
    assert made.references("test", [0, 1])[1] == SAID[:3]


def test_a_batch_has_features_of_its_own_clips(msvd):
    made = task(msvd)
    encoded = made._encoded("train")
    ids, owners = encoded.ids, encoded.owners
    features, seen = made.features("train"), 0
    for batch in made.loader("train", seed=1):
        assert batch["features"].shape == (len(batch["target"]), 5, 6) and (batch["frame_lengths"] == 5).all()
        for row, target, length in zip(batch["features"], batch["target"], batch["target_lengths"]):
            said = target[: length + 1].tolist()
            assert said[0] == BOS and said[-1] == EOS
            owner = next(n for n, each in enumerate(features) if np.array_equal(row.numpy(), each))
            assert any(ids[place].tolist() == said for place in np.flatnonzero(owners == owner))
            seen += 1
    assert seen == len(owners)


def test_of_a_long_clip_some_frames_are_taken(msvd):
    few, many = task(msvd, frames=2), task(msvd)
    assert np.array_equal(few.features("test")[0], many.features("test")[0][[1, 3]])
    assert len(few.axes(few.item("test", 0))["frames"]) == 2


def test_without_the_data_it_can_caption(msvd, tmp_path):
    made = task(msvd)
    made.save(tmp_path / "task")
    (msvd / "training_label.json").unlink()
    other = VideoCaptions.load(tmp_path / "task")
    assert other.sizes == made.sizes
    item = other._uploaded(file(features=np.ones((3, 6))))
    ((_, batch),) = other.batches([item])
    assert batch["features"].shape == (1, 3, 6) and batch["frame_lengths"].tolist() == [3]


def file(**arrays):
    data = io.BytesIO()
    np.savez(data, **arrays)
    return data.getvalue()


def test_what_is_no_clip_is_told(msvd):
    made = task(msvd)
    with pytest.raises(ValueError, match="the clip: 7 features a frame, but 6 are wanted"):
        made._uploaded(file(features=np.ones((3, 7))))
    with pytest.raises(ValueError, match="there is no clip 4 in test: they are 0 to 3"):
        made.item("test", 4)
    with pytest.raises(ValueError, match="no array called 'images' in it, which this system looks at"):
        generated()._uploaded(file(features=np.ones((3, 7))))
    with pytest.raises(ValueError, match=r"no data at nowhere.*clips can also be generated: data=moves"):
        task("nowhere")


def test_folders_of_frames_pass_the_backbone(tmp_path):
    for clip in range(4):
        (tmp_path / "data" / f"c{clip}").mkdir(parents=True)
        for frame in range(3):
            pixels = np.random.default_rng([clip, frame]).integers(0, 255, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / f"c{clip}" / f"{frame}.png")
    lines = "".join(f"c{clip}\ta man\nc{clip}\ta man\n" for clip in range(4))
    (tmp_path / "data" / "captions.tsv").write_text(lines)
    made = task(tmp_path / "data", size=32, stage=5, store=str(tmp_path / "store"))
    assert made.sizes["features"] == 112
    (tmp_path / "data" / "captions.tsv").write_text(lines + "c9\tnobody has this clip\n")
    more = task(tmp_path / "data", size=32, stage=5, store=str(tmp_path / "store"), skip_bad=True)
    assert "left out 1 bad line" in more.loader("train").report()
    item = made.item("test", 0)
    assert item.features.shape == (3, 112)
    images = np.stack([np.asarray(Image.open(each.file)) for each in item.photographs])
    given = made._uploaded(file(images=images))
    assert np.allclose(given.features, item.features, atol=0.02)
    framed = made._uploaded(item.photographs[0].file.parent)
    assert np.allclose(framed.features, item.features, atol=0.02) and framed.photographs == item.photographs
    (one,) = _questions.of_word(form("Watch", **made.asks), str(tmp_path / "data" / "c1"), {})
    assert one.question.clip == tmp_path / "data" / "c1"
    assert len(list(_questions.of_word(form("Watch", **made.asks), str(tmp_path / "data"), {}))) == 4
    made._part("train")[0].photographs[2].file.write_bytes(b"")
    broken = task(tmp_path / "data", size=32, stage=5, store=str(tmp_path / "store"), skip_bad=True)
    assert sum(map(broken.count, SPLITS)) == 3
    shown = made.axes(item)["frames"].images()
    assert shown.shape == (3, 3, 96, 96) and 0 <= shown.min() < shown.max() <= 1
    assert made.axes(given)["frames"].images().shape == (3, 3, 32, 32)
    (batch,) = made.loader("test")
    assert torch.equal(batch["features"][0], torch.from_numpy(item.features))


def test_features_alone_have_nothing_to_show(msvd, tmp_path):
    made = task(msvd)
    with pytest.raises(ValueError, match=r"a folder of pictures, but .* with 6 features a frame is wanted"):
        made._uploaded(tmp_path)
    assert made.axes(made.item("test", 0))["frames"].images is None


def generated(**changes):
    return VideoCaptions(Config(**{"batch": 8, "train_size": 20, "valid_size": 12, "test_size": 12, **changes}))


def test_clips_are_new_in_every_epoch_of_training_alone():
    made = generated()
    train, valid = made.loader("train", seed=0), made.loader("valid")
    first, second = ([batch["clip"] for batch in train] for _ in range(2))
    assert [len(clip) for clip in first] == [8, 8, 4] and first[0].shape == (8, 12, 3, 32, 32)
    assert not any(torch.equal(*pair) for pair in zip(first, second))
    assert all(torch.equal(*pair) for pair in zip(*([b["clip"] for b in valid] for _ in range(2))))


def test_what_is_said_of_a_clip_is_true():
    made = generated()
    (batch, _) = made.loader("valid")
    for row, target in enumerate(batch["target"]):
        said = str(made.write([token for token in target.tolist() if token > UNKNOWN]))
        assert [said] == made.references("valid", [row])[0] == [moves.caption(made.clip("valid", row).events)]
    ((_, asked),) = made.batches([made.item("valid", row) for row in range(8)])
    assert torch.equal(asked["clip"], batch["clip"]) and 0 <= asked["clip"].min() <= asked["clip"].max() <= 1


def test_a_file_is_watched(tmp_path):
    made = runs.assemble(registry.recipe("video-moves").tiny(), seed=0)
    model = Writer(made.model, made.task, made.recipe, "a test")
    clip = made.task.item("test", 1)
    (tmp_path / "a.npz").write_bytes(file(images=clip.pixels.transpose(0, 2, 3, 1)))
    (line,) = model.answer(tmp_path / "a.npz")
    (first, second) = model.ask([model.Question(clip=tmp_path / "a.npz"), model.Question(example=1)])
    assert line.split("\t")[1] == first.text == second.text
    assert first.pictures[0].view().kind == "film"
    (tmp_path / "b.npz").write_text("text")
    with pytest.raises(ValueError, match=r"b\.npz: not a whole archive"):
        list(model.answer(tmp_path / "b.npz"))


def looked(made, split, row):
    """The caption of a clip, and weights on the frames of each word's event."""
    events = made.clip(split, row).events
    words = moves.caption(events).split()
    weights = torch.zeros(len(words), made.config.length)
    for place, number in moves.mentioned(words, events):
        weights[place, events[number].first : events[number].last + 1] = 0.25
    return Written(Words(words), weights, 0.0, 0.0)


def test_captions_that_are_true_and_point():
    made = generated()
    values = made.measure("test", [looked(made, "test", row) for row in range(12)])
    assert all(values[name] == pytest.approx(100) for name in ("bleu4", "true", "direction", "order", "pointing"))
    assert 100 * 4 / 12 < values["chance"] < 100 * 5 / 12


def test_a_direction_is_seen_in_the_frame_after_it_too():
    made = generated(events=1, length=12)
    rows = [row for row in range(12) if made.clip("test", row).events[0].last < 10]
    found = [looked(made, "test", row) for row in range(12)]
    for row in rows:
        (event,) = made.clip("test", row).events
        found[row].weights[4] = torch.eye(12)[event.last + 1]  # the direction
    assert made.measure("test", found)["pointing"] == 100
    for row in rows:
        (event,) = made.clip("test", row).events
        found[row].weights[2] = torch.eye(12)[event.last + 1]  # the shape
    assert made.measure("test", found)["pointing"] == pytest.approx(100 * (24 - len(rows)) / 24)


def test_events_in_the_wrong_order_are_counted():
    made = generated(events=2)
    rows = [row for row in range(12) if len(made.clip("test", row).events) == 2]
    found = [looked(made, "test", row) for row in range(12)]
    for row in rows:
        first, second = made.clip("test", row).events
        wrong = moves.caption([second._replace(direction="left"), first._replace(direction="left")])
        found[row] = Written(Words(wrong.split()), None, 0.0, 0.0)
    values = made.measure("test", found)
    assert values["order"] == 0 and values["true"] == pytest.approx(100 * (12 - len(rows)) / 12)
    assert values["direction"] < 100


def test_one_without_attention_has_no_weights(msvd):
    made = task(msvd)
    values = made.measure("test", [Written(Words(["a", "man", "runs"]), None, 0.0, 0.0)] * 4)
    assert values["bleu1"] == pytest.approx(100) and not values.keys() & {"variation", "pointing", "true"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"fit": "squach"}, "did you mean 'squash'"), ({"frames": 0}, "at least 1"), ({"events": 3}, "1 or 2 events")],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)


def test_the_real_clips():
    home = os.environ.get("REGARD_DATA")
    if not home or not os.path.exists(os.path.join(home, "msvd", "training_label.json")):
        pytest.skip("MSVD is not at hand: set REGARD_DATA to where msvd/training_label.json lies")
    made = VideoCaptions(Config(data="msvd"))
    sizes = {split: made.count(split) for split in ("train", "valid", "test")}
    assert sum(sizes.values()) == 1450 and sizes["valid"] >= 145 and sizes["test"] >= 290
    assert made.sizes["features"] == 256 and len(made.item("test", 0)) == 20
    assert isinstance(made.item("test", 0), Item)
