"""Cloze stories: made, read from files, typed; and how entities are dealt."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from regard.data.cloze import HOLE, MARK, RELATIONS, read_file, stories
from regard.data.passages import Typed, read_typed
from regard.tasks._passages import FIRST
from regard.tasks.cloze import Cloze, Config

SMALL = Config(train_size=130, test_size=40, batch=16)


@pytest.fixture(scope="module")
def task():
    return Cloze(SMALL)


def _matches(template: str, text: str) -> tuple[str, str] | None:
    """The entities with which a template says a text."""
    pattern, words = template.split(), text.split()
    if len(pattern) != len(words):
        return None
    found = {}
    for expected, word in zip(pattern, words):
        if expected in ("{a}", "{b}"):
            found[expected] = word
        elif expected != word:
            return None
    return found["{a}"], found["{b}"]


def _facts(story: str) -> list[tuple[int, str, str]]:
    """What a story says, found by one who knows the templates and nothing of how it was made."""
    found = []
    for sentence in story.split(" . "):
        text = sentence.removesuffix(" .").split()
        for cut in range(4):
            for number, (told, _) in enumerate(RELATIONS):
                for template in told:
                    if pair := _matches(template.removesuffix(" ."), " ".join(text[cut:])):
                        found.append((number, *pair))
    return found


def test_the_answer_follows_from_the_story_and_from_nothing_less():
    for story, asked, answer in stories(300, 3, 6, 20, 0.8, random.Random(1)):
        facts = _facts(story)
        assert len(facts) == story.count(" .") and 3 <= len(facts) <= Config().facts
        ((relation, a, b),) = [
            (number, *pair)
            for number, (_, questions) in enumerate(RELATIONS)
            for template in questions
            if (pair := _matches(template, asked))
        ]
        given = a if b == HOLE else b
        right = [fact for fact in facts if fact[0] == relation and given in fact[1:]]
        assert len(right) == 1 and right[0][1 + (b == HOLE)] == answer
        assert (right[0][1] == given) == (b == HOLE)
        assert sum(fact[0] == relation for fact in facts) >= 2, "the relation alone would do"
        assert sum(given in fact for fact in facts) >= 2, "the entity alone would do"


def test_words_of_a_fact_are_not_those_of_its_question():
    for told, asked in RELATIONS:
        for question in asked:
            assert not any(question in sentence for sentence in told)


def test_a_batch_says_what_the_question_says(task):
    encoded, questions = task.encode(task.questions("test")), task.questions("test")
    names = {number: word for word, number in task.numbers.items()}
    rows = np.array([3, 17, 5])
    batch = task.batch(encoded, rows, np.random.default_rng(0))
    for b, row in enumerate(rows):
        one, dealt = questions[row], {}
        for text, ids in ((one.document.words, batch["document"][b]), (one.question.words, batch["question"][b])):
            assert not ids[len(text) :].any()
            for word, number in zip(text, ids.tolist()):
                if word.startswith(MARK):
                    assert FIRST <= number < FIRST + 20 and dealt.setdefault(word, number) == number
                else:
                    assert names[number] == word
        assert len(set(dealt.values())) == len(dealt), "two entities have one marker"
        assert dealt[one.answers[0]] == batch["answer"][b] + FIRST
        assert batch["document_lengths"][b] == len(one.document.words)


def test_markers_are_dealt_anew_in_every_epoch_and_the_same_from_the_same_seed(task):
    def epoch(loader):
        """Each question with the marker of its answer."""
        return [(batch["document"].sum(), batch["answer"].tolist()) for batch in loader]

    loader, again = task.loader("train", seed=3), task.loader("train", seed=3)
    first, second = epoch(loader), epoch(loader)
    assert first == epoch(again) and first != second
    counts = torch.zeros(20)
    for _ in range(10):
        for batch in loader:
            counts += torch.bincount(batch["answer"], minlength=20)
    assert counts.min() > 0.5 * counts.mean(), "some markers are hardly ever the answer"
    valid = task.loader("valid")
    assert epoch(valid) == epoch(valid)


def test_a_loader_goes_on_where_it_stopped(task):
    whole, stopped, resumed = (task.loader("train", seed=1) for _ in range(3))
    expected = [batch for _ in range(2) for batch in whole]
    batches = iter(stopped)
    for _ in range(4):
        next(batches)
    resumed.load_state_dict(stopped.state_dict())
    got = [batch for _ in range(2) for batch in resumed]
    assert len(got) == len(expected) - 4
    for one, other in zip(got, expected[4:]):
        assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(ValueError, match="questions was 130 and is 40"):
        task.loader("test").load_state_dict({**stopped.state_dict(), "of": {**stopped.state_dict()["of"]}})


def test_without_permutation_training_keeps_names_and_the_test_does_not():
    task = Cloze(Config(train_size=60, test_size=30, permute=False))
    encoded, questions = task.encode(task.questions("train")), task.questions("train")
    batch = next(iter(task.loader("train", shuffle=False)))
    rows = np.argsort([len(document) for document in encoded.document], kind="stable")[: len(batch["answer"])]
    own = [int(questions[row].answers[0].removeprefix(MARK)) for row in rows]
    assert batch["answer"].tolist() == own
    tests = task.questions("test")
    held = next(iter(task.loader("test")))
    rows = np.argsort([len(one.document.words) for one in tests], kind="stable")[: len(held["answer"])]
    assert held["answer"].tolist() != [int(tests[row].answers[0].removeprefix(MARK)) for row in rows]


def test_saved_and_loaded_it_reads_the_same(task, tmp_path):
    task.save(tmp_path)
    other = Cloze.load(tmp_path)
    assert other.sizes == task.sizes and other.numbers == task.numbers
    with pytest.raises(ValueError, match="no setting 'bach': did you mean 'batch'"):
        Cloze.load(tmp_path, bach=3)


def test_baselines_are_counted_as_one_counts_them(task):
    questions = task.questions("test")
    found = task.baselines(questions)
    right = 0
    for one in questions:
        mentioned = [word for word in one.document.words if word.startswith(MARK)]
        right += max(mentioned, key=mentioned.count) == one.answers[0]  # the first of the most frequent
    assert found["most_frequent"] == pytest.approx(100 * right / len(questions))
    assert found["exclusive_frequent"] < 50


# ---------------------------------------------------------------------------------------------------------------------
# Files and typed stories

STORY = (
    "http://x.org/a\n\n@entity1 met @entity22 in @entity3 .\n\n@placeholder met @entity22\n\n@entity1\n\n"
    "@entity1:Mary\n"
)


def test_the_published_format(tmp_path):
    for folder in ("training", "validation", "test"):
        (tmp_path / "questions" / folder).mkdir(parents=True)
        (tmp_path / "questions" / folder / "1.question").write_text(STORY)
    task = Cloze(Config(), tmp_path)
    (one,) = task.questions("test")
    assert one.answers == ("@entity1",) and one.names == {"@entity1", "@entity22", "@entity3"}
    assert set(task.numbers) == {"met", "in", ".", HOLE}
    batch = next(iter(task.loader("train")))
    assert batch["document"][0, 0] == batch["answer"][0] + FIRST
    with pytest.raises(ValueError, match="there must be folders training, validation, test"):
        Cloze(Config(), tmp_path / "questions" / "test")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://x.org\n\n@entity1 met @entity2\n", r"a.question: it ends after line 3"),
        (STORY.replace(HOLE, "somebody"), r"a.question, line 5: the question must have one @placeholder"),
        (STORY.replace("\n@entity1\n", "\n@entity7\n"), r"a.question, line 7: the answer '@entity7' is no entity"),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, message):
    path = tmp_path / "a.question"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_file(path)


def test_a_typed_story_has_names(task):
    one = task.typed(Typed("Mary Ann sued John over a broken promise.", "a judge hears ___ against John", None, "x"))
    assert one.document.words[0] == "Mary Ann" and one.names == {"Mary Ann", "John"}
    assert one.question.words[3] == HOLE
    encoded = task.encode([one])
    assert encoded.document[0][0] == -1 and encoded.document[0][2] == -2 == encoded.question[0][-1]


@pytest.mark.parametrize(
    ("story", "asked", "message"),
    [
        (
            "Mary sued John over a promise.",
            "a judge hears Mary against John",
            "line 1: the question must have one hole",
        ),
        ("Mary sued John over a promis.", "___ sued John", "line 1: the word 'promis' .*did you mean 'promise'"),
        ("later a judge hears .", "___ sued John", "line 1: there is no entity in the story"),
    ],
)
def test_a_typed_story_that_cannot_be_read_says_why(task, story, asked, message):
    with pytest.raises(ValueError, match=message):
        task.typed(Typed(story, asked, None, "my.jsonl, line 1"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: a line is {"),
        ('{"story": "A b."}', "line 1: 'question' must be a text"),
        ('{"story": " ", "question": "A?"}', "line 1: 'story' must be a text"),
        ('{"stroy": "A b.", "question": "A?"}', "did you mean 'story'"),
        ("", "there is nothing in it"),
    ],
)
def test_a_bad_line_is_named(line, message):
    with pytest.raises(ValueError, match=message):
        list(read_typed([line], "my.jsonl"))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"entities": 5}, "6 facts need at least 12"), ({"habit": 2.0}, "a share"), ({"facts": 1}, "3")],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Config(**options)
