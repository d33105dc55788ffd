"""Utterances on disk: transcripts, AN4, recordings of digits."""

import io
import zipfile

import numpy as np
import pytest
import soundfile

from regard import questions
from regard.data import sound, utterances
from regard.data.lines import BadLines

WAVE = sound.wav((0.5 * np.sin(np.arange(4000) / 3)).astype(np.float32))


def folder(path, lines, files=()):
    path.mkdir(parents=True, exist_ok=True)
    for name in files:
        (path / name).write_bytes(WAVE)
    (path / utterances.TABLE).write_text("\n".join(lines) + "\n")
    return path


def named(count):
    return [f"{number}.wav" for number in range(count)]


def test_a_folder_is_divided_and_nothing_is_lost(tmp_path):
    lines = [f"{name}\tsaying  {name[0]}" for name in named(10)]
    found = utterances.read(folder(tmp_path / "a", lines, named(10)))
    assert {split: len(many) for split, many in found.items()} == {"train": 8, "valid": 1, "test": 1}
    assert {each.name for many in found.values() for each in many} == set(named(10))
    assert all(each.text == f"saying {each.name[0]}" and each.file.is_file() for each in found["train"])


def test_speakers_are_held_out(tmp_path):
    lines = [f"{name}\tyes\tspeaker {int(name[0]) % 4}" for name in named(10)]
    found = utterances.read(folder(tmp_path / "a", lines, named(10)))
    speakers = [{each.speaker for each in many} for many in found.values()]
    assert all(speakers) and not speakers[0] & speakers[1] and not speakers[0] & speakers[2]


def test_speakers_are_held_out_also_where_one_is_not_named(tmp_path):
    files = [f"{number:02}.wav" for number in range(40)]
    lines = [f"{name}\tyes\tspeaker {int(name[:2]) % 4}" for name in files[:-1]] + [f"{files[-1]}\tyes"]
    found = utterances.read(folder(tmp_path / "a", lines, files))
    speakers = [{each.speaker for each in many} - {""} for many in found.values()]
    assert sum(map(len, speakers)) == 4 and sum(map(len, found.values())) == 40


def test_a_folder_for_each_split(tmp_path):
    for split, files in {"train": named(3), "test": named(1)}.items():
        folder(tmp_path / split, [f"{name}\tyes" for name in files], files)
    found = utterances.read(tmp_path)
    assert {split: len(many) for split, many in found.items()} == {"train": 3, "test": 1}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("missing.wav\tyes", "there is no sound file"),
        ("../out.wav\tyes", "../out.wav is not in .*; only files of that folder"),
        ("/tmp/out.wav\tyes", "/tmp/out.wav is not in .*; only files of that folder"),
        ("0.wav\tyes\tanna\t1999", "4 columns; a file, what is said and who says it"),
        ("0.wav yes", "no tab between a file and what is said"),
        ("0.wav\t ", "nothing is said in 0.wav"),
        ("transcripts.tsv\tyes", "is no sound file .*wav .flac .mp3"),
        ("1.wav\tagain", "1.wav has a transcript already"),
        ("./sub/../1.wav\tagain", "1.wav has a transcript already"),
    ],
)
def test_a_bad_line_is_named_or_left_out(tmp_path, line, told):
    lines = [*(f"{name}\tyes" for name in named(5)[1:]), line]
    place = folder(tmp_path / "a", lines, named(5))
    with pytest.raises(ValueError, match=told) as error:
        utterances.read(place)
    assert f"{utterances.TABLE}:5:" in str(error.value)
    bad = BadLines(skip=True)
    assert sum(map(len, utterances.read(place, bad).values())) == 4 and bad.total == 1


def test_tables_as_other_programs_write_them(tmp_path):
    names = ["ein Größe.WAV", "sub/b.flac", "c.mp3", "d.ogg"]
    (tmp_path / "sub").mkdir()
    for name in [*names, "more.wav"]:
        tone = 0.5 * np.sin(np.arange(4000) / 3)
        soundfile.write(tmp_path / name, tone, 8000, format=name[-3:].upper().replace("LAC", "FLAC"))
    rows = "\r\n".join(f"{name}\tsaid\tanna\t" for name in names)
    (tmp_path / utterances.TABLE).write_bytes(f"\ufeff{rows}\r\n".encode())
    found = utterances.read(tmp_path)
    assert sorted(each.name for many in found.values() for each in many) == sorted(names)
    assert all(len(sound.read(each.file)) >= 4000 for many in found.values() for each in many)
    assert {each.speaker for many in found.values() for each in many} == {"anna"}
    assert utterances.unnamed(tmp_path, found) == 1
    assert questions.Sound.suffixes == sound.SUFFIXES  # what a folder of questions is looked through for


