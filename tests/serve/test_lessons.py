"""Lessons of the explorer: what they compute is what the library computes, and what the lectures say."""

import pytest
import torch

from regard.layers.transformer import positions as sinusoids
from regard.serve import lecture, lessons, sources
from regard.serve.lessons import eight_scores, positions
from regard.serve.lessons.lesson import LessonCard

ALL = {lesson.name: lesson for lesson in lessons.every()}


def ask(name, **fields):
    card = LessonCard(ALL[name])
    (reply,) = card.answer([card.Question(**fields)])
    return reply


@pytest.mark.parametrize("name", [name for name in ALL if name != "eight-scores"])
def test_every_example_is_answered_with_a_picture(name):
    card = LessonCard(ALL[name])
    for reply in card.answer(card.examples()):
        assert reply.text and reply.pictures
    assert card.about().family in lecture.PARTS


def test_the_worked_numbers():
    assert ask("worked-numbers").text == "112 and 96 → 0.88 and 0.12"
    assert "compared" in ask("worked-numbers", query=[[1.0]]).detail
    assert "one length" in ask("worked-numbers", keys=[[1.0], [1.0, 2.0]]).detail


def test_encodings_are_those_of_the_transformer():
    torch.testing.assert_close(positions.encodings(20, 16, 10000), sinusoids(20, 16), atol=1e-5, rtol=0)


def test_a_baseline_calms_reinforce():
    cells = ask("soft-hard", draws=5000).pictures[1].data["cells"]
    assert float(cells[2][3]) < float(cells[1][3]) / 4 and cells[0][3] == "0.00"


def test_concat_never_sees_the_query():
    right, weights = eight_scores.trained("concat", 30)
    assert right < 0.3 and (weights.amax(0) - weights.amin(0)).max() < 1e-6
    assert eight_scores.trained("dot", 60)[0] > 0.9


def test_slides_follow_the_lectures():
    found = lecture.slides([], list(ALL.values()))
    assert [slide.name for slide in found] == ["playground", *ALL, "principle"]
    assert found[0].script == "examples/weather_stations.py"


def test_models_of_a_part_come_by_year():
    plain = LessonCard(ALL["positions"]).about()
    papers = {"stn": "Jaderberg 2015, STN", "ram": "Mnih 2014, RAM"}
    models = [plain.model_copy(update={"name": name, "family": "Vision", "paper": papers[name]}) for name in papers]
    assert [slide.name for slide in lecture.slides(models, [])][1:3] == ["ram", "stn"]


def test_every_script_is_an_example():
    for lesson in ALL.values():
        assert not lesson.script or sources.example(lesson.script) == f"examples/{lesson.script}.py"
