"""Pictures of machines with a memory: the heads over time, and the trace of stacks."""

import numpy as np
import pytest
import torch

from regard.views import stack, weightings
from regard.views.alignment import save
from regard.views.stack import Trace


def tape(time=7, rows=30):
    """A head that walks from row 3 on, and one that stays."""
    bits = {"input": torch.eye(time)[:, :4], "output": torch.rand(time, 3)}
    walk, stay = np.zeros((time, rows)), np.zeros((time, rows))
    walk[np.arange(time), 3 + np.arange(time)] = 1
    stay[:, 5] = 0.6
    return bits, {"read": walk, "write": stay}


def test_unused_rows_are_left_out():
    _, heads = tape()
    assert weightings.used(heads) == list(range(2, 11))
    assert weightings.used({"read": np.zeros((3, 8))}) == list(range(8))


def test_rows_in_use_go_over_the_edge_of_the_ring():
    ring = np.zeros((3, 100))
    ring[[0, 1, 2], [98, 1, 3]] = 1
    assert weightings.used({"read": ring}) == [97, 98, 99, 0, 1, 2, 3, 4]
    assert weightings.view({}, {"read": ring}).data["rows"] == [97, 98, 99, 0, 1, 2, 3, 4]
    (axes, _) = weightings.figure({}, {"read": ring}).axes
    assert [axes.yaxis.get_major_formatter()(place) for place in (0, 3, 7)] == ["97", "0", "4"]


def test_cells_are_square():
    drawing = weightings.figure(*tape(), {"adds": np.linspace(-1, 1, 7 * 3).reshape(7, 3)})
    wide, high = drawing.get_size_inches()
    for axes in drawing.axes[:-1]:
        columns, rows = axes.images[0].get_array().shape[::-1]
        box = axes.get_position()
        assert box.width * wide / columns == pytest.approx(box.height * high / rows, rel=0.02)


def test_text_has_a_character_a_step():
    bits, heads = tape()
    text = weightings.terminal(bits, heads, width=80, blocks=False)
    lines = text.split("\n")
    read = next(number for number, line in enumerate(lines) if line.strip().startswith("read"))
    diagonal = [line[8:].ljust(7) for line in lines[read + 1 : read + 8]]
    assert [row.index("#") for row in diagonal] == list(range(7))
    assert [int(line[:7]) for line in lines[read + 1 : read + 8]] == list(range(3, 10))
    assert "░" in weightings.terminal({"x": np.full((7, 1), 0.1)}, heads, blocks=True)


def test_rows_that_nobody_visits_are_one_line():
    heads = np.zeros((3, 50))
    heads[0, 2] = heads[1, 30] = heads[2, 32] = 1
    text = weightings.terminal({"input": np.zeros((3, 2))}, {"read": heads}, blocks=False)
    panel = [line.split() for line in text.split("read")[1].split("\n")]
    assert panel[1:6] == [["2", "#"], [":"], ["30", "#"], ["31"], ["32", "#"]]


def test_long_tapes_go_on_below():
    time = 120
    text = weightings.terminal({"input": np.ones((time, 2))}, {"read": np.eye(time)}, width=60, blocks=False)
    assert max(map(len, text.split("\n"))) <= 60
    assert text.count("steps ") == 3 and "of 120" in text


def test_figure_is_drawn(tmp_path):
    drawing = weightings.figure(*tape(), title="copy")
    images = [axes for axes in drawing.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in images] == ["input", "output", "read", "write"]
    assert images[2].images[0].get_array().shape == (9, 7)
    assert images[2].images[0].get_extent() == [0.5, 7.5, 8.5, -0.5]
    named = images[2].yaxis.get_major_formatter()
    assert (named(0), named(8)) == ("2", "10")  # row 2 at the top, row 10 at the bottom
    save(drawing, tmp_path / "heads.png")
    assert (tmp_path / "heads.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("bits", "heads", "message"),
    [
        ({}, {"read": np.zeros((3, 0))}, "'read'"),
        ({}, {"read": np.full((3, 4), np.nan)}, "not finite"),
        ({}, {"read": np.zeros((3, 4)), "write": np.zeros((3, 5))}, "one shape"),
        ({"input": np.zeros((2, 4))}, {"read": np.zeros((3, 4))}, "input has 2, read has 3"),
        ({}, {}, "no weighting"),
    ],
)
def test_what_cannot_be_drawn_is_named(bits, heads, message):
    for draw in (weightings.terminal, weightings.figure):
        with pytest.raises(ValueError, match=message):
            draw(bits, heads)


def trace():
    """Two a and two b; of three stacks only the second does anything, and the last symbol is missed."""
    weights = np.zeros((4, 3, 2))
    weights[:, :, 0] = 1
    weights[2:, 1] = [0, 1]
    tops = np.full((4, 3), 0.5)
    tops[3, 1] = -1
    return Trace("aabb", "abba", "aabb", [0.5, 0.5, 0.99, 0.2], [0, 0, 1, 1], weights, tops, ("push", "pop"))


def test_the_table_says_what_happened():
    found = trace()
    assert found.wrong() == [3] if found.predicted[2] == found.next[2] else [2, 3]
    assert found.busiest(1) == [1] and found.busiest() == [0, 1, 2]
    lines = stack.terminal(found, [1]).split("\n")
    assert lines[0].split() == ["read", "next", "expected", "p(next)", "stack", "1", "top"]
    assert lines[2].split() == ["a", "a", "a", "0.50", "PUSH", "0.50"]
    assert lines[5].split() == ["b", "a", "b", "✗", "0.20", "POP", "−1.00"]


def test_the_table_is_drawn(tmp_path):
    drawing = stack.figure(trace(), title="aⁿbⁿ: aabb")
    texts = [text.get_text() for text in drawing.axes[0].texts]
    assert "aⁿbⁿ: aabb" in texts and texts.count("POP") == 2
    save(drawing, tmp_path / "trace.png")
    assert (tmp_path / "trace.png").stat().st_size > 1000


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="no stack 3"):
        stack.terminal(trace(), [3])
    with pytest.raises(ValueError, match="next has 1"):
        Trace("aa", "a", "aa", [0, 0], [0, 0], np.zeros((2, 1, 2)), np.zeros((2, 1)), ("push", "pop"))
    with pytest.raises(ValueError, match="weights are"):
        Trace("aa", "aa", "aa", [0, 0], [0, 0], np.zeros((2, 1, 3)), np.zeros((2, 1)), ("push", "pop"))
