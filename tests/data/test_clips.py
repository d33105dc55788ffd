"""Clips on disk: MSVD's format and folders of one's own, and what is said of mistakes."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from regard.data import clips, untrusted
from regard.data.lines import BadLines


def features(seed=0, shape=(5, 6)):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.fixture
def msvd(tmp_path):
    """Thirty clips of twelve videos."""
    ids = [f"video{n % 12:06d}_{n}_{n + 4}.avi" for n in range(30)]
    np.savez_compressed(tmp_path / "vgg.npz", features=features(shape=(30, 5, 6)), ids=np.array(ids))
    said = [{"id": name, "caption": [f"A thing {n}.", "A man is <b>.", ""]} for n, name in enumerate(ids)]
    (tmp_path / "training_label.json").write_text(json.dumps(said))
    return tmp_path


def test_msvd_is_divided_by_video(msvd):
    found = clips.read(msvd)
    sizes = {split: len(many) for split, many in found.items()}
    assert sum(sizes.values()) == 30 and sizes["train"] > sizes["test"] > sizes["valid"] > 0
    videos = [{clips.video(clip.name) for clip in many} for many in found.values()]
    assert not videos[0] & videos[1] and not videos[0] & videos[2] and not videos[1] & videos[2]
    held = {clip.name: clip for many in found.values() for clip in many}
    whole = features(shape=(30, 5, 6))
    for n, clip in enumerate(sorted(held.values(), key=lambda clip: int(clip.name.split("_")[1]))):
        assert np.array_equal(clip.features, whole[n]) and clip.captions == [f"A thing {n}.", "A man is <b>."]


def test_the_split_depends_on_names_alone(msvd):
    path = msvd / "training_label.json"
    before = {split: {clip.name for clip in many} for split, many in clips.read(msvd).items()}
    path.write_text(json.dumps(list(reversed(json.loads(path.read_text())))))
    assert {split: {clip.name for clip in many} for split, many in clips.read(msvd).items()} == before


def test_names_of_clips_and_videos():
    assert clips.video("kWLNZzuo3do_24_31.avi") == "kWLNZzuo3do" == clips.video("kWLNZzuo3do_1_2")
    assert clips.video("my_clip_1.npz") == "my_clip_1.npz"


def table(folder, names, frames=None):
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        np.savez(folder / f"{name}.npz", features=features(number) if frames is None else frames[number])
    (folder / "captions.tsv").write_text("".join(f"{name}\ta {name}\n\n{name}\tthe {name}\n" for name in names))


def test_a_file_for_each_clip(tmp_path):
    table(tmp_path, "abcdefghij")
    np.save(tmp_path / "k.npy", features(10, (3, 6)))
    with (tmp_path / "captions.tsv").open("a") as file:
        file.write("k\tanother\n")
    found = clips.read(tmp_path)
    assert {split: len(many) for split, many in found.items()} == {"train": 8, "valid": 1, "test": 2}
    held = {clip.name: clip for many in found.values() for clip in many}
    assert held["c"].captions == ["a c", "the c"] and np.array_equal(held["c"].features, features(2))
    assert held["k"].features.shape == (3, 6)


def test_a_folder_of_frames_for_each_clip(tmp_path):
    for split in ("train", "test"):
        for frame in ("2.png", "1.jpg", "notes.txt"):
            (tmp_path / split / "a").mkdir(parents=True, exist_ok=True)
            if frame != "notes.txt":
                Image.new("RGB", (8, 8)).save(tmp_path / split / "a" / frame)
        (tmp_path / split / "captions.tsv").write_text("a\tone\n")
    found = clips.read(tmp_path)
    assert list(found) == ["train", "test"]
    assert [each.file.name for each in found["test"][0].photographs] == ["1.jpg", "2.png"]


def test_frames_are_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 9, 100, 1):
        Image.new("RGB", (8, 8)).save(tmp_path / f"shot2-frame{number}.png")
    names = [each.file.stem.removeprefix("shot2-frame") for each in clips.frames_of(tmp_path)]
    assert names == ["1", "9", "10", "100"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("z\tnobody\n", r"captions\.tsv:31: the clip z is neither in an \.npz file nor at"),
        ("../a\tup\n", r"captions\.tsv:31: the clip \.\./a is neither"),
        ("a nobody\n", r"captions\.tsv:31: no tab"),
        ("a\t \n", r"captions\.tsv:31: an empty caption of a"),
    ],
)
def test_mistakes_in_a_table_are_named(tmp_path, line, message):
    table(tmp_path / "data", "abcdefghij")
    table(tmp_path, "a")
    with (tmp_path / "data" / "captions.tsv").open("a") as file:
        file.write(line)
    with pytest.raises(ValueError, match=message):
        clips.read(tmp_path / "data")
    bad = BadLines(skip=True)
    assert sum(map(len, clips.read(tmp_path / "data", bad).values())) == 10 and bad.total == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (features(shape=(5, 6, 2)), r"b\.npz: features \(5, 6, 2\); \(frames, width\) was expected"),
        (features(shape=(0, 6)), r"b\.npz: features \(0, 6\)"),
        (np.where(np.arange(5)[:, None] == 3, np.nan, features()), r"b\.npz: the features of frame 3 are not finite"),
        (features(shape=(5, 7)), r"the frames of .* have \d features and those of .* \d"),
        (np.array(["x"]), r"b\.npz, features: not the header of an array of numbers"),
    ],
)
def test_features_of_another_shape_are_named(tmp_path, values, message):
    table(tmp_path, "abcd", [features(), values, features(), features()])
    with pytest.raises(ValueError, match=message):
        clips.read(tmp_path)


def test_mistakes_in_msvds_files_are_named(msvd):
    path, archive = msvd / "training_label.json", msvd / "vgg.npz"
    right = json.loads(path.read_text())
    for wrong, message in (
        ("{", "not JSON"),
        ('{"a": 1}', "a list of clips was expected"),
        (json.dumps([*right, {"id": "x"}]), r"training_label\.json:31: entry 31 is not"),
        (json.dumps([*right, {"id": "x", "caption": [" "]}]), r"training_label\.json:31: x has no caption"),
        (json.dumps([*right, {"id": "x", "caption": ["y"]}]), r"training_label\.json:31: the clip x is neither"),
    ):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=message):
            clips.read(msvd)
    path.write_text(json.dumps(right))
    ids = np.array([entry["id"] for entry in right])
    for arrays, message in (
        ({"ids": ids}, r"vgg\.npz: there are ids in it but no features"),
        ({"ids": ids[:3], "features": features(shape=(30, 5, 6))}, r"features \(30, 5, 6\) for 3 ids"),
        ({"ids": ids, "features": features(shape=(30, 6))}, r"features \(30, 6\) for 30 ids"),
        ({"ids": np.arange(30), "features": features(shape=(30, 5, 6))}, "not the header of an array of texts"),
    ):
        np.savez(archive, **arrays)
        with pytest.raises(ValueError, match=message):
            clips.read(msvd)
    archive.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(ValueError, match=r"vgg\.npz: not a whole archive"):
        clips.read(msvd)


def test_a_folder_without_captions(tmp_path):
    with pytest.raises(ValueError, match=r"no captions are in it; captions\.tsv"):
        clips.read(tmp_path)
    with pytest.raises(ValueError, match="a folder with clips and captions"):
        clips.read(tmp_path / "none")
    table(tmp_path, "ab")
    with pytest.raises(ValueError, match="2 videos with captions are too few"):
        clips.read(tmp_path)
    table(tmp_path / "test", "a")
    with pytest.raises(ValueError, match=r"no train/captions\.tsv"):
        clips.read(tmp_path)


def held(**arrays):
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    return data.getvalue()


def test_a_clip_in_bytes():
    assert np.array_equal(clips.features(held(features=features())), features())
    images = np.random.default_rng(0).integers(0, 255, (4, 8, 6, 3), np.uint8)
    assert np.array_equal(clips.pixels(held(images=images)), images.transpose(0, 3, 1, 2))
    assert clips.pixels(held(features=features())) is None
    with pytest.raises(ValueError, match="the clip: there is no array called 'features'"):
        clips.features(held(images=images))
    with pytest.raises(ValueError, match=r"images \(4, 8, 6, 3\) of float64; .* of bytes"):
        clips.pixels(held(images=images / 255))
    with pytest.raises(ValueError, match="the clip: not a whole archive"):
        clips.features(b"text")
    with pytest.raises(ValueError, match="unpacks to more than 16 MB"):
        clips.features(held(features=np.zeros((5000, 1000), np.float32)))


def test_frames_at_equal_distances():
    assert clips.spaced(3, 5).tolist() == [0, 1, 2]
    assert clips.spaced(100, 4).tolist() == [12, 37, 62, 87]


def test_clips_side_by_side():
    padded, lengths = clips.pad([features(0, (2, 6)), features(1, (5, 6))])
    assert padded.shape == (2, 5, 6) and padded.dtype == np.float32 and lengths.tolist() == [2, 5]
    assert np.array_equal(padded[0, :2], features(0, (2, 6))) and not padded[0, 2:].any()


def test_texts_of_numpy(tmp_path):
    np.save(tmp_path / "a.npy", np.array(["one", "zwölf", ""]))
    data = (tmp_path / "a.npy").read_bytes()
    assert untrusted.texts(data, "a") == ["one", "zwölf", ""]
    with pytest.raises(ValueError, match="3 texts of 20 bytes are said to be 56 bytes"):
        untrusted.texts(data[:-4], "a")
    with pytest.raises(ValueError, match="are said to be"):  # not a trillion empty texts
        untrusted.texts(data.replace(b"<U5", b"<U0").replace(b"(3,)", b"(999999999999,)")[: -60 + 11], "a")
    with pytest.raises(ValueError, match="a: not text"):
        untrusted.texts(data[:-4] + b"\xff\xff\xff\xff", "a")
