"""SQuAD: its format, its metrics, its baseline."""

from __future__ import annotations

import copy
import gzip
import json
import random
import zipfile

import numpy as np
import pytest
import torch

from regard.data.passages import Text
from regard.data.squad import cut, make, parse
from regard.metrics.spans import candidates, f1, normal, window
from regard.tasks.squad import Config, Squad, stem

CONTEXT = "The river Tyne (318 km) rises in the north. Newcastle's bridge was opened in 1928, by King George V."
DATA = {
    "data": [
        {
            "title": "Tyne",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "56be",
                            "question": "Who opened Newcastle's bridge?",
                            "answers": [
                                {"text": "King George V", "answer_start": CONTEXT.index("King")},
                                {"text": "George V", "answer_start": CONTEXT.index("George")},
                            ],
                        }
                    ],
                }
            ],
        }
    ]
}


def test_words_and_spans_are_those_of_the_text():
    ((one,),) = parse(DATA, "dev.json")
    assert one.document.words[:5] == ("The", "river", "Tyne", "(", "318")
    assert one.document.piece(*one.span) == "King George V" == one.answers[0]
    assert "dev.json, article 1 (Tyne), paragraph 1, question 1 (56be)" in one.place
    assert Text.of("1,000.5 of 3,4.").words == ("1,000.5", "of", "3,4", ".")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([], {"version": 1}, r"dev.json: 'data' must be a list"),
        (["data", 0], {"title": "Tyne"}, r"article 1 \(Tyne\): 'paragraphs' must be a list"),
        (["data", 0, "paragraphs", 0, "context"], None, r"paragraph 1: 'context' must be a text"),
        (["data", 0, "paragraphs", 0, "qas", 0, "question"], " ", r"question 1: 'question' must be a text"),
        (["data", 0, "paragraphs", 0, "qas", 0, "answers"], [], r"question 1 \(56be\): no answers"),
        (["data", 0, "paragraphs", 0, "qas", 0, "answers", 1, "answer_start"], 3, r"'George V' does not stand there"),
        (["data", 0, "paragraphs", 0, "qas"], [], r"dev.json: there is no question in it"),
    ],
)
def test_a_fault_is_found_where_it_is(path, value, message):
    data = copy.deepcopy(DATA)
    holder = {"": data}
    for key in ["", *path][:-1]:
        holder = holder[key]
    holder[["", *path][-1]] = value
    with pytest.raises(ValueError, match=message):
        parse(data if path else value, "dev.json")


