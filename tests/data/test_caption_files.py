import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data import captions
from regard.data.lines import BadLines


def image(path, number=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path)


def names(many):
    return [each.photograph.member or each.photograph.file.name for each in many]


@pytest.fixture
def flickr(tmp_path):
    """Images as another kind of file in an archive, as the lists do not name them."""
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for number in range(5):
            image(tmp_path / "x" / f"{number}.webp", number)
            archive.write(tmp_path / "x" / f"{number}.webp", f"photos/{number}.webp")
            (tmp_path / "x" / f"{number}.webp").unlink()
    (tmp_path / "x").rmdir()
    lines = [f"{n}.jpg#{k}\tA  dog {n} {k} ." for n in range(5) for k in range(2)]
    (tmp_path / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for part, rows in {"train": "201", "dev": "3", "test": "4"}.items():
        (tmp_path / f"Flickr_8k.{part}Images.txt").write_text("".join(f"{row}.jpg\n" for row in rows))
    return tmp_path


def test_flickr8k(flickr):
    found = captions.read(flickr)
    assert {split: names(many) for split, many in found.items()} == {
        "train": ["photos/2.webp", "photos/0.webp", "photos/1.webp"],
        "valid": ["photos/3.webp"],
        "test": ["photos/4.webp"],
    }
    assert found["train"][0].captions == ["A dog 2 0 .", "A dog 2 1 ."]


def test_flickr8k_in_a_folder_without_a_test_list(flickr):
    (flickr / "images.zip").unlink()
    (flickr / "Flickr_8k.testImages.txt").unlink()
    for number in range(5):
        image(flickr / "Flicker8k_Dataset" / f"{number}.jpg", number)
    assert {split: names(many) for split, many in captions.read(flickr).items()} == {
        "train": ["2.jpg", "0.jpg", "1.jpg"],
        "valid": ["3.jpg"],
    }


def test_a_missing_image_is_named_with_file_and_line(flickr):
    with (flickr / "Flickr_8k.trainImages.txt").open("a") as file:
        file.write("9.jpg\n")
    with pytest.raises(ValueError, match=r"trainImages\.txt:4: 9\.jpg is not in .*images\.zip.*--skip-bad"):
        captions.read(flickr)
    bad = BadLines(skip=True)
    assert len(captions.read(flickr, bad)["train"]) == 3 and bad.total == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [("1.jpg#5\t  ", "an empty caption of 1"), ("nothing", "not name#number"), ("", "not name#number")],
)
def test_a_bad_caption_is_named_with_file_and_line(flickr, line, message):
    with (flickr / "Flickr8k.token.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=rf"Flickr8k\.token\.txt:11: {message}"):
        captions.read(flickr)


def test_text_that_is_not_utf8_is_named(flickr):
    with (flickr / "Flickr8k.token.txt").open("ab") as file:
        file.write(b"1.jpg#5\tcaf\xe9\n")
    with pytest.raises(ValueError, match=r"Flickr8k\.token\.txt:11: not UTF-8"):
        captions.read(flickr)


def coco(folder, part, numbers, **changes):
    about = {
        "images": [{"id": n, "file_name": f"{part}_{n}.jpg"} for n in numbers],
        "annotations": [{"image_id": n, "caption": f"A cat {n} {k}."} for n in numbers for k in range(2)],
        **changes,
    }
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations" / f"captions_{part}.json").write_text(json.dumps(about))
    for n in numbers:
        image(folder / part / f"{part}_{n}.jpg", n)


def test_coco(tmp_path):
    coco(tmp_path, "train2014", [3, 1])
    coco(tmp_path, "val2014", [7])
    (tmp_path / "annotations" / "instances_val2014.json").write_text("{}")
    found = captions.read(tmp_path)
    assert {split: names(many) for split, many in found.items()} == {
        "train": ["train2014_3.jpg", "train2014_1.jpg"],
        "valid": ["val2014_7.jpg"],
    }
    assert found["valid"][0].captions == ["A cat 7 0.", "A cat 7 1."]


def test_mistakes_in_coco_are_named(tmp_path):
    coco(tmp_path, "train2014", [3, 1])
    path = tmp_path / "annotations" / "captions_train2014.json"
    about = json.loads(path.read_text())
    for damage, message in (
        ({"annotations": [{"image_id": 3, "caption": " "}]}, r"annotation 1, of train2014_3\.jpg, is empty"),
        ({"annotations": [{"image_id": 8, "caption": "x"}]}, "annotation 1 is of image 8"),
        ({"annotations": [{"image_id": [8], "caption": "x"}]}, r"annotation 1 is of image \[8\]"),
        ({"annotations": [{"caption": "x"}]}, "not the captions of COCO"),
        ({"images": 3}, "not the captions of COCO"),
    ):
        path.write_text(json.dumps({**about, **damage}))
        with pytest.raises(ValueError, match=rf"captions_train2014\.json.*{message}"):
            captions.read(tmp_path)
    for damaged in ("{", f'{{"images": {"9" * 5000}}}'):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"captions_train2014\.json: not JSON"):
            captions.read(tmp_path)
    (tmp_path / "train2014" / "train2014_3.jpg").unlink()
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"train2014_3\.jpg is not in"):
        captions.read(tmp_path)


def test_a_table_is_divided_by_name(tmp_path):
    for number in range(20):
        image(tmp_path / f"{number}.png", number)
    lines = [f"{n}.png\ta thing\n{n}.png\tsome thing {n}\n" for n in range(20)]
    (tmp_path / "captions.tsv").write_text("".join(lines))
    found = captions.read(tmp_path)
    assert {split: len(many) for split, many in found.items()} == {"train": 16, "valid": 2, "test": 2}
    everyone = [name for many in found.values() for name in names(many)]
    assert sorted(everyone) == sorted(f"{n}.png" for n in range(20))
    assert all(len(each.captions) == 2 for many in found.values() for each in many)
    (tmp_path / "captions.tsv").write_text("".join(reversed(lines)))
    assert {split: names(many) for split, many in captions.read(tmp_path).items()} == {
        split: names(many) for split, many in found.items()
    }


def test_a_table_for_each_split(tmp_path):
    for number, split in enumerate(("train", "valid", "test")):
        image(tmp_path / split / "images" / "a.jpg", number)
        (tmp_path / split / "captions.tsv").write_text("images/a.jpg\ta thing\n\na.jpg\tone\n")
    found = captions.read(tmp_path)
    assert {split: [each.captions for each in many] for split, many in found.items()}["test"] == [["a thing"], ["one"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png\tone\nb.png\ttwo\n", r"captions\.tsv:2: b\.png is not in"),
        ("a.png\tone\na.png\t \n", r"captions\.tsv:2: an empty caption of a\.png"),
        ("a.png\tone\na.png two\n", r"captions\.tsv:2: no tab"),
        ("a.png\tone\n", "1 images are too few"),
    ],
)
def test_mistakes_in_a_table_are_named(tmp_path, text, message):
    image(tmp_path / "a.png")
    (tmp_path / "captions.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        captions.read(tmp_path)


def test_a_folder_without_captions(tmp_path):
    with pytest.raises(ValueError, match=r"no captions are in it; captions\.tsv"):
        captions.read(tmp_path)
    with pytest.raises(ValueError, match="a folder with photographs and captions"):
        captions.read(tmp_path / "none")
