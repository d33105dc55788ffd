"""The table of hops."""

from __future__ import annotations

import io

import numpy as np
import pytest

from regard.views import alignment, hops

STORY = ["Daniel went to the bathroom.", "Mary travelled to the hallway.", "John travelled to the bathroom."]
WEIGHTS = np.array([[0.0, 0.1, 0.6], [0.0, 0.02, 0.98], [0.03, 0.0, 0.96]])
ABOUT = {"question": "Where is John?", "prediction": "bathroom", "answer": "bathroom", "support": [2]}


def test_the_table_has_the_slides_form():
    text = hops.terminal(STORY, WEIGHTS, **ABOUT, width=90, colour=False, blocks=True)
    head, *rows, question, answer = text.split("\n")
    assert head.split() == ["story", "support", "hop", "1", "hop", "2", "hop", "3"]
    assert (
        rows[2].split() == [*STORY[2].split(), "yes", "0.60", "▓▓", "0.98", "██", "0.96", "██"][: len(rows[2].split())]
    )
    assert rows[0].split()[-3:] == ["0.00", "0.00", "0.03"] and "yes" not in rows[0]
    assert question == "Where is John?" and answer == "→ bathroom   right"
    columns = [row.index("0.", len(STORY[1])) for row in rows]
    assert len(set(columns)) == 1


def test_wrong_answers_say_so_and_unknown_ones_nothing():
    about = {**ABOUT, "prediction": "garden"}
    assert hops.terminal(STORY, WEIGHTS, **about).endswith("→ garden   wrong, it is bathroom")
    text = hops.terminal(STORY, WEIGHTS, question="Where is John?", prediction="garden")
    assert text.endswith("→ garden") and "support" not in text


def test_a_narrow_terminal_shortens_sentences():
    text = hops.terminal(STORY, WEIGHTS, **ABOUT, width=60, colour=False, blocks=False)
    assert max(map(len, text.split("\n"))) <= 60 and "~" in text
    assert "\x1b[" in hops.terminal(STORY, WEIGHTS, colour=True)


def test_control_characters_are_shown_not_obeyed():
    assert "\x1b" not in hops.terminal(["a\x1b[31m"], [[1.0]], colour=False)


@pytest.mark.parametrize("support", [[], [2]])
def test_nothing_of_the_figure_is_clipped(support):
    story = [*STORY, "Sandra and then, after some thought, Daniel also journeyed back to the old hallway $x$."]
    weights = np.concatenate([WEIGHTS, np.zeros((3, 1))], 1)
    drawing = hops.figure(story, weights, **{**ABOUT, "support": support}, title="Task 1")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(drawing).get_renderer()
    wide, high = drawing.get_size_inches() * drawing.dpi
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in drawing.texts}
    for box in boxes.values():
        assert box.x0 >= 0 and box.x1 <= wide and box.y0 >= 0 and box.y1 <= high
    cells = drawing.axes[0].get_window_extent(renderer)
    assert all(boxes[sentence].x1 < cells.x0 for sentence in STORY) and story[-1] not in ("",)
    assert cells.height == pytest.approx(4 * 0.3 * drawing.dpi)


def test_the_figure_is_written(tmp_path):
    drawing = hops.figure(STORY, WEIGHTS, **ABOUT)
    alignment.save(drawing, tmp_path / "a.svg")
    alignment.save(drawing, tmp_path / "a.png")
    text = io.StringIO((tmp_path / "a.svg").read_text()).read()
    assert text.startswith("<?xml") and (tmp_path / "a.png").stat().st_size > 4000


def test_the_page_has_the_question_and_the_support():
    view = hops.view(STORY, WEIGHTS, title="Where is John?", text="bathroom", support={2, 0})
    assert view.kind == "hops" and view.data["story"] == STORY and view.data["support"] == [0, 2]
    assert (view.data["question"], view.data["prediction"]) == ("Where is John?", "bathroom")


def test_bad_input():
    with pytest.raises(ValueError, match=r"\(2, 3\) for 2 sentences"):
        hops.terminal(STORY[:2], WEIGHTS[:2])
    with pytest.raises(ValueError, match="support names sentence 3 of 3"):
        hops.figure(STORY, WEIGHTS, support=[3])
    with pytest.raises(ValueError, match="NaN"):
        hops.figure(STORY, WEIGHTS * np.nan)
