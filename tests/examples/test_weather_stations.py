from __future__ import annotations

from pathlib import Path

import pytest
import torch
import weather_stations as example


def test_slide():
    query, stations = example.lecture()
    out = example.ask(query, stations)
    assert out.scores[0].tolist() == pytest.approx(example.SCORES, abs=1e-4)
    assert out.weights[0].tolist() == pytest.approx([0.52, 0.37, 0.068, 0.027, 0.013, 0.0054], abs=0.02)
    assert out.context[0].tolist() == pytest.approx([30.998, 47.999], abs=2e-3)


def test_division_by_the_sum_is_not_the_slide():
    out = example.ask(*example.lecture(), normalizer=example.Proportional())
    assert out.context[0].tolist() == pytest.approx([32.49, 47.11], abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_one_learned_number_beats_the_mean(seed):
    errors, fitted = example.guess_field(seed)
    assert errors["1/distance"] <= 0.6 * errors["mean of all"]
    assert errors["Gaussian"] <= 0.6 * errors["mean of all"]
    assert all(len(list(attention.parameters())) == 1 for attention, _ in fitted.values())


def test_learning_helps():
    stations, _ = example.random_field(seed=0)
    start = example.InverseDistance(scale=0.05, learn_scale=True)
    _, before = example.fit(start, stations, steps=0)
    _, after = example.fit(start, stations, steps=200)
    assert example.rmse(after, stations.values) < 0.95 * example.rmse(before, stations.values)
    assert start.scale.item() > 0.1


def test_a_station_does_not_see_itself():
    stations, _ = example.random_field(seed=0)
    _, guess = example.fit(example.InverseDistance(scale=0.1, learn_scale=True), stations, steps=0)
    assert not torch.isclose(guess, stations.values, atol=1e-3).all(), "guessed from its own value"


def write(folder: Path, text: str) -> Path:
    path = folder / "stations.csv"
    path.write_text(text, encoding="utf-8")
    return path


ROWS = "0,0,1,10\n1,0,2,20\n0,1,3,30\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ROWS, ["x", "y", "v1", "v2"]),
        ("east, north, rain, sun\n" + ROWS, ["east", "north", "rain", "sun"]),
        ("\ufeffx,y,v1,v2\r\n\r\n" + ROWS.replace("\n", "\r\n"), ["x", "y", "v1", "v2"]),
    ],
)
def test_read(tmp_path, text, names):
    stations = example.read(write(tmp_path, text))
    assert stations.names == names
    assert stations.places.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert stations.values.tolist() == [[1, 10], [2, 20], [3, 30]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"stations\.csv: empty"),
        ("x,y\n1,2\n", r"stations\.csv, line 1: .*'x,y'"),
        ("x;y;v1\n1;2;3\n", r"stations\.csv, line 1"),
        ("x,y,v1\n0,0,1\n\n1,0,warm\n", r"stations\.csv, line 4: v1 is 'warm'"),
        ("0,0,1\n1,O,2\n", r"stations\.csv, line 2: y is 'O'"),
        ("0,0,1\n1,0,nan\n", r"stations\.csv, line 2: v1 is 'nan'"),
        ("0,0,1\n1,0\n", r"stations\.csv, line 2: 2 columns, but line 1 has 3"),
        ("x,y,v1\n0,0,1\n1,0,2\n", r"stations\.csv: 2 station"),
    ],
)
def test_bad_file_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        example.read(write(tmp_path, text))


def test_missing_or_binary_file(tmp_path):
    with pytest.raises(ValueError, match=r"none\.csv: No such file"):
        example.read(tmp_path / "none.csv")
    (tmp_path / "photo.csv").write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"photo\.csv: not a text file"):
        example.read(tmp_path / "photo.csv")
