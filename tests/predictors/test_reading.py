"""Readers from the folder of a run to answers, metrics and shaded documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.data.cloze import MARK
from regard.predictors.predictor import Predictor
from regard.training import Run, read_weights

TINY = ["embedding=8", "hidden=8", "attention=8", "joint=8", "tensorboard=false", "threads=1"]
CLOZE = [*TINY, "epochs=2", "train_size=200", "test_size=40"]
SQUAD = [*TINY, "epochs=2", "articles=20", "task.data=", "least=2"]
STORY = {"story": "Mary Ann sued John over a broken promise. Later John hired Bill as an adviser."}


def trained(folder: Path, name: str, *changes: str) -> Path:
    return regard.train(name, *changes, out=folder).folder


@pytest.fixture(scope="module")
def cloze(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "cloze", "reader-cloze", *CLOZE)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "impatient", "reader-cloze", *CLOZE, "reader=impatient")


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "squad", "reader-squad", *SQUAD)


@pytest.fixture
def typed(tmp_path):
    path = tmp_path / "my.jsonl"
    asked = ["a judge hears ___ against John", "Bill now works for ___"]
    path.write_text("".join(json.dumps({**STORY, "question": one}) + "\n" for one in asked))
    return path


def test_cloze_metrics_are_counted_as_one_counts_them(cloze):
    model = Predictor.open(cloze)
    questions = model.task.questions("test")
    found, answers = model.evaluate(), model.replies(questions)
    right = [answer.text == one.answers[0] for answer, one in zip(answers, questions)]
    assert found["accuracy"] == pytest.approx(100 * sum(right) / len(right))
    mass = near = 0.0
    for answer, one in zip(answers, questions):
        places = {place for place, word in enumerate(answer.words) if word == one.answers[0]}
        mass += sum(float(answer.weights[0, place]) for place in places)
        beside = {place + step for place in places for step in range(-2, 3)} & set(range(len(answer.words)))
        near += sum(float(answer.weights[0, place]) for place in beside)
    assert found["mass"] == pytest.approx(100 * mass / len(questions), rel=1e-4)
    assert found["mass_near"] == pytest.approx(100 * near / len(questions), rel=1e-4) and near > mass
    assert found["most_frequent"] == model.task.baselines(questions)["most_frequent"]
    assert model.evaluate(limit=5)["accuracy"] % 20 == 0


def test_squad_metrics_stand_beside_the_window(squad):
    model = Predictor.open(squad)
    questions = model.task.questions("test")
    found, answers = model.evaluate(), model.replies(questions)
    each = [model.task.judge(one, answer.text) for answer, one in zip(answers, questions)]
    for name in ("exact_match", "f1"):
        assert found[name] == pytest.approx(100 * sum(one[name] for one in each) / len(each))
    assert {"window_exact_match", "window_f1", "mass"} < set(found)
    for answer in answers:
        assert answer.text.split() and answer.places == tuple(range(answer.places[0], answer.places[-1] + 1))
        assert answer.rows == ("first word", "last word") and answer.weights.shape == (2, len(answer.words))


def test_answers_are_in_the_order_of_the_questions(cloze):
    """They are asked in order of length."""
    model = Predictor.open(cloze)
    questions = sorted(model.task.questions("test")[:9], key=lambda one: -len(one.document.words))
    for answer, one in zip(model.replies(questions), questions):
        assert answer.words == one.document.words and answer.text in one.names
        assert all(answer.words[place] == answer.text for place in answer.places)


def test_a_typed_story_is_answered_with_its_own_names(cloze, typed):
    model = Predictor.open(cloze)
    answers = list(model.answer(typed))
    assert len(answers) == 2 and set(answers) <= {"Mary Ann", "John", "Bill"}
    first, second = (json.loads(line) for line in model.answer(typed, as_json=True))
    assert [first["answer"], second["answer"]] == answers and second["question"] == "Bill now works for ___"
    assert first["words"][0] == "Mary Ann" and first["rows"] == ["question"]
    assert len(first["weights"][0]) == len(first["words"]) and sum(first["weights"][0]) == pytest.approx(1, abs=0.01)
    assert model.predict(STORY["story"], "a judge hears ___ against John").text == answers[0]


def test_a_typed_passage_is_answered_with_a_span(squad, tmp_path):
    model = Predictor.open(squad)
    story = "Alnwick is a town (of 8,116 people) in the north, where it rains."
    answer = model.predict(story, "How many people live in Alnwick?")
    assert answer.text in story and answer.text == "".join(
        (" " if answer.blanks[place] and place > answer.places[0] else "") + answer.words[place]
        for place in answer.places
    )
    path = tmp_path / "my.jsonl"
    path.write_text(json.dumps({"story": ["Alnwick is a town.", "It rains."], "question": "What is Alnwick?"}))
    (line,) = model.answer(path, as_json=True)
    assert json.loads(line)["words"][-2:] == ["rains", "."]


def test_bad_input_names_its_line(cloze, tmp_path):
    path = tmp_path / "my.jsonl"
    path.write_text(json.dumps({**STORY, "question": "who sued John"}))
    with pytest.raises(ValueError, match=r"my.jsonl, line 1: the question must have one hole"):
        list(Predictor.open(cloze).answer(path))


def test_the_impatient_reader_looks_for_every_word(impatient):
    model = Predictor.open(impatient)
    questions = model.task.questions("test")[:6]
    for answer, one in zip(model.replies(questions), questions):
        assert answer.rows == one.question.words and answer.final == len(one.question.words) - 1
        assert answer.weights.sum(-1).tolist() == pytest.approx([1.0] * len(answer.rows))
    found = model.evaluate()
    assert 0 <= found["accuracy"] <= 100 and 0 < found["mass"] < 100


def test_show(cloze, impatient, typed, tmp_path):
    model = Predictor.open(cloze)
    (text,) = model.show(["3"], None)
    assert MARK in text and "[" in text and "→ " in text
    assert len(list(model.show([str(typed)], None))) == 3  # two documents and a line between them
    lines = list(model.show(["1", "2"], tmp_path / "looks.png"))
    assert (tmp_path / "looks-1.png").stat().st_size > 5000 and str(tmp_path / "looks-2.png") in lines
    assert list(model.show([], tmp_path / "looks.html"))[-1] == str(tmp_path / "looks.html")
    (text,) = Predictor.open(impatient).show([], None)
    assert any(line.startswith("@placeholder ") for line in text.split("\n")), "no line of shades for the hole"
    for what, message in ((["41"], "numbers 1 to 40"), (["my.json"], "neither a file")):
        with pytest.raises(ValueError, match=message):
            list(model.show(what, None))


def test_a_training_that_was_stopped_goes_on_the_same(tmp_path):
    changes = [*CLOZE, "schedule=constant"]  # a rate that knows no end
    whole = trained(tmp_path / "whole", "reader-cloze", *changes)
    parts = trained(tmp_path / "parts", "reader-cloze", *changes, "steps=9")
    regard.train("reader-cloze", "steps=none", out=parts, resume=True)
    one, other = (read_weights(Run.open(folder).weights("last"))[0] for folder in (whole, parts))
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["attentive", "impatient"])
def test_it_learns_to_read(tmp_path, reader):
    folder = trained(tmp_path / "run", "reader-cloze", "epochs=2", "tensorboard=false", "threads=1", f"reader={reader}")
    found = Predictor.open(folder).evaluate()
    assert found["accuracy"] >= 95 and found["mass"] >= 60, found


@pytest.mark.slow
def test_without_permutation_it_learns_names_instead_of_reading(tmp_path):
    """The paper's reason for anonymous entities: what is learned of names is worth nothing when they change."""
    found = {}
    for permute in ("true", "false"):
        changes = ["train_size=3000", "epochs=12", "tensorboard=false", "threads=1", f"permute={permute}"]
        found[permute] = Predictor.open(trained(tmp_path / permute, "reader-cloze", *changes)).evaluate()["accuracy"]
    assert found["true"] - found["false"] >= 20, found
