"""The shaded document."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest

from regard.views import document
from regard.views.page import Quantized

WORDS = ["The", "bridge", "(", "of", "1928", ")", "was", "opened", "by", "King", "George", "V", "."]
BLANKS = [True, True, True, False, True, False, True, True, True, True, True, True, False]
WEIGHTS = np.array([0, 0, 0, 0, 0.2, 0, 0, 0.02, 0, 0.08, 0.6, 0.1, 0])
ABOUT = {"question": "Who opened it?", "prediction": "George V", "answers": ("King George V", "George V")}


def test_shades_stand_under_their_words():
    text = document.terminal(
        WORDS, WEIGHTS, blanks=BLANKS, marked=[10, 11], **ABOUT, width=80, colour=False, blocks=True
    )
    line, shades, legend, question, answer = text.split("\n")
    assert line == "The bridge (of 1928) was opened by King [George V]."
    assert shades[line.index("[George") : line.index("V]") - 1] == "▓" * len("[George")
    assert shades[line.index("1928") :].startswith("░░░░ ") and shades[line.index("V]") :] == "░░"
    assert set(shades[: line.index("1928")]) == {" "} and "≥" in legend
    assert question == "Who opened it?" and answer == "→ George V   right"
    wrong = document.terminal(WORDS, WEIGHTS, **{**ABOUT, "prediction": "1928"})
    assert wrong.endswith("→ 1928   wrong, it is King George V")


def test_several_looks_are_named_and_only_shown_where_they_see():
    looks = np.stack([np.eye(13)[1], np.eye(13)[10]])
    text = document.terminal(WORDS, looks, rows=["Who", "opened"], width=30, colour=False, blocks=False)
    first, who, second, third, opened = text.split("\n")[:5]
    assert first.strip() == "The bridge ( of 1928 )" and second.strip() == "was opened by King"
    assert who.startswith("Who ") and who[first.index("bridge") :] == "######"
    assert opened.startswith("opened ") and opened[third.index("George") :] == "######"
    assert max(map(len, text.split("\n"))) <= 30


def test_lines_are_full_but_never_too_full():
    widths = [3, 6, 1, 2, 4, 1, 3]
    lines = document.wrap(widths, [True, True, True, False, False, False, True], 12, 1)
    assert lines == [[(0, 0), (1, 4)], [(2, 0), (3, 1), (4, 3), (5, 7), (6, 9)]]
    assert document.wrap([20, 3], None, 10, 1) == [[(0, 0)], [(1, 0)]]
    assert document.wrap([], None, 10, 1) == []
    chain = document.wrap([4] * 5, [False] * 5, 10, 1)
    assert [place for line in chain for place, _ in line] == [0, 1, 2, 3, 4]
    assert max(line[-1][1] + 4 for line in chain) <= 10, "a chain that is too long is cut"


def test_control_characters_are_shown_not_obeyed():
    assert "\x1b" not in document.terminal(["a\x1b[31m"], [1.0], colour=False)
    assert "\x1b[" in document.terminal(["a"], [1.0], colour=True)


@pytest.mark.parametrize("several", [False, True])
def test_nothing_of_the_figure_is_clipped_or_on_top_of_another(several):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    words, blanks = WORDS * 6, BLANKS * 6
    weights = np.tile(WEIGHTS, 6) / 6
    about = {**ABOUT, "question": "Who opened it, " + "and why and when and for whom, " * 6 + "do you think $x$?"}
    if several:
        weights, about["rows"] = np.stack([weights, np.roll(weights, 1), weights[::-1]]), ["Who", "opened", "it"]
    drawing = document.figure(words, weights, blanks=blanks, marked=[10, 11], **about, title="A bridge", inches=6)
    renderer = FigureCanvasAgg(drawing).get_renderer()
    drawing.savefig(io.BytesIO(), format="png")
    (axes,) = drawing.axes
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) >= len(words) + 4
    width, height = drawing.get_size_inches() * drawing.dpi
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
    for one, other in pairwise(boxes[1 : len(words)]):
        over = min(one.x1, other.x1) - max(one.x0, other.x0)
        apart = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert over < 2.5 or apart < 2.5


def test_the_page_gets_words_weights_and_rows():
    view = document.view(WORDS, WEIGHTS, blanks=BLANKS, marked=[11, 10], **ABOUT)
    assert view.kind == "document" and view.title == "Who opened it?"
    assert view.data["words"] == WORDS and view.data["rows"] == ["1"] and view.data["marked"] == [10, 11]
    assert isinstance(view.data["weights"], Quantized) and view.data["weights"].values.shape == (1, 13)
    assert view.data["blanks"] == BLANKS and view.data["text"] == "George V"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": WEIGHTS[:5]}, r"not \(1, 5\) for 13 words"),
        ({"weights": WEIGHTS * np.nan}, "NaN"),
        ({"blanks": [True]}, "1 blanks came for 13 words"),
        ({"marked": [13]}, "word 13 is marked, of 13"),
        ({"rows": ["a", "b"]}, "2 tokens came"),
    ],
)
def test_what_does_not_fit_is_said(changes, message):
    arguments = {"words": WORDS, "weights": WEIGHTS, **changes}
    with pytest.raises(ValueError, match=message):
        document.terminal(**arguments)
