import time

import numpy as np
import pytest

from regard.data import scenes
from regard.data.scenes import Thing


def thing(name, row, column):
    colour, shape = name.split()
    return Thing(shape, colour, row, column, (column / 4, row / 4, (column + 1) / 4, (row + 1) / 4))


def many(count=200, **settings):
    return [scenes.draw(np.random.default_rng(seed), **settings) for seed in range(count)]


def test_a_seed_is_a_scene():
    one, same, other = (scenes.draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.image, same.image) and one.things == same.things
    assert one.things != other.things
    assert one.image.shape == (3, 48, 48) and one.image.dtype == np.uint8


def test_each_object_is_in_its_box_and_in_its_colour():
    for scene in many():
        for each in scene.things:
            left, top, right, bottom = (round(48 * edge) for edge in each.box)
            assert 0 <= left < right <= 48 and 0 <= top < bottom <= 48
            assert (each.row, each.column) == (top // 12, left // 12)
            middle = scene.image[:, (2 * top + bottom) // 3 : (top + 2 * bottom) // 3, (left + right) // 2]
            assert np.abs(middle.mean(1) - scenes.COLOURS[each.colour]).max() < 35
    assert {len(scene.things) for scene in many()} == {1, 2, 3}
    assert {len(scene.things) for scene in many(20, least=2, most=2)} == {2}


def test_nothing_else_is_drawn():
    for scene in many(30):
        rest = np.ones((48, 48), bool)
        for each in scene.things:
            left, top, right, bottom = (round(48 * edge) for edge in each.box)
            rest[top:bottom, left:right] = False
        assert scene.image[:, rest].min() > 150


def test_no_two_objects_are_alike_or_in_one_place():
    for scene in many():
        assert len(set(scenes.labels(scene.things))) == len(scene.things)
        assert len({(each.row, each.column) for each in scene.things}) == len(scene.things)


def test_captions_are_all_that_is_true():
    circle, square, cross = thing("red circle", 0, 0), thing("blue square", 0, 2), thing("green cross", 3, 0)
    assert scenes.captions([circle]) == ["a red circle"]
    assert sorted(scenes.captions([circle, square])) == [
        "a blue square right of a red circle",
        "a red circle left of a blue square",
    ]
    found = scenes.captions([circle, square, cross])
    assert "a red circle left of a blue square and above a green cross" in found
    assert "a red circle above a green cross and left of a blue square" in found
    assert len(found) == 6
    diagonal = scenes.captions([circle, thing("blue square", 1, 1)])
    assert len(diagonal) == 4 and "a red circle above a blue square" in diagonal


def test_every_word_is_known():
    known = set(scenes.vocabulary())
    used = {word for scene in many() for caption in scenes.captions(scene.things) for word in caption.split()}
    assert used == known


def test_words_that_name_objects():
    things = [thing("red circle", 0, 0), thing("blue square", 0, 2)]
    words = ["a", "blue", "square", "right", "of", "a", "red", "square", "and", "a", "red", "circle"]
    assert scenes.mentioned(words, things) == [(2, 1), (11, 0)]


def test_questions():
    things = [
        thing("red circle", 0, 1),
        thing("blue square", 0, 2),
        thing("blue cross", 1, 1),
        thing("red cross", 0, 3),
    ]
    found = {each.text: each for each in scenes.questions(things, np.random.default_rng(0))}
    assert found["is there a red circle?"].answer == "yes"
    assert found["what colour is the square?"].answer == "blue"
    assert not {"what shape is blue?", "what colour is the cross?"} & set(found)
    asked = found["what shape is just below the red circle?"]
    assert (asked.answer, asked.kind, asked.about) == ("cross", "relation", (0, 2))
    assert found["what colour is just right of the red circle?"].about == (0, 1)
    assert found["what colour is just left of the red cross?"].answer == "blue"
    assert not any("left of the red circle" in text for text in found)
    only = scenes.questions(things[:1], np.random.default_rng(0))
    assert {each.text: each.answer for each in only}["what shape is red?"] == "circle"
    absent = [each for each in found.values() if each.answer == "no"]
    assert absent and all(each.text[len("is there a ") : -1] not in scenes.labels(things) for each in absent)


def test_every_word_and_answer_of_a_question_is_known():
    asked = [each for scene in many(400, most=8) for each in scenes.questions(scene.things, np.random.default_rng(1))]
    assert {word for each in asked for word in each.text.rstrip("?").split()} == set(scenes.asked())
    assert {each.answer for each in asked} == set(scenes.answers())


def test_the_outermost_object_is_rarely_the_answer():
    """Otherwise a relation could be answered without finding what it is about."""
    asked = outermost = 0
    for scene in many(300, most=6, least=4):
        for each in scenes.questions(scene.things, np.random.default_rng(1)):
            if "just left of" in each.text:
                asked += 1
                outermost += scene.things[each.about[1]].column == min(other.column for other in scene.things)
    assert asked > 100 and outermost < 0.6 * asked


def test_yes_is_as_frequent_as_no():
    asked = [
        each.answer
        for scene in many(100)
        for each in scenes.questions(scene.things, np.random.default_rng(1))
        if each.kind == "exist"
    ]
    assert asked.count("yes") == asked.count("no")


@pytest.mark.parametrize("settings", [{"size": 20}, {"most": 9}, {"most": 1, "least": 2}])
def test_scenes_that_cannot_be_drawn(settings):
    with pytest.raises(ValueError, match="a scene has"):
        scenes.draw(np.random.default_rng(0), **settings)


def test_it_is_fast():
    many(10)
    began = time.perf_counter()
    many(500)
    assert time.perf_counter() - began < 2
