"""Strokes from files of each format, what is said of bad ones, and letters that are made."""

import json
import re

import numpy as np
import pytest

from regard.data import letters, strokes
from regard.data.lines import BadLines

SQUARE = [[[0, 0], [4, 0], [4, 4]], [[1, 1], [2, 3]]]


def write(folder, *objects, name="mine.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def test_offsets_and_back():
    points = strokes.of(SQUARE)
    assert points.tolist() == [[0, 0, 0], [4, 0, 0], [0, 4, 1], [-3, -3, 0], [1, 2, 1]]
    for one, other in zip(strokes.strokes(points), SQUARE, strict=True):
        assert one.tolist() == other


def test_json_lines_and_their_split(tmp_path):
    path = write(tmp_path, *({"text": f"line {i}", "strokes": SQUARE, "id": f"f{i:02}-000u-01"} for i in range(60)))
    found = strokes.read(path)
    assert sum(map(len, found.values())) == 60 and all(found.values())
    assert strokes.read(tmp_path).keys() == found.keys()
    assert found["train"][0].text.startswith("line ")


def test_few_forms_stay_together_too(tmp_path):
    ids = [f"f{form}-000{writer}-0{n}" for form in range(4) for writer in "uw" for n in range(5)]
    found = strokes.read(write(tmp_path, *({"strokes": SQUARE, "id": each} for each in ids)))
    forms = [{line.name[:6] for line in many} for many in found.values()]
    assert all(forms) and sum(map(len, forms)) == 4 and len(set.union(*forms)) == 4
    single = strokes.read(write(tmp_path, *({"strokes": SQUARE, "id": each} for each in ids[:10])))
    assert [len(many) for many in single.values()] == [8, 1, 1]  # one form: its lines are parted


def test_a_hyphen_in_the_name_of_a_file_groups_no_lines(tmp_path):
    path = write(tmp_path, *({"strokes": SQUARE} for _ in range(200)), name="my-own-drawings.jsonl")
    found = strokes.read(path)
    assert min(len(found["valid"]), len(found["test"])) > 10


def test_lines_of_one_form_stay_together(tmp_path):
    ids = [f"f{i:02}-{j:03}{writer}-0{n}" for i in range(12) for j in range(3) for writer in "uwx" for n in (1, 2)]
    found = strokes.read(write(tmp_path, *({"strokes": SQUARE, "id": each} for each in ids)))
    forms = [{line.name[:7] for line in many} for many in found.values()]
    assert sum(map(len, forms)) == 36 and len(set.union(*forms)) == 36


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1, 2]", "not {"),
        ('{"text": "a"}', "not {"),
        ("{", "not JSON"),
        ('{"text": 3, "strokes": [[[0, 0], [1, 1]]]}', "text and id are strings"),
        ('{"txt": "a", "strokes": [[[0, 0], [1, 1]]]}', "did you mean 'text'"),
        ('{"Text": "a", "Strokes": [[[0, 0], [1, 1]]]}', "unknown key 'Text': did you mean 'text'"),
        ('{"text": "a", "STROKES": [[[0, 0], [1, 1]]]}', "did you mean 'strokes'"),
        ('{"strokes": []}', "at least one stroke"),
        ('{"strokes": [[[0, 0, 1]]]}', "stroke 1 is not a list of points"),
        ('{"strokes": [[[0, 0], [1, 1]], [["a", 1]]]}', "stroke 2 is not a list of points"),
        ('{"strokes": [[[0, NaN], [1, 1]]]}', "not finite"),
        ('{"strokes": [[[0, 1e9], [1, 1]]]}', "beyond 1,000,000"),
        pytest.param('{"strokes": [[[0, 1' + 400 * "0" + "], [1, 1]]]}", "stroke 1 is not a list of points", id="huge"),
        ('{"strokes": [[[0, 0]]]}', "from 2 to 100,000 points, not 1"),
        (json.dumps({"text": "a" * 2000, "strokes": SQUARE}), "2,000 characters is too long"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"strokes": SQUARE}) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        strokes.objects(path)
    assert str(error.value).startswith(f"{path}:2: ")
    bad = BadLines(skip=True)
    assert len(strokes.objects(path, bad)) == 1 and bad.total == 1


