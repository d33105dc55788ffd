"""Input, grid and rectified crop: what is drawn where, and what is refused."""

import numpy as np
import pytest
import torch

from regard.views import rectified
from regard.views.alignment import save


def sight(count=2, channels=1, many=1, side=12, crop=6, scale=0.5, shift=(0.25, -0.25)):
    """A bright square, and grids that look at a quarter of the image round a place."""
    images = torch.zeros(count, channels, side, side)
    images[..., 2:5, 7:10] = 1
    line = (2 * torch.arange(crop) + 1) / crop - 1
    y, x = torch.meshgrid(line, line, indexing="ij")
    grid = torch.stack([scale * x + shift[0], scale * y + shift[1]], -1)
    grids = grid.expand(count, many, crop, crop, 2)
    crops = torch.rand(count, many, channels, crop, crop, generator=torch.Generator().manual_seed(0))
    return images, grids, crops


def test_one_transformer_is_a_triplet():
    drawing = rectified.figure(*sight(), labels=["seven", "two"], title="Upright")
    assert [axes.get_title() for axes in drawing.axes[:3]] == ["input", "grid", "rectified"]
    assert len(drawing.axes) == 6
    assert {text.get_text() for text in drawing.texts} == {"Upright", "seven", "two"}


def test_the_grid_is_drawn_where_it_reads():
    images, grids, crops = sight()
    drawing = rectified.figure(images, grids, crops)
    lines = drawing.axes[1].lines
    x = np.concatenate([line.get_xdata() for line in lines])
    y = np.concatenate([line.get_ydata() for line in lines])
    # Places −0.5 … 0.5 of six pixels' centres, ± 5/12, moved by a quarter; in pixels of an image of 12.
    middle = 5.5 + 0.25 * 6
    assert (x.min(), x.max()) == pytest.approx((middle - 2.5, middle + 2.5))
    assert (y.min(), y.max()) == pytest.approx((5.5 - 1.5 - 2.5, 5.5 - 1.5 + 2.5))


def test_a_grid_that_reaches_out_is_seen_whole():
    images, grids, crops = sight(scale=1.3)
    axes = rectified.figure(images, grids, crops).axes[1]
    for line in axes.lines:
        assert axes.get_xlim()[0] <= line.get_xdata().min() and line.get_xdata().max() <= axes.get_xlim()[1]
        assert axes.get_ylim()[1] <= line.get_ydata().min() and line.get_ydata().max() <= axes.get_ylim()[0]


def test_the_branches_of_addition(tmp_path):
    drawing = rectified.figure(*sight(count=1, channels=2, many=2))
    names = [axes.get_title() for axes in drawing.axes]
    assert names[:2] == ["channel 1", "channel 2"] and names[2] == "crop 1, channel 1" and len(names) == 6
    images, grids, crops = sight(count=2, channels=2, many=2)
    crops[:, 0, 1] = crops[:, 1, 0] = crops[0, 1] = 0  # one picture of the second may well be black
    dealt = rectified.figure(images, grids, crops)
    assert [axes.get_title() for axes in dealt.axes[2:4]] == ["crop 1, channel 1", "crop 2, channel 2"]
    assert len(dealt.axes) == 8
    save(drawing, tmp_path / "sum.png")
    assert (tmp_path / "sum.png").stat().st_size > 1000


def test_in_the_terminal():
    text = rectified.terminal(*sight(count=1), width=80, blocks=True)
    assert "█" in text and "input" in text and "rectified" in text
    assert "corners: (4, 2)  (10, 2)" in text  # 4.5 and 1.5, 9.5 and 1.5, to the nearest even number
    plain = rectified.terminal(*sight(count=1, many=2, channels=2), width=24, blocks=False)
    assert plain.count("rectified") == 2 and "corners 2: (4, 2)" in plain
    assert max(len(line) for line in plain.splitlines() if "corners" not in line) <= 24


def test_what_does_not_belong_together():
    images, grids, crops = sight()
    with pytest.raises(ValueError, match="do not belong together"):
        rectified.figure(images, grids[:1], crops)
    with pytest.raises(ValueError, match="not finite"):
        rectified.figure(images * torch.nan, grids, crops)
    with pytest.raises(ValueError, match="4 dimensions"):
        rectified.figure(images[0], grids, crops)
    with pytest.raises(ValueError, match="2 pictures are drawn, but 1 labels"):
        rectified.figure(images, grids, crops, labels=["one"])
