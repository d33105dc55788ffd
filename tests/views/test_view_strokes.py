"""Lines of a pen: as a figure, as an SVG that writes itself, and in the terminal."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.axes import Strokes, Words
from regard.views import between, strokes

PEN = np.array([[0, 0, 0], [40, 90, 1], [60, 0, 0], [90, 90, 0], [120, 0, 1], [130, 85, 1]], np.float32)
AT = np.array([[0.9, 0.6, 0.1, 0.0, 0.0, 0.0], [0.1, 0.2, 0.8, 0.7, 0.5, 0.1], [0.0, 0.0, 0.0, 0.2, 0.1, 0.6]])
TEXT = ["l", "<v>&", "\x00"]
SVG = "{http://www.w3.org/2000/svg}"


def test_a_drawing_has_a_path_for_each_stroke():
    root = ET.fromstring(strokes.svg(PEN, TEXT, AT, title='<script>&"'))
    paths = [each.get("d") for each in root.iter(f"{SVG}path")]
    assert paths == ["M0,0 L40,90", "M60,0 L90,90 L120,0", "M130,85 L130,85"]
    assert root.find(f"{SVG}title").text == '<script>&"'
    assert not list(root.iter(f"{SVG}animate")) and not list(root.iter(f"{SVG}text"))


def test_it_writes_itself_and_lights_up_the_letters():
    root = ET.fromstring(strokes.svg(PEN, TEXT, AT, animate=True, begins=2))
    times = {}
    for path in root.iter(f"{SVG}path"):
        (moved,) = path
        times[path.get("d")[:6]] = [float(each) for each in moved.get("keyTimes").split(";")]
    begins = [each[1] for each in times.values()]
    assert begins == sorted(begins) and all(each == sorted(each) for each in times.values())
    whole = float(moved.get("dur").rstrip("s"))
    assert begins[1] == pytest.approx(2 / 60 / whole, abs=1e-3)
    letters = [span.text for span in root.iter(f"{SVG}tspan")]
    assert letters == ["l", "<v>&", " "]
    lit = [span[0].get("keyTimes").split(";") for span in root.iter(f"{SVG}tspan")]
    assert [float(each[1]) for each in lit] == pytest.approx([0, 2 / 60 / whole, 5 / 60 / whole], abs=1e-3)
    assert next(root.iter(f"{SVG}path")).get("stroke") == strokes.GIVEN
    for move in root.iter(f"{SVG}animate"):
        assert len(move.get("values").split(";")) == len(move.get("keyTimes").split(";"))


def test_terminal_puts_letters_below_their_ink():
    text = strokes.terminal(PEN, ["l", "v", "."], AT, width=60, blocks=True)
    *_, below = text.splitlines()
    assert below.split() == ["l", "v", "."] and max(map(len, text.splitlines())) <= 60
    assert any("\u2801" <= each <= "\u28ff" for each in text)
    plain = strokes.terminal(PEN, ["l", "v", "."], AT, width=60, blocks=False)
    assert plain.isascii() and "#" in plain
    assert strokes.terminal(np.zeros((0, 3))) == "nothing was written"


def test_figures_and_the_window():
    drawing = strokes.figure(PEN, TEXT, AT, title="$lv<")
    stairs, line = drawing.axes
    assert np.array_equal(stairs.images[0].get_array(), AT.astype(np.float32))
    assert len(line.lines) == 4  # the dot has a mark of its own
    assert len(strokes.figure(PEN).axes) == 1


def test_between_is_found_by_its_axis():
    shown = between.picture([between.Side(Words(["l", "v", "."]), AT)], Strokes.of(PEN, 1), title="lv.")
    made = shown.view()
    assert made.kind == "strokes" and made.data["begins"] == 1 and made.data["characters"] == ["l", "v", "."]
    assert len(Strokes.of(PEN)) == len(PEN)


def test_density_lies_where_the_next_point_is_expected():
    points = np.array([[0, 0, 0], [100, 0, 0], [100, 60, 1]], np.float32)
    count = len(points)
    mixture = {
        "weights": np.ones((count, 1)),
        "mean": np.array([[[0, 0]], [[100, 0]], [[0, 60]]]),
        "deviation": np.full((count, 1, 2), 3.0),
        "correlation": np.zeros((count, 1)),
    }
    field = strokes.density_map(points, mixture)
    left, top, width, height = strokes.Ink(points).box
    assert field.max() == 1 and field.min() == 0
    rows, columns = field.shape
    for x, y, _ in points:
        assert field[int((y - top) / height * rows), int((x - left) / width * columns)] > 0.9
    middle = field[int((30 - top) / height * rows), int((50 - left) / width * columns)]
    assert middle < 0.01
    assert len(strokes.figure(points, density=field).axes[0].images) == 1
    assert strokes.terminal(points, density=field, width=40, blocks=False)


def test_bad_input():
    for given, said in [
        ((PEN[:, :2],), r"\(N, 3\)"),
        ((np.full((2, 3), np.nan),), "point 0 is not finite"),
        ((PEN, TEXT, AT[:, :2]), "for 6 points"),
        ((PEN, TEXT, -AT), "not negative"),
        ((PEN, TEXT[:2], AT), "2 tokens"),
    ]:
        with pytest.raises(ValueError, match=said):
            strokes.view(*given)
    with pytest.raises(ValueError, match="cannot have been given"):
        strokes.view(PEN, begins=9)
