"""Questions about dialogues with choices: DREAM's format and its errors, the simple ways, batches and answers."""

import json
import random

import numpy as np
import pytest

import regard
from regard import registry
from regard.data import choices
from regard.metrics import choices as metrics

DREAM = [
    [
        ["M: Where is my red coat?", "W: It is in the kitchen. I washed it: twice."],
        [
            {"question": "Where is the coat?", "choice": ["In a car.", "In the kitchen."], "answer": "In the kitchen."},
            {"question": "What did the woman do?", "choice": ["Wash it.", "Sell it.", "Buy it."], "answer": "Wash it."},
        ],
        "1-1",
    ]
]


def test_turns_know_their_speakers_and_words():
    ((one, other),) = choices.parse(DREAM, "a file")
    assert (one.right, other.right) == (1, 0) and len(other.choices) == 3
    assert [turn.speaker for turn in one.turns] == ["M", "W"]
    said = [one.dialogue.words[turn.first : turn.end] for turn in one.turns]
    assert said[0] == ("Where", "is", "my", "red", "coat", "?") and said[1][-3:] == (":", "twice", ".")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.__setitem__(0, {}), r"dialogue 1: a dialogue is \[turns, questions, id\]"),
        (lambda found: found[0][0].append(3), "dialogue 1: its turns must be a list of texts"),
        (lambda found: found[0][1][1].update(answer="Eat it."), "question 2: the answer 'Eat it.' is none"),
        (lambda found: found[0][1][0].update(choice=["one"]), "question 1: 'choice' must be a list of 2 to 8 texts"),
        (lambda found: found[0][1][0].update(question=" "), "question 1: 'question' must be a text"),
    ],
)
def test_a_bad_dialogue_is_named(change, message):
    found = json.loads(json.dumps(DREAM))
    change(found)
    with pytest.raises(ValueError, match=f"^a file, .*{message}"):
        choices.parse(found, "a file")


def test_unequal_quotes_are_named_with_their_line(tmp_path):
    path = tmp_path / "train.json"
    path.write_text(json.dumps(DREAM, indent=1).replace('"1-1"', '"1-1'))
    number = next(k for k, line in enumerate(path.read_text().split("\n"), 1) if line.strip() == '"1-1')
    with pytest.raises(ValueError, match=rf"train\.json: not JSON: .*line {number} column"):
        choices.read(path)


def test_overlaps_are_those_of_a_count_by_hand():
    dialogue = ["the", "coat", "is", "in", "the", "kitchen", "and", "the", "cat", "sleep"]
    found = metrics.overlaps(dialogue, ["where", "coat"], [["kitchen"], ["car"], ["the", "cat"]])
    columns = dict(zip(metrics.COLUMNS, found.T))
    rare, common = np.log(2), np.log(1 + 1 / 3)
    assert columns["share"].tolist() == [1, 0, 1] and columns["pairs"].tolist() == [0, 0, 1]
    np.testing.assert_allclose(columns["window_alone"], [rare, 0, common + rare], rtol=1e-6)
    # Three words stand between coat and kitchen, and so no window of two holds both. The distance counts one more.
    np.testing.assert_allclose(columns["window"], [rare, rare, common + rare], rtol=1e-6)
    np.testing.assert_allclose(columns["distance"], [4 / 9, 1, 7 / 9], rtol=1e-6)


def test_a_question_names_its_speaker():
    assert metrics.asked_about(["What", "does", "the", "man", "want", "?"], "M")
    assert not metrics.asked_about(["What", "does", "the", "woman", "want", "?"], "M")
    assert metrics.asked_about(["Where", "does", "Emily", "live"], "Emily")


def _task(tmp_path, **settings):
    (tmp_path / "train.json").write_text(json.dumps(DREAM * 12))
    (tmp_path / "dev.json").write_text(json.dumps(DREAM))
    kind = registry.task("dialogue_choices")
    return kind(kind.settings(min_count=1, **settings), tmp_path)


def test_marks_follow_the_speaker_who_is_asked_about(tmp_path):
    task = _task(tmp_path)
    first, second = (task.item("test", number) for number in range(2))
    words = second.one.dialogue.words
    assert [word for word, mark in zip(words, second.features[:, 2]) if mark][:3] == ["It", "is", "in"]
    spoken = first.features[:, 2].astype(bool)
    assert "coat" in [word for word, mark in zip(words, spoken) if mark], "nobody is asked about: all turns count"
    assert second.features[words.index("washed"), 1] == 0 and first.features[words.index("coat"), :2].tolist() == [1, 1]


def test_questions_with_fewer_choices_are_padded(tmp_path):
    task = _task(tmp_path, batch=4)
    ((rows, batch),) = task.batches([task.item("test", 0), task.item("test", 1)])
    assert batch["choices"].shape[:2] == (2, 3)
    lengths = {int(row): batch["choice_lengths"][place].tolist() for place, row in enumerate(rows)}
    assert lengths == {0: [4, 4, 0], 1: [3, 3, 3]}
    assert batch["facts"][list(rows).index(0), 2].tolist() == [0.0] * task.sizes["facts"]


def test_made_dialogues_need_the_speaker_and_are_learned(tmp_path):
    made = choices.parse(choices.make(50, random.Random(0)), "made")
    for one in (one for dialogue in made for one in dialogue):
        mentioned = [choice.raw in one.dialogue.raw for choice in one.choices]
        assert sum(mentioned) == 2 and mentioned[one.right]
    sizes = ("train_size=300", "valid_size=30", "test_size=60", "task.batch=16")
    small = ("data=", *sizes, "epochs=2", "tensorboard=false", "threads=1")
    trained = regard.train("dream", *small, out=tmp_path / "run")
    run = regard.load(trained.folder)
    found = run.evaluate()
    assert found["accuracy"] > 90 > found["window"]
    asked = run.Question(
        dialogue="M: Hello.\nM: I will buy a lamp.\nW: I want to buy a blue coat.",
        question="What does the woman want to buy?",
        choices="a lamp\na blue coat",
    )
    (answer,) = run.ask([asked])
    assert answer.text == "a blue coat" and set(answer.fields["probabilities"]) == {"a lamp", "a blue coat"}
    assert answer.pictures
    wrong = {"one choice": "1 choices: there must be from 2", "\n".join("abcdefghi"): "9 choices"}
    for given, message in wrong.items():
        (error,) = run.ask([run.Question(dialogue="M: Hello.", question="Who?", choices=given)])
        assert isinstance(error, ValueError) and message in str(error)
    (error,) = run.ask([run.Question(dialogue="M: yes " * 500, question="Who?", choices="a\nb")])
    assert "and at most 400 are read" in str(error)


def test_an_example_of_the_test_split_is_shown_by_its_number(tmp_path):
    """Its fields need not be typed."""
    small = ("data=", "train_size=20", "valid_size=4", "test_size=4", "steps=2", "tensorboard=false", "threads=1")
    run = regard.load(regard.train("dream", *small, out=tmp_path / "run").folder)
    ((heading, picture),) = run.look(["1"])
    item = run.task.item("test", 1)
    assert any(choice in heading for choice in run.task.classes_of(item)) and picture is not None
    assert item.one.question.raw in picture.title
