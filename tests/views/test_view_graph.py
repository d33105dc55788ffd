"""Ego graphs and entropies: what is drawn is what the weights say, and nothing is cut off."""

import numpy as np
import pytest

from regard.views import graph as view
from regard.views.alignment import save

pytest.importorskip("matplotlib")

# Node 0 attends to 1, 2 and itself, node 1 to 0 alone; node 2 to nothing.
INDEX = np.array([[1, 2, 0, 0], [0, 0, 0, 1]])
WEIGHTS = np.array([[0.5, 0.1], [0.2, 0.1], [0.3, 0.8], [1.0, 1.0]])


def test_an_ego_holds_the_edges_of_its_node_strongest_first():
    ego = view.Ego.of(WEIGHTS, INDEX, 0)
    assert ego.others.tolist() == [0, 1, 2]
    assert ego.weights.tolist() == [[0.3, 0.8], [0.5, 0.1], [0.2, 0.1]]
    few, note = ego.strongest(1)
    assert few.others.tolist() == [0] and note == "2 more have 45 % together"
    with pytest.raises(ValueError, match="no edge leads to node 2"):
        view.Ego.of(WEIGHTS, INDEX, 2)


def test_terminal():
    text = view.terminal(WEIGHTS, INDEX, 0, names=["ann", "bob", "cem"], kinds=["red", "blue", "red"], blocks=False)
    first, second, third, note = text.splitlines()
    assert first.split() == ["itself", "red", "#" * 20, "55.0", "%", "30", "80"]
    assert second.split() == ["bob", "blue", "#" * 11, "30.0", "%", "50", "10"]
    assert third.split()[0] == "cem" and "2 heads" in note
    assert "█" in view.terminal(WEIGHTS, INDEX, 0, blocks=True)
    hostile = view.terminal(WEIGHTS, INDEX, 0, names=["a", "b\x1b[31m", "c"], blocks=False)
    assert "\x1b" not in hostile


def lines_of(axes):
    return [line.get_linewidth() for line in axes.lines]


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_line_widths_follow_the_weights():
    figure = view.ego(WEIGHTS, INDEX, 0, kinds=[0, 1, 0], classes=["red", "blue"], title="node 0")
    assert len(figure.axes) == 2
    first, second = map(lines_of, figure.axes)
    assert first == pytest.approx([8 * 0.3 * first[0] / 2.4, first[0] * 0.5 / 0.3, first[0] * 0.2 / 0.3])
    assert second[0] == pytest.approx(first[0] * 0.8 / 0.3)  # one scale for all heads
    assert {"itself\n30 %", "1\n50 %", "itself\n80 %"} <= set(texts_of(figure))
    assert "head 2" in texts_of(figure)
    single = view.ego(WEIGHTS, INDEX, 0, head=2)
    assert len(single.axes) == 1 and "itself\n80 %" in texts_of(single)


def inside(figure):
    """Every text of every panel lies within the figure."""
    figure.canvas.draw()  # places the legends
    renderer = figure.canvas.get_renderer()
    width, height = figure.get_size_inches() * figure.dpi
    drawn = [text for axes in figure.axes for text in axes.texts] + figure.texts
    for legend in figure.legends:
        drawn += legend.get_texts()
    for text in drawn:
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_nothing_is_cut_off(heads, count):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(count), size=heads).T
    index = np.stack([np.arange(count), np.zeros(count, dtype=int)])
    names = [f"Mary Wollstonecraft {n}" if n % 3 else "$x$" for n in range(count)]
    figure = view.ego(weights, index, 0, names=names, kinds=[n % 12 for n in range(count)], title="A node")
    inside(figure)


def test_entropy_by_hand():
    found, equal = view.entropies(WEIGHTS, INDEX)
    assert found.shape == (1, 2) and equal == pytest.approx([np.log2(3)])  # only node 0 has a choice
    expected = -(0.5 * np.log2(0.5) + 0.2 * np.log2(0.2) + 0.3 * np.log2(0.3))
    assert found[0, 0] == pytest.approx(expected)
    uniform = np.full((3, 2), 1 / 3)
    assert view.evenness(uniform, INDEX[:, :3]) == pytest.approx(1)
    assert "near uniform" in view.summary(uniform, INDEX[:, :3], "layer 1")
    assert view.summary(WEIGHTS, INDEX).endswith("they are not uniform")
    hard = np.array([[1.0], [0.0], [0.0]])
    assert view.evenness(hard, INDEX[:, :3]) == 0


def test_the_histogram_counts_every_node_once():
    figure = view.histogram([("layer 1", WEIGHTS, INDEX), ("layer 2", WEIGHTS[:, :1], INDEX)], title="a run")
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert sum(patch.get_height() for patch in axes.patches if hasattr(patch, "get_height")) == pytest.approx(100)
        assert "entropy" in axes.get_xlabel() and axes.get_ylabel() == "nodes, %"
    empty = view.histogram([("layer 1", np.ones((1, 2)), np.array([[0], [1]]))])
    assert "no node has two neighbours" in texts_of(empty)


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for suffix in ("png", "svg", "pdf"):
        for name in ("a", "b"):
            save(view.ego(WEIGHTS, INDEX, 0, kinds=[0, 1, 2]), tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"\(E, H\) and edges \(2, E\), not \(4,\)"):
        view.ego(WEIGHTS[:, 0], INDEX, 0)
    with pytest.raises(ValueError, match=r"not \(4, 2\) and \(2, 3\)"):
        view.terminal(WEIGHTS, INDEX[:, :3], 0)
    with pytest.raises(ValueError, match="there is no head 3: heads are 1 to 2"):
        view.ego(WEIGHTS, INDEX, 0, head=3)
    with pytest.raises(ValueError, match="weights of edge 1 are not finite"):
        view.summary(np.where(WEIGHTS == 0.2, np.nan, WEIGHTS), INDEX)