def test_it_reads_files_as_they_are_published(tmp_path):
    text = json.dumps(make(20, random.Random(0)))
    plain, packed, archive = tmp_path / "plain", tmp_path / "packed", tmp_path / "archive"
    for folder in (plain, packed, archive):
        folder.mkdir()
    (plain / "train-v1.1.json").write_text(text)
    (plain / "dev-v1.1.json").write_text(json.dumps(make(2, random.Random(1))))
    (packed / "dev.json.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(archive / "dev.json.zip", "w") as made:
        made.writestr("dev.json", text)
    for folder in (packed, archive):
        task = Squad(Config(), folder)
        assert [len(task.questions(split)) for split in ("train", "valid", "test")] == [18 * 15, 18 * 2, 18 * 3]
    task = Squad(Config(), plain)
    assert [len(task.questions(split)) for split in ("train", "valid", "test")] == [18 * 18, 18 * 2, 18 * 2]
    (plain / "test.json").write_text(text)
    with pytest.raises(ValueError, match=r"two of which one begins with train; there are: dev-v1.1.json, test.json"):
        Squad(Config(), plain)
    (packed / "dev.json.gz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"dev.json.gz: not a whole gzip file"):
        Squad(Config(), packed)


def test_no_article_is_in_two_splits():
    task = Squad(Config(articles=20))
    places = {
        split: {one.place.partition(", paragraph")[0] for one in task.questions(split)}
        for split in ("train", "valid", "test")
    }
    assert [len(found) for found in places.values()] == [15, 2, 3] and len(set.union(*places.values())) == 20


def test_articles_without_a_question_do_not_count():
    asked = parse(make(6, random.Random(1)), "made")
    assert sum(map(len, cut([[], *asked, []], 0.1, None).values())) == sum(map(len, asked))
    for articles in ([], [[]], [[], asked[0], []]):
        with pytest.raises(ValueError, match=f"{sum(map(bool, articles))} articles with questions are too few to cut"):
            cut(articles, 0.1, 0.1)


def test_a_batch_says_what_the_question_says():
    task = Squad(Config(articles=8, longest=40))
    questions = task.questions("train")
    encoded = task.encode(questions)
    names = {number: word for word, number in task.numbers.items()}
    lost = [row for row, one in enumerate(questions) if one.span[1] >= 40]
    rows = np.array([0, 4, lost[0], 9])
    batch = task.batch(encoded, rows, None)
    for b, row in enumerate(rows):
        one = questions[row]
        read = one.document.words[:40]
        for word, number in zip(read, batch["document"][b].tolist()):
            assert names.get(number, word.lower()) == word.lower() and (number in names) == (
                word.lower() in task.numbers
            )
        span = (int(batch["first"][b]), int(batch["last"][b]))
        assert span == ((-1, -1) if row in lost else one.span)
        asked = {word.lower() for word in one.question.words if word.isalnum()}
        seen = batch["features"][b, : len(read)]
        assert seen[:, 0].bool().tolist() == [word.lower() in asked for word in read]
        assert seen[:, 2].bool().tolist() == [word[0].isupper() for word in read]
        assert seen[:, 3].bool().tolist() == [any(map(str.isdigit, word)) for word in read]
        assert seen[:, 6].bool().tolist() == [word.lower() not in task.numbers for word in read]
        assert not batch["features"][b, len(read) :].any()
    assert torch.isfinite(batch["features"]).all()
    assert stem("founded") == stem("founder") and stem("cities") != stem("rivers") and stem("his") == "his"


@pytest.mark.parametrize(
    ("answer", "right", "expected"),
    [
        ("The King, George V!", "king george v", 1.0),
        ("George V", "King George V", 0.8),
        ("a a b", "a b b", 2 / 3),  # the article "a" does not count: b against b b
        ("1928", "1929", 0.0),
        ("the", "an", 1.0),
        ("the", "king", 0.0),
    ],
)
def test_f1_is_that_of_words(answer, right, expected):
    assert f1(answer, right) == pytest.approx(expected) == pytest.approx(f1(right, answer))


def test_the_nearest_of_the_right_answers_counts():
    task = Squad(Config(articles=4))
    ((one,),) = parse(DATA, "dev.json")
    assert task.judge(one, "the george v") == {"exact_match": 1.0, "f1": 1.0}
    assert task.judge(one, "King")["f1"] == pytest.approx(0.5)
    assert normal("The U.S., a home") == ["us", "home"]


def test_the_window_finds_what_stands_among_the_questions_words():
    document = Text.of("Tyne fish are small. The bridge of Newcastle was opened by George in spring. Rain fell later.")
    assert window(document, Text.of("Who opened the bridge of Newcastle?")) == "George"
    assert window(document, Text.of("Which fish are small?")) == "Tyne"
    words = ["the", "well", "-", "known", "bridge", "of", "newcastle", ",", "opened"]
    found = [" ".join(words[first : last + 1]) for first, last in candidates(words, 0, len(words), {"the", "of"})]
    assert found == ["well - known bridge", "newcastle", "opened"]
    assert window(Text.of("it is"), Text.of("What?")) == "it is"  # where there is no candidate, everything


def test_made_articles_are_answered_by_their_sentences():
    for article in parse(make(5, random.Random(2)), "made"):
        for one in article:
            sentence = next(part for part in one.document.raw.split(". ") if one.answers[0] in part)
            assert one.document.piece(*one.span) == one.answers[0] and sentence
    task = Squad(Config())
    found = task.baselines(task.questions("test"))
    assert 20 < found["window_f1"] < 70


@pytest.mark.parametrize(
    ("options", "message"), [({"valid": 0.6, "test": 0.5}, "together below 1"), ({"batch": 0}, "1")]
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
