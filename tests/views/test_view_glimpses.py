"""The picture of a path of glimpses: what is where, what is written, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from regard.views import glimpses


def seen(count=2, steps=3, scales=2, classes=4):
    random = np.random.default_rng(0)
    return {
        "image": random.random((count, 1, 20, 16)),
        "location": random.uniform(-1, 1, (count, steps, 2)),
        "patch": random.random((count, steps, 1, scales, 5, 5)),
        "probability": random.dirichlet(np.ones(classes), (count, steps)),
    }


def test_a_figure_has_the_image_and_all_patches():
    parts = seen()
    drawing = glimpses.figure(**parts, sides=[5, 10], classes=list("abcd"), labels=["one", "two"], title="path")
    assert len(drawing.axes) == 2 * (1 + 3 * 2)
    image = drawing.axes[0]
    assert np.allclose(image.images[0].get_array(), parts["image"][0, 0])
    path = image.lines[0].get_xydata()
    assert np.allclose(path, (parts["location"][0] + 1) / 2 * [16, 20] - 0.5)
    squares = [(p.get_width(), p.get_height()) for p in image.patches]
    assert squares == [(5, 5), (10, 10)]
    texts = [axes.get_xlabel() for axes in drawing.axes]
    best = int(parts["probability"][0, 0].argmax())
    assert f"{'abcd'[best]}  {100 * parts['probability'][0, 0, best]:.0f} %" in texts and "two" in texts


@pytest.mark.parametrize("classes", [None, ["square", "triangle", "a class of a long name", "circle"]])
def test_nothing_is_cut_off(classes):
    labels = ["7, right", "3, but it is 8"]
    drawing = glimpses.figure(**seen(), sides=[5, 10], labels=labels, title="A title", classes=classes)
    renderer = drawing.canvas.get_renderer()
    width, height = drawing.bbox.width, drawing.bbox.height
    for axes in drawing.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
    told = [axes.xaxis.label.get_window_extent(renderer) for axes in drawing.axes if axes.get_xlabel()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(told, 2))


def test_frames_and_games(tmp_path):
    from PIL import Image

    parts = {name: array[0] for name, array in seen().items()}
    frames = glimpses.frames(**parts, sides=[5, 10])
    assert len(frames) == 3 and len({tuple(frame.get_size_inches()) for frame in frames}) == 1
    glimpses.save_animation(frames, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3
    screens = np.zeros((4, 1, 9, 9))
    patch, location = np.zeros((3, 1, 2, 3, 3)), np.zeros((3, 2))
    film = glimpses.game(screens, location, patch, [3, 6], caught=True, actions=["left", "stay", "left"])
    assert len(film) == 4 and film[-1].axes[0].get_xlabel() == "caught" and "stay" in film[1].axes[0].get_xlabel()
    with pytest.raises(ValueError, match="one screen more"):
        glimpses.game(screens[:3], location, patch, [3, 6], caught=True)


def test_terminal():
    parts = {name: array[0] for name, array in seen().items()}
    parts["location"] = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    text = glimpses.terminal(**parts, width=100, blocks=False)
    lines = text.splitlines()
    assert lines[1][0] == "1" and lines[6][8] == "2" and lines[10][15] == "3"
    best = int(parts["probability"][2].argmax())
    assert f"3: {best} {100 * parts['probability'][2, best]:.0f}%" in lines[0]


def test_costs():
    drawing = glimpses.costs({"RAM": [(28, 1e6, 1.2), (60, 1e6, 4.0)], "CNN": [(28, 5e5, 1.5), (60, 4e6, 8.0)]})
    (axes,) = drawing.axes
    assert axes.get_xscale() == "log" and [line.get_label() for line in axes.lines] == ["RAM", "CNN"]
    with pytest.raises(ValueError, match="at least one"):
        glimpses.costs({})


def test_bad_input():
    parts = seen()
    with pytest.raises(ValueError, match="do not belong together"):
        glimpses.figure(**{**parts, "location": parts["location"][:1]}, sides=[5, 10])
    with pytest.raises(ValueError, match="3 names for 4 classes"):
        glimpses.figure(**parts, sides=[5, 10], classes=list("abc"))
    parts["image"][0, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        glimpses.figure(**parts, sides=[5, 10])


def test_objects_have_colours_of_their_own_and_a_path_ends_where_reading_did():
    parts = seen(steps=4)
    read = {**parts, "sides": [5, 10], "object": np.array([0, 0, 1, 1]), "length": np.array([4, 2])}
    first, second = glimpses.shown(read, list("abcd"), ["12", "3"])
    drawing = first.figure()
    assert drawing.axes and second.figure is first.figure, "they share one figure"
    assert len(drawing.axes) == (1 + 4 * 2) + (1 + 2 * 2)
    dots = [tuple(colour) for colour in drawing.axes[0].collections[0].get_facecolors()]
    assert dots[0] == dots[1] != dots[2] == dots[3]
    assert len(drawing.axes[9].lines[0].get_xydata()) == 2
    assert [len(picture.frames()) for picture in (first, second)] == [4, 2]
    assert "object 2" in first.frames()[3].axes[0].get_xlabel()
    assert first.view().data["objects"] == [0, 0, 1, 1] and second.view().data["objects"] == [0, 0]
    with pytest.raises(ValueError, match="lengths are"):
        glimpses.figure(**parts, sides=[5, 10], lengths=[5, 2])
    with pytest.raises(ValueError, match="which object"):
        glimpses.figure(**parts, sides=[5, 10], objects=[0, 1])
