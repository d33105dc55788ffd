"""What every kind of system offers the explorer: examples that work, strict questions, a picture for each answer."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch

pytest.importorskip("pydantic")
from explorer_models import RECIPES, small
from PIL import Image
from pydantic import ValidationError

from regard.data import sound
from regard.data.canvases import STROKES
from regard.predictors import graph as graph_predictor
from regard.predictors.digits import Digits as TrainedDigits
from regard.predictors.digits import ink
from regard.serve.card import Card, Problem
from regard.tasks.digits import Config, Digits
from regard.views import page


def ask(card, **values):
    (found,) = card.answer([card.Question(**values)])
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_every_example_is_answered_with_a_picture(name):
    card = Card(small(name))
    about = card.about()
    assert about.title and about.sentence and about.paper and about.data and about.examples
    questions = [card.Question(**example) for example in about.examples]
    answers = card.answer(questions)
    assert len(answers) == len(questions)
    for answer in answers:
        assert not isinstance(answer, Problem), answer.detail
        assert answer.text and answer.pictures
        assert {picture.kind for picture in answer.pictures} <= set(page.kinds())
        for step in answer.next:  # each can be asked as it is, over the defaults
            assert not isinstance(ask(card, **{**about.examples[0], **step.question}), Problem)


@pytest.mark.parametrize("name", ["ram-mnist", "stn-cluttered", "draw-mnist", "ram-catch"])
def test_an_answer_does_not_depend_on_its_neighbours(name):
    card = Card(small(name))
    questions = [card.Question(**example) for example in card.about().examples]
    together = card.answer(questions)
    for question, answer in zip(questions, together):
        (alone,) = card.answer([question])
        assert alone.text == answer.text and alone.notes == answer.notes
        one, other = (found.pictures[0].data for found in (alone, answer))
        assert one.keys() == other.keys()
        for key in one:
            if isinstance(one[key], dict) and "$array" in one[key]:
                assert np.allclose(unpacked(one[key]), unpacked(other[key]), atol=1e-2), key


def unpacked(value):
    import base64
    import zlib

    found = value["$array"]
    raw = base64.b64decode(found["data"])
    raw = zlib.decompress(raw) if found.get("deflate") else raw
    return np.frombuffer(raw, found["type"]).reshape(found["shape"]) * found.get("scale", 1.0)


class TestInk:
    def test_it_lies_as_the_digits_of_mnist_do(self):
        for strokes in STROKES:
            pixels = ink(strokes).astype(float)
            y, x = np.mgrid[:28, :28] + 0.5
            assert (pixels * x).sum() / pixels.sum() == pytest.approx(14, abs=0.5)
            assert (pixels * y).sum() / pixels.sum() == pytest.approx(14, abs=0.5)
            rows, columns = (np.flatnonzero(pixels.max(axis) > 127) for axis in (1, 0))
            assert 20 <= max(np.ptp(rows), np.ptp(columns)) + 1 <= 24
            assert pixels.max() == 255 and pixels[0].max() < 255

    def test_where_and_how_large_it_was_drawn_does_not_matter(self):
        small_and_low = [[[0.6 + 0.3 * x, 0.6 + 0.3 * y] for x, y in line] for line in STROKES[3]]
        assert np.abs(ink(STROKES[3]).astype(int) - ink(small_and_low)).max() <= 1

    def test_a_dot_is_a_dot(self):
        pixels = ink([[[0.1, 0.9]]])
        assert pixels[13:15, 13:15].min() > 200 and (pixels > 0).sum() < 20


class TestDigits:
    def test_a_drawing_is_put_where_the_system_expects_digits(self):
        model = small("stn-cluttered")
        drawn = [[list(point) for point in line] for line in STROKES[1]]
        first, again, elsewhere = (model._image(model.Question(strokes=drawn, place=place))[0] for place in (0, 0, 1))
        assert first.shape == (1, 40, 40) and torch.equal(first, again) and not torch.equal(first, elsewhere)

    def test_a_number_beyond_the_test_set_fails_alone(self):
        card = Card(small("ram-mnist"))
        good, bad = card.answer([card.Question(example=3), card.Question(example=5000)])
        assert "It says" in good.text
        assert bad == Problem("there is no test picture 5000: they are 0 to 9")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"example": -1},
            {"example": "3"},
            {"strokes": [[[0.5, 1.5]]]},
            {"strokes": [[[0.5]]]},
            {"strokes": [[]]},
            {"strokes": [[[0.5, float("nan")]]]},
            {"strokes": [[[0.5, 0.5]]] * 21},
            {"path": "/etc/passwd"},
        ],
    )
    def test_questions_are_strict(self, wrong):
        with pytest.raises(ValidationError):
            Card(small("ram-mnist")).Question(**wrong)

    @pytest.mark.parametrize(
        ("data", "told"), [("mnist", "these are its first test pictures"), ("fashion-mnist", "these digits are drawn")]
    )
    def test_without_the_data_others_are_shown_and_it_is_said(self, monkeypatch, tmp_path, data, told):
        monkeypatch.setenv("REGARD_DATA", str(tmp_path))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        whole = small("ram-mnist")
        about = {"sizes": whole.task.sizes, "classes": whole.task.classes}
        card = Card(TrainedDigits(whole.model, Digits(Config(data=data), known=about), whole.recipe, "ram"))
        assert ("generated" in card.about().data) == (data != "mnist")
        found = ask(card, example=0)
        assert any(told in note for note in found.notes) and found.pictures
        assert ask(card, strokes=[[[0.5, 0.2], [0.5, 0.8]]]).pictures

    def test_a_dream_depends_on_its_seed_alone(self):
        card = Card(small("draw-mnist"))
        torch.manual_seed(1)
        first = ask(card, seed=1)
        torch.manual_seed(2)
        assert ask(card, seed=1) == first
        assert ask(card, seed=2).pictures != first.pictures


class TestStories:
    STORY = "Mary went to the kitchen.\nJohn moved to the garden."

    def test_an_answer_names_its_model_and_shows_each_hop(self):
        found = ask(Card(small("memn2n-babi")), story=self.STORY, question="Where is Mary?")
        assert found.text and "task 1" in found.notes[0]
        assert "Mary went to the kitchen." in str(found.pictures[0].data)

    def test_the_model_may_be_named(self):
        card = Card(small("memn2n-babi"))
        found = ask(card, story=self.STORY, question="Where is Mary?", task="2")
        assert "task 2" in found.notes[0]
        with pytest.raises(ValidationError):
            card.Question(story=self.STORY, question="Where is Mary?", task="3")

    def test_a_question_mark_may_be_left_out(self):
        card = Card(small("memn2n-babi"))
        with_mark, without = (
            ask(card, story=self.STORY, question=text) for text in ("Where is Mary?", "Where is Mary")
        )
        assert with_mark == without

    @pytest.mark.parametrize(
        ("story", "question", "told"),
        [
            ("Mary flew to the kitchen.", "Where is Mary?", "flew"),
            ("<script>alert(1)</script>", "Where is Mary?", "script"),
            ("Where is Mary?", "Where is Mary?", "question without a story"),
        ],
    )
    def test_what_it_cannot_read_is_told(self, story, question, told):
        found = ask(Card(small("memn2n-babi")), story=story, question=question)
        assert isinstance(found, Problem) and told in found.detail

    def test_a_question_about_nothing_is_refused(self):
        card = Card(small("memn2n-babi"))
        for wrong in ({"story": "", "question": "Where?"}, {"story": "a" * 4001, "question": "Where?"}):
            with pytest.raises(ValidationError):
                card.Question(**wrong)


def test_a_longer_tape_gets_a_larger_memory():
    card = Card(small("ntm-copy"))
    assert "Longer than anything" in " ".join(ask(card, length=20).notes)
    assert card.predictor.model.rows == 12
    assert ask(card, length=3, seed=1) != ask(card, length=3, seed=2)
    with pytest.raises(ValidationError):
        card.Question(length=25)


def test_a_string_of_ones_own_is_traced():
    card = Card(small("stack-anbn"))
    assert "It expected" in ask(card, text="aab").text
    assert "two symbols or more" in ask(card, text="a").detail
    with pytest.raises(ValidationError):
        card.Question(text="abc")


def test_there_is_no_game_beyond_the_last():
    card = Card(small("ram-catch"))
    assert ask(card, game=3).text in ("Caught", "Missed")
    assert ask(card, game=3).next[0].question == {"game": 0}
    with pytest.raises(ValidationError):
        card.Question(game=4)


class TestGraph:
    def test_one_goes_on_to_neighbours(self):
        card = Card(small("gat-sbm"))
        held = card.predictor.task.graphs[0]
        found = ask(card, node="7")
        neighbours = {held.name(int(node)) for node in held.index[0][held.index[1] == 7]}
        assert found.next and {step.question["node"] for step in found.next} <= neighbours
        assert found.text.startswith("Node 7: ")

    def test_of_a_large_graph_the_neighbourhood_is_sent(self, monkeypatch):
        card = Card(small("gat-sbm"))
        whole = ask(card, node="7")
        monkeypatch.setattr(graph_predictor, "SENT", 10)
        near = ask(card, node="7")
        assert near.next == whole.next
        sent, all_ = (unpacked(found.pictures[0].data["index"]) for found in (near, whole))
        assert 0 < sent.shape[1] < all_.shape[1]
        assert (sent[1] == 7).sum() == (all_[1] == 7).sum()

    def test_what_is_not_there_is_told(self):
        card = Card(small("gat-sbm"))
        assert isinstance(found := ask(card, node="x"), Problem) and "x" in found.detail
        with pytest.raises(ValidationError):
            card.Question(node="0", layer=9)


class TestCaptions:
    def file(self, kind, size=(40, 30)):
        data = io.BytesIO()
        Image.new("RGB", size, (200, 30, 30)).save(data, kind)
        return base64.b64encode(data.getvalue()).decode()

    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
    def test_a_picture_that_was_sent_is_looked_at(self, kind):
        found = ask(Card(small("caption-scenes")), image=self.file(kind))
        assert found.answers[0]["words"] == found.text.split() and found.pictures[0].kind == "overlay"

    @pytest.mark.parametrize(
        ("image", "told"),
        [
            ("not base64", "not the bytes of a file in base64"),
            (base64.b64encode(b"text").decode(), "not a JPEG, PNG or WebP image"),
        ],
    )
    def test_what_is_no_picture_is_told(self, image, told):
        found = ask(Card(small("caption-scenes")), image=image)
        assert isinstance(found, Problem) and told in found.detail

    def test_a_picture_is_bounded(self):
        with pytest.raises(ValidationError):
            Card(small("caption-scenes")).Question(image="A" * 120_001)


class TestVideo:
    def file(self, **arrays):
        data = io.BytesIO()
        np.savez_compressed(data, **arrays)
        return base64.b64encode(data.getvalue()).decode()

    def test_a_clip_that_was_sent_is_watched(self):
        card = Card(small("video-moves"))
        found = ask(card, clip=self.file(images=np.full((8, 32, 32, 3), 200, np.uint8)))
        assert found.answers[0]["words"] == found.text.split() and found.pictures[0].kind == "film"
        schema = card.Question.model_json_schema()["properties"]["clip"]
        assert schema["widget"] == "file" and schema["accept"] == ".npz,.npy" and schema["default"] == ""

    @pytest.mark.parametrize(
        ("clip", "told"),
        [
            ("not base64", "not the bytes of a file in base64"),
            (base64.b64encode(b"text").decode(), "the clip: not a whole archive"),
        ],
    )
    def test_what_is_no_clip_is_told(self, clip, told):
        found = ask(Card(small("video-moves")), clip=clip)
        assert isinstance(found, Problem) and told in found.detail

    def test_a_clip_of_the_wrong_shape_is_told(self):
        found = ask(Card(small("video-moves")), clip=self.file(images=np.ones((8, 8), np.uint8)))
        assert isinstance(found, Problem) and "(frames, height, width, 3) of bytes was expected" in found.detail


class TestSound:
    wave = (0.5 * np.sin(np.arange(8000) / 3)).astype(np.float32)

    def file(self, data):
        return base64.b64encode(data).decode()

    def test_a_recording_that_was_sent_is_heard(self):
        card = Card(small("speech-digits"))
        found = ask(card, sound=self.file(sound.wav(self.wave)))
        assert [each["word"] for each in found.answers[0]["times"]] == found.answers[0]["words"]
        assert not found.pictures or found.pictures[0].kind == "spectrogram"
        schema = card.Question.model_json_schema()["properties"]["sound"]
        assert schema["widget"] == "sound" and schema["accept"] == ",".join(sound.SUFFIXES) and schema["default"] == ""
        assert (schema["rate"], schema["seconds"]) == (8000, 10)

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            ("not base64", "the recording is not the bytes of a file in base64"),
            (base64.b64encode(b"text").decode(), "the recording: not sound that can be read"),
            (base64.b64encode(sound.wav(0 * wave)).decode(), "the recording: silence"),
        ],
    )
    def test_what_is_no_recording_is_told(self, data, told):
        found = ask(Card(small("speech-digits")), sound=data)
        assert isinstance(found, Problem) and told in found.detail

    def test_a_recording_is_bounded(self):
        with pytest.raises(ValidationError):
            Card(small("speech-digits")).Question(sound="A" * 120_001)


class TestCooking:
    def test_a_dish_has_a_picture_for_each_axis(self):
        card = Card(small("recipe-dishes"))
        found = ask(card, example=1)
        assert [picture.kind for picture in found.pictures] == ["overlay", "alignment"]
        assert found.notes[0].startswith("Ingredients, seen in the picture: ")
        assert found.answers[0].keys() >= {"title", "ingredients", "directions"}
        found = ask(card, ingredients="2 tomatoes, salt")
        assert [picture.kind for picture in found.pictures] == ["alignment"]
        assert found.pictures[0].data["columns"] == ["tomato", "salt"]

    def test_what_is_no_ingredient_is_told(self):
        found = ask(Card(small("recipe-dishes")), ingredients="gravel")
        assert isinstance(found, Problem) and "gravel" in found.detail
