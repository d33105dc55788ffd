"""Questions as they lie on disk: DAQUAR, VQA, a folder with questions.tsv."""

import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data import visual_questions
from regard.data.lines import BadLines
from regard.data.photographs import Photograph, divided
from regard.data.visual_questions import Asked, plain


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)


@pytest.fixture
def daquar(tmp_path):
    folder = tmp_path / "daquar"
    folder.mkdir()
    lines = []
    with zipfile.ZipFile(folder / "images-320.zip", "w") as archive:
        for number in range(1, 41):
            picture(tmp_path / "one.jpg")
            archive.write(tmp_path / "one.jpg", f"image{number}.jpg")
            lines += [f"what is on the desk in the image{number} ?", "book,  Scissor", f"how many image{number} ?", "2"]
    (folder / "qa_pairs.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_daquar(daquar):
    found = visual_questions.read(daquar)
    one = found["train"][0]
    assert (one.question, one.answers) == ("what is on the desk", ["book, scissor"])
    assert one.photograph.member.startswith("image")
    images = {split: {each.photograph for each in many} for split, many in found.items()}
    assert {split: len(many) for split, many in images.items()} == {"train": 30, "valid": 3, "test": 7}
    assert not images["train"] & (images["valid"] | images["test"]) and not images["valid"] & images["test"]
    assert sum(map(len, found.values())) == 80


def test_the_split_of_the_real_one(tmp_path):
    """155 of 795 images are held out."""
    many = [Asked(Photograph(tmp_path / f"image{number}.jpg"), "what is it", ["2"]) for number in range(795)]
    found = divided(many, tmp_path, visual_questions.TEST, visual_questions.VALID)
    assert {split: len(part) for split, part in found.items()} == {"train": 577, "valid": 63, "test": 155}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("what is on the desk in the image3 ?", "what is on the desk"),
        ("what is on the right side of the image1375 ?", "what is on the right side"),
        ("what colour is the image12 and its frame ?", "what colour is the image and its frame"),
        ("how many chairs are there on the image888?", "how many chairs are there"),
    ],
)
def test_the_name_of_the_image_is_no_part_of_a_question(written, expected):
    assert plain(written) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["what is this ?", "chair"], "qa_pairs.txt:1: a question that names no image"),
        (["what is in the image1 ?", "what is in the image2 ?", "chair"], "txt:1: a question without an answer"),
        (["what is in the image99 ?", "chair"], "qa_pairs.txt:1: image99 is not in"),
    ],
)
def test_lines_that_cannot_be_used(daquar, lines, message):
    path = daquar / "qa_pairs.txt"
    path.write_text("\n".join([*lines, path.read_text()]))
    with pytest.raises(ValueError, match=message):
        visual_questions.read(daquar)
    bad = BadLines(skip=True)
    assert sum(map(len, visual_questions.read(daquar, bad).values())) in (80, 81)
    assert bad.total in (1, 2)


@pytest.fixture
def vqa(tmp_path):
    for year, first in (("train2014", 1), ("val2014", 50)):
        questions, notes = [], []
        for number in range(first, first + 4):
            picture(tmp_path / year / f"COCO_{year}_{number:012d}.jpg")
            questions.append({"question_id": 10 * number, "image_id": number, "question": "Is it  red?"})
            answers = [{"answer": "Yes"}] * 7 + [{"answer": "no"}] * 3
            notes.append({"question_id": 10 * number, "image_id": number, "answers": answers})
        name = f"mscoco_{year}"
        (tmp_path / f"OpenEnded_{name}_questions.json").write_text(json.dumps({"questions": questions}))
        (tmp_path / f"{name}_annotations.json").write_text(json.dumps({"annotations": notes}))
    return tmp_path


def test_vqa(vqa):
    found = visual_questions.read(vqa)
    assert {split: len(many) for split, many in found.items()} == {"train": 4, "valid": 4}
    one = found["valid"][0]
    assert one.photograph.file.name == "COCO_val2014_000000000050.jpg"
    assert one.question == "Is it red?" and one.answers == ["yes"] * 7 + ["no"] * 3
    for path in vqa.glob("*.json"):
        path.rename(path.with_name(f"v2_{path.name}"))  # VQA v2 has the same format
    assert visual_questions.read(vqa) == found


def test_vqa_that_cannot_be_read(vqa):
    path = vqa / "mscoco_val2014_annotations.json"
    path.write_text('{"annotations": [{"question_id": 1}]}')
    with pytest.raises(ValueError, match=r"mscoco_val2014_annotations\.json: not as VQA has it"):
        visual_questions.read(vqa)
    for damaged in ("{", f'{{"annotations": {"9" * 5000}}}'):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"mscoco_val2014_annotations\.json: not JSON"):
            visual_questions.read(vqa)
    path.write_text('{"annotations": [{"question_id": [510], "answers": []}]}')
    with pytest.raises(ValueError, match=r"question 1 .* has no answer"):
        visual_questions.read(vqa)
    path.unlink()
    with pytest.raises(ValueError, match=r"the answers, mscoco_val2014_annotations\.json, are not beside it"):
        visual_questions.read(vqa)


def test_vqa_with_a_missing_image(vqa):
    (vqa / "train2014" / "COCO_train2014_000000000002.jpg").unlink()
    with pytest.raises(ValueError, match=r"COCO_train2014_000000000002\.jpg, which is not in"):
        visual_questions.read(vqa)
    assert len(visual_questions.read(vqa, BadLines(skip=True))["train"]) == 3


def test_a_table(tmp_path):
    lines = []
    for number in range(12):
        picture(tmp_path / "images" / f"{number}.png")
        lines.append(f"{number}.png\tWhat is this?\tA  Chair")
    (tmp_path / "questions.tsv").write_text("\n".join(lines))
    found = visual_questions.read(tmp_path)
    assert {split: len(many) for split, many in found.items()} == {"train": 9, "valid": 1, "test": 2}
    assert found["test"][0].answers == ["a chair"]
    (tmp_path / "questions.tsv").write_text("\n".join([*lines, "1.png\tno answer"]))
    with pytest.raises(ValueError, match=r"questions\.tsv:13: not a file, a question and an answer"):
        visual_questions.read(tmp_path)


def test_no_questions(tmp_path):
    with pytest.raises(ValueError, match="no questions are in it"):
        visual_questions.read(tmp_path)
    with pytest.raises(ValueError, match="a folder with photographs and questions was expected"):
        visual_questions.read(tmp_path / "nowhere")