def arrays(folder, name="lines.npz", **changes):
    points = np.array([[9, 9, 0], [1, 2, 1], [0, 0, 0], [3, 4, 1], [7, 7, 0], [1, 1, 1]], np.int16)
    held = {"points": points, "offsets": np.array([0, 2, 4, 6]), "ids": np.array(["a-0-1", "b-0-1", "c-0-1"])}
    np.savez(folder / name, **{**held, "text": np.array(["one", "two", "six"]), **changes})
    return folder / name


def test_arrays_of_lines(tmp_path):
    path = arrays(tmp_path)
    found = strokes.read(tmp_path)
    every = sorted((line.name, line.text) for many in found.values() for line in many)
    assert every == [("a-0-1", "one"), ("b-0-1", "two"), ("c-0-1", "six")]
    assert all(line.points[0, :2].tolist() == [0, 0] for many in strokes.read(path).values() for line in many)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"points": np.zeros((6, 2), np.int16)}, r"points \(6, 2\); \(N, 3\)"),
        ({"offsets": np.array([0, 2, 5])}, "do not part 6 points"),
        ({"text": np.array(["one"])}, "1 text for 3 lines"),
        ({"points": np.full((6, 3), 2, np.int16)}, "pen-up of point 0"),
        ({"points": np.full((6, 3), np.nan, np.float32)}, "point 0 of points"),
        ({"points": np.array([[0, 0, 0]] * 5 + [[0, 0, np.nan]], np.float32)}, "pen-up of point 5"),
        ({"offsets": np.array([0.0, 2, 4, 6])}, "offsets are float64"),
    ],
)
def test_bad_arrays_are_named(tmp_path, changes, said):
    path = arrays(tmp_path, **changes)
    with pytest.raises(ValueError, match=said) as error:
        strokes.read(path)
    assert str(path) in str(error.value)


def test_drawings_have_splits_of_their_own(tmp_path):
    drawn = np.array([[0, 0, 0], [5, 0, 1], [0, 0, 0], [0, 5, 1]], np.int16)
    parts = dict.fromkeys(("train", "valid", "test"), drawn)
    np.savez(tmp_path / "signs.npz", **parts, **{f"{split}_offsets": np.array([0, 2, 4]) for split in parts})
    found = strokes.read(tmp_path, file="signs.npz")
    assert {split: len(many) for split, many in found.items()} == {"train": 2, "valid": 2, "test": 2}
    (line,) = strokes.joined(found["test"], 2)
    first, second = strokes.strokes(line.points)
    assert np.ptp(first[:, 0]) == pytest.approx(100) and np.ptp(second[:, 1]) == pytest.approx(100)
    assert second[:, 0].mean() - first[:, 0].mean() == pytest.approx(130)
    with pytest.raises(ValueError, match=r"signs\.npz"):
        strokes.read(tmp_path, file="sings.npz")


def test_nothing_to_read(tmp_path):
    with pytest.raises(ValueError, match="no strokes are in it"):
        strokes.read(tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        strokes.read(tmp_path / "x.jsonl")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"\.jsonl or \.npz"):
        strokes.read(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="3 are needed"):
        strokes.read(write(tmp_path, {"strokes": SQUARE}))


def test_thinned_strokes_keep_their_ends():
    points = letters.draw("hi", np.random.default_rng(0)).points
    thin = strokes.thinned(points, 3)
    assert thin[:, 2].sum() == points[:, 2].sum() and len(thin) < 0.6 * len(points)
    for whole, part in zip(strokes.strokes(points), strokes.strokes(thin), strict=True):
        assert np.allclose(whole[[0, -1]], part[[0, -1]], atol=1e-3)
    assert strokes.thinned(points, 1) is points


def test_made_lines():
    random = np.random.default_rng(1)
    text = letters.words(random, 20)
    line = letters.draw(text, random)
    assert 2 <= len(text) <= 20 and set(text) <= {*letters.ALPHABET, " "}
    assert line.letters is not None and len(line.letters) == len(line.points)
    assert (np.diff(line.letters) >= 0).all()
    assert {text[i] for i in line.letters} == set(text) - {" "}
    again = np.random.default_rng(1)
    same = letters.draw(letters.words(again, 20), again)
    assert np.array_equal(same.points, line.points)
    for letter in letters.ALPHABET:
        assert letters.draw(letter, random).points[:, 2].sum() == letters.FONT[letter].count("|") + 1
    with pytest.raises(ValueError, match="no letter 'É'"):
        letters.draw("É", random)
    with pytest.raises(ValueError, match="at least one letter"):
        letters.draw(" ", random)