def test_what_is_no_such_folder_is_told(tmp_path):
    with pytest.raises(ValueError, match="no transcripts are in it"):
        utterances.read(tmp_path)
    with pytest.raises(ValueError, match="2 utterances are too few"):
        utterances.read(folder(tmp_path / "a", [f"{name}\tyes" for name in named(2)], named(2)))


def an4(path, **change):
    ids = np.array([f"an{n}-sp{n % 5}-b" for n in range(20)])
    arrays = {
        "frames": np.random.default_rng(0).standard_normal((60, 13)).astype(np.float16),
        "offsets": np.arange(0, 61, 3).astype(np.int32),
        "ids": ids,
        "text": np.array(["GO ON"] * 20),
        **change,
    }
    np.savez(path / "an4_mfcc13.npz", **arrays)
    return path


def test_an4_holds_out_speakers(tmp_path):
    found = utterances.read(an4(tmp_path))
    speakers = {split: {each.speaker for each in many} for split, many in found.items()}
    assert {split: len(many) for split, many in speakers.items()} == {"train": 3, "valid": 1, "test": 1}
    assert not speakers["train"] & (speakers["valid"] | speakers["test"])
    assert all(each.frames.shape == (3, 13) and each.text == "go on" for each in found["train"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"offsets": np.arange(0, 58, 3).astype(np.int32)}, "20 offsets"),
        ({"offsets": np.arange(0.0, 61, 3)}, "offsets are a row of whole numbers"),
        ({"offsets": np.array([0, -3, *range(6, 61, 3)])}, "offset 1 is below the one before it"),
        ({"offsets": np.array(60)}, "offsets are a row of whole numbers"),
        ({"frames": np.full((60, 13), np.nan, np.float16)}, "the frames of an0-sp0-b are missing or not finite"),
        ({"ids": np.arange(20)}, "not the header of an array of texts"),
    ],
)
def test_damage_to_an4_is_told(tmp_path, change, told):
    with pytest.raises(ValueError, match=told):
        utterances.read(an4(tmp_path, **change))


def archive(path, names):
    with zipfile.ZipFile(path / "recordings.zip", "w") as file:
        for name in names:
            file.writestr(name, WAVE)
    return path


def test_digits_from_an_archive_or_a_folder(tmp_path):
    names = [f"{digit}_{who}_0.wav" for digit in range(10) for who in ("ann", "bob")]
    found = utterances.digits(archive(tmp_path, [*names, "README.md"]))
    assert [(each.digit, each.speaker) for each in found[:2]] == [(0, "ann"), (0, "bob")] and len(found) == 20
    other = tmp_path / "other" / "recordings"
    other.mkdir(parents=True)
    for name in names:
        (other / name).write_bytes(WAVE)
    assert [each[:2] for each in utterances.digits(other.parent)] == [each[:2] for each in found]


def test_missing_and_broken_digits_are_told(tmp_path):
    with pytest.raises(ValueError, match="no spoken digits are in it"):
        utterances.digits(tmp_path)
    with pytest.raises(ValueError, match="nobody says 0, 2, 3, 4, 5, 6, 7, 8, 9"):
        utterances.digits(archive(tmp_path, ["1_ann_0.wav"]))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("1_ann_0.wav", b"text")
    (tmp_path / "recordings.zip").write_bytes(data.getvalue())
    with pytest.raises(ValueError, match=r"recordings.zip, 1_ann_0.wav: not sound that can be read"):
        utterances.digits(tmp_path)


@pytest.mark.parametrize("count", [3, 5, 16, 48])
def test_every_split_has_speakers_of_its_own(count):
    found = utterances.held_out(f"{number:02}" for number in range(count))
    splits = list(found.values())
    assert len(found) == count and {"train", "valid", "test"} == set(splits)
    if count == 48:
        assert (splits.count("test"), splits.count("valid")) == (6, 3)
