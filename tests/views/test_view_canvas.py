"""DRAW's canvas over time: boxes where they were, animations that run, and what is refused."""

import pytest
import torch
from PIL import Image

from regard.views import canvas
from regard.views.alignment import save


def drawing(count=2, steps=4, side=10):
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(count, steps, 1, side, side, generator=generator)
    boxes = torch.tensor([3.0, 6.0, 4.0, 0.5]).expand(count, steps, 4)
    images = torch.rand(count, 1, side, side, generator=generator)
    return pictures, boxes, images


def rectangles(axes):
    return [(patch.get_x(), patch.get_y(), patch.get_width()) for patch in axes.patches]


def test_a_row_for_the_canvas_and_one_for_reading(tmp_path):
    pictures, boxes, images = drawing()
    figure = canvas.figure(pictures, boxes, boxes + 1, images=images, labels=["a", "b"], title="Strokes")
    assert len(figure.axes) == 2 * 2 * 5
    assert [axes.get_title() for axes in figure.axes[:5]] == ["image", "1", "2", "3", "4"]
    assert rectangles(figure.axes[1]) == [pytest.approx((1.5, 4.5, 5))]  # written
    assert rectangles(figure.axes[6]) == [pytest.approx((1, 4, 4))]  # read
    assert figure.axes[1].get_xlim() == (-0.5, 9.5)
    save(figure, tmp_path / "canvas.svg")


def test_imagined_without_images_and_blind_without_boxes():
    pictures, boxes, _ = drawing()
    assert len(canvas.figure(pictures, None, boxes).axes) == 2 * 4
    assert not any(axes.patches for axes in canvas.figure(pictures).axes)


def test_of_many_steps_some_are_shown():
    pictures, _, _ = drawing(count=1, steps=64)
    titles = [axes.get_title() for axes in canvas.figure(pictures).axes]
    assert len(titles) == 12 and titles[0] == "1" and titles[-1] == "64"


def test_an_animation(tmp_path):
    pictures, boxes, images = drawing()
    path = tmp_path / "drawing.gif"
    canvas.save_animation(canvas.frames(pictures, boxes, boxes, images=images), path)
    with Image.open(path) as found:
        assert found.n_frames == 4
    with pytest.raises(ValueError, match=r"written as \.gif"):
        canvas.save_animation(canvas.frames(pictures), tmp_path / "drawing.png")


def test_the_glimpses_of_a_classifier():
    _, boxes, images = drawing()
    patches = torch.rand(2, 4, 1, 3, 3)
    figure = canvas.reading(images, boxes, patches, labels=["7", "2"])
    assert len(figure.axes) == 2 * 2 * 4
    assert rectangles(figure.axes[0]) == [pytest.approx((1, 4, 4))] and not rectangles(figure.axes[4])


def test_in_the_terminal():
    pictures, _, images = drawing(count=1)
    text = canvas.terminal(pictures, images=images, width=40, blocks=True)
    assert "image" in text and "step 4" in text
    assert max(map(len, text.splitlines())) <= 40


def test_what_does_not_belong_together():
    pictures, boxes, images = drawing()
    with pytest.raises(ValueError, match="but there are 1 images"):
        canvas.figure(pictures, images=images[:1])
    with pytest.raises(ValueError, match=r"write boxes are \(2, 4, 4\)"):
        canvas.figure(pictures, None, boxes[:, :2])
    with pytest.raises(ValueError, match="not finite"):
        canvas.terminal(pictures * torch.inf)
    with pytest.raises(ValueError, match="glimpses of 1"):
        canvas.reading(images, boxes[:1], torch.rand(1, 4, 1, 3, 3))
