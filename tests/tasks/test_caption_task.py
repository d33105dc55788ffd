"""The task of captions, on scenes and on a few photographs in the format of Flickr8k."""

import numpy as np
import pytest
import torch
from PIL import Image

from regard.axes import Words
from regard.data import scenes
from regard.data.tokens import BOS, EOS, UNKNOWN
from regard.decode.written import Written
from regard.tasks.captions import Captions, Config

SAID = ["A red ball .", "a red ball", "the ball is red, I think", "A zebra !", "red"]


@pytest.fixture
def folder(tmp_path):
    """Twelve photographs; "zebra" is seen too seldom to be known."""
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    lines = [
        f"{n}.png#{k}\t{said if n % 4 == 0 or k < 3 else 'ball'}" for n in range(12) for k, said in enumerate(SAID)
    ]
    (tmp_path / "Flickr8k.token.txt").write_text("\n".join(lines))
    for part, rows in {"train": range(8), "dev": range(8, 12)}.items():
        (tmp_path / f"Flickr_8k.{part}Images.txt").write_text("".join(f"{row}.png\n" for row in rows))
    return tmp_path


def task(folder, **changes):
    settings = {"size": 32, "stage": 5, "store": str(folder / "store"), "batch": 4, "min_count": 3, "max_length": 6}
    return Captions(Config(data=str(folder), **{**settings, **changes}))


def test_words_are_those_seen_often_enough(folder):
    made = task(folder)
    assert made.words[4:] == ["a", "ball", "i", "is", "red", "the", "think"]
    assert made.sizes == {"vocab": 11, "features": 112, "longest": 6}
    assert str(made.write(made.encode("A Zebra, the red ball."))) == "a <unk> the red ball"
    assert "zebra" in task(folder, min_count=2).words


def test_a_batch_has_features_of_its_own_images(folder):
    made = task(folder)
    encoded = made._encoded("train")
    ids, owners = encoded.ids, encoded.owners
    features = made.features("train")
    seen = 0
    for batch in made.loader("train", seed=1):
        assert batch["features"].shape == (len(batch["target"]), 4, 112)
        for row, target, length in zip(batch["features"], batch["target"], batch["target_lengths"]):
            said = target[: length + 1].tolist()
            assert said[0] == BOS and said[-1] == EOS and 1 <= length <= 6
            owner = next(n for n in range(8) if torch.equal(row, features[n]))
            assert any(ids[place].tolist() == said for place in np.flatnonzero(owners == owner))
            seen += 1
    assert seen == 8 * 5


def test_captions_of_a_batch_are_of_like_length(folder):
    padding = [int((batch["target"] == 0).sum()) for batch in task(folder).loader("train", seed=1)]
    assert sum(padding) <= 4


def test_references_and_images_of_a_split(folder):
    made = task(folder)
    assert made.count("valid") == 4
    assert made.references("valid", [0]) == [[said.replace("  ", " ") for said in SAID]]
    torch.testing.assert_close(made.images([made.item("valid", 2)])["features"][0], made.features("valid")[2])
    prepared = made.images([made.photograph(folder / "10.png")])["features"][0]
    torch.testing.assert_close(prepared, made.features("valid")[2], atol=0.02, rtol=1e-3)
    with pytest.raises(ValueError, match="no images for 'test', only for train and valid: --split valid"):
        made.loader("test")
    assert made.shown == "valid" and made.suggested()[-1] == {"example": 3}  # for who looks, not for who measures


def test_without_the_data_it_can_caption(folder, tmp_path):
    made = task(folder)
    made.save(tmp_path / "task")
    (folder / "Flickr8k.token.txt").unlink()
    other = Captions.load(tmp_path / "task")
    assert Captions(Config(data="flickr8k"), folder, known=made.known).origin() == folder.name
    assert other.words == made.words
    assert other.images([other.photograph(folder / "3.png")])["features"].shape == (1, 4, 112)


def test_a_missing_image_is_an_error_or_left_out(folder):
    (folder / "3.png").unlink()
    with pytest.raises(ValueError, match=r"trainImages\.txt:4: 3\.png is not in"):
        task(folder)
    left = task(folder, skip_bad=True)
    assert left.count("train") == 7 and "left out" in left.loader("train").report()


def test_a_broken_photograph_is_named_or_left_out(folder):
    for number in (1, 3):  # two of one content
        (folder / f"{number}.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"1\.png: not a JPEG, PNG or WebP image.* with --skip-bad"):
        task(folder).loader("train")
    left = task(folder, skip_bad=True)
    report = left.loader("train").report()
    assert left.count("train") == 6 and left.features("train").shape[0] == len(left.references("train", range(6)))
    assert f"left out 2 bad lines: 2 that cannot be read (first: {folder / '1.png'})" in report
    for number in range(8, 12):
        (folder / f"{number}.png").write_text("x")
    with pytest.raises(ValueError, match=r"10\.png: no picture of its split can be read"):
        left.loader("valid")


def scenic(**changes):
    return Captions(Config(**{"batch": 8, "train_size": 20, "valid_size": 12, **changes}))


def test_scenes_are_new_in_every_epoch_of_training_alone():
    made = scenic()
    train, valid = made.loader("train", seed=0), made.loader("valid")
    first, second = ([batch["image"] for batch in train] for _ in range(2))
    assert [len(image) for image in first] == [8, 8, 4]
    assert not any(torch.equal(*pair) for pair in zip(first, second))
    assert all(torch.equal(*pair) for pair in zip(*([b["image"] for b in valid] for _ in range(2))))


def test_scenes_do_not_depend_on_the_batch():
    one, other = (torch.cat([b["image"] for b in scenic(batch=size).loader("valid")]) for size in (8, 5))
    assert torch.equal(one, other)


def test_what_is_said_of_a_scene_is_true():
    made = scenic()
    (batch, _) = made.loader("valid")
    for row, target in enumerate(batch["target"]):
        said = str(made.write([token for token in target.tolist() if token > UNKNOWN]))
        assert said in made.references("valid", [row])[0] == scenes.captions(made.scene("valid", row).things)
    assert torch.equal(made.images([made.item("valid", row) for row in range(8)])["image"], batch["image"])
    assert batch["image"].min() >= 0 and batch["image"].max() <= 1


def test_captions_are_compared():
    made = scenic()
    said = Words(made.references("valid", [0])[0][0].split())
    found = made.measure("valid", [Written(said, None, 0.0, 0.0)])
    assert found["bleu4"] == pytest.approx(100) and found.keys() >= {"bleu1", "rouge_l", "cider_d"}
    assert "bleu4" in made.signatures


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"fit": "squach"}, "did you mean 'squash'"), ({"batch": 0}, "at least 1"), ({"objects": 5}, "more than 3")],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)


def test_stages_are_checked(folder):
    with pytest.raises(ValueError, match="stages 1 to 8"):
        _ = task(folder, stage=9).sizes
