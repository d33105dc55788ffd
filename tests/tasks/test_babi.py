"""Stories: the formats, the worlds that write them, batches, and what is said of bad ones."""

import itertools
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.stories import Question, read_babi, read_json, read_typed, words
from regard.data.worlds import WORLDS, generate
from regard.tasks._stories import Table, Vocabulary, batch, story_loader
from regard.tasks.babi import Babi, Config, numbers

STORY = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary went back to the hallway.
5 Where is Mary?\thallway\t4
1 Sandra is in the garden.
2 Is Sandra in the garden?\tyes\t1
""".splitlines()


def test_babis_format():
    found = list(read_babi(STORY, "qa1.txt"))
    assert [one.answer for one in found] == ["bathroom", "hallway", "yes"]
    assert found[1].story == (
        "Mary moved to the bathroom.",
        "John went to the hallway.",
        "Mary went back to the hallway.",
    )
    assert found[1].support == (2,) and found[1].places[-1] == "qa1.txt, line 5"  # questions are no sentences
    assert found[2].story == ("Sandra is in the garden.",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Mary moved.", r"line 3: a line is a number"),
        ("3", r"line 3: a line is a number"),
        ("4 Mary moved.", r"line 3: number 4 follows 2"),
        ("3 Where is Mary?", r"line 3: a question without an answer"),
        ("3 Where is Mary?\t\t1", r"line 3: a question is question, tab, answer"),
        ("3 Where is Mary?\tgarden\t7", r"line 3: the supporting fact '7'"),
        ("1 Where is Mary?\tgarden\t", r"line 3: a question before any sentence"),
    ],
)
def test_a_malformed_line_is_named(line, message):
    with pytest.raises(ValueError, match=message):
        list(read_babi(["1 Mary moved.", "2 John moved.", line], "qa1.txt"))


def test_ones_own_stories():
    lines = [
        json.dumps({"story": "Mary moved. John left!", "question": "Who left?", "answer": "John", "support": [2]}),
        "",
        json.dumps({"story": ["Mary moved."], "question": "Who moved?", "answer": "Mary"}),
    ]
    first, second = read_json(lines, "own.jsonl")
    assert first.story == ("Mary moved.", "John left!") and first.support == (1,)
    assert second.places == ("own.jsonl, line 3",) * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: a line is {"),
        ('{"story": "A b.", "question": "A?"}', "line 1: 'answer' must be a text"),
        ('{"stroy": "A b.", "question": "A?", "answer": "b"}', "did you mean 'story'"),
        ('{"story": [], "question": "A?", "answer": "b"}', "line 1: 'story' must be"),
        ('{"story": "A b.", "question": "A?", "answer": "b", "support": [2]}', "from 1 to 1"),
    ],
)
def test_a_bad_line_of_json_is_named(line, message):
    with pytest.raises(ValueError, match=message):
        list(read_json([line], "own.jsonl"))


def test_a_typed_story():
    typed = ["Mary moved to the garden. John left.", "Where is Mary?", "Who left?", "", "1 Bill sat.", "2 Who sat?"]
    found = list(read_typed(typed, "story.txt"))
    assert [one.question for one in found] == ["Where is Mary?", "Who left?", "Who sat?"]
    assert found[0].story == ("Mary moved to the garden.", "John left.") and found[0].answer is None
    assert found[2].story == ("Bill sat.",) and found[2].places == ("story.txt, line 5", "story.txt, line 6")
    assert [one.answer for one in read_typed(STORY, "qa1.txt")] == ["bathroom", "hallway", "yes"]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["Mary moved.", "John left."], r"story.txt, line 2: a story without a question; end it with one"),
        (["Mary moved.", "Where is Mary"], r"line 2: .*'Where is Mary' is meant as one, end it with '\?'"),
        (["Mary moved.", "", "John left.", "Who left?"], r"line 1: a story without a question"),
        (["Where is Mary?"], r"line 1: a question without a story"),
        (["", ""], r"there is nothing in it"),
        (["Mary moved.\tgarden"], r"line 1: an answer behind what is no question"),
    ],
)
def test_a_typed_story_that_asks_nothing(typed, message):
    with pytest.raises(ValueError, match=message):
        list(read_typed(typed, "story.txt"))


def test_an_unknown_word_names_the_place_and_the_nearest():
    vocabulary = Vocabulary.of(read_babi(STORY, "qa1.txt"))
    with pytest.raises(ValueError, match=r"story.txt, line 2: the word 'bathrom' .*did you mean 'bathroom'"):
        vocabulary.ids("Mary is in the bathrom", "story.txt, line 2")
    assert vocabulary.ids("Mary zzz") == [vocabulary.numbers["mary"]]


# ---------------------------------------------------------------------------------------------------------------------
# Worlds


SINGLE = {"cats": "cat", "mice": "mouse", "sheep": "sheep", "wolves": "wolf"}
SMALL = {"the", "is", "a", "to", "what", "where", "of", "in", "was", "there", "went", "moved", "back"}


def facts(one: Question) -> list[str]:
    return [one.story[fact] for fact in one.support]


def _truth(task: int, one: Question) -> str:
    """The answer, found by a reader that knows the rules and nothing of the generator."""
    told = [words(sentence) for sentence in one.story]
    asked = words(one.question)
    places = {"bathroom", "bedroom", "garden", "hallway", "kitchen", "office"}
    at: dict[str, str] = {}
    held: dict[str, str] = {}
    path: dict[str, list[str]] = {}
    for said in told:
        person = said[0]
        if said[-1] in places:
            at[person] = said[-1]
            for thing in (thing for thing, holder in held.items() if holder == person):
                path[thing].append(said[-1])
        elif thing := next((word for word in said if word in ("apple", "football", "milk")), None):
            if said[1] in ("got", "took", "grabbed", "picked"):
                assert path.get(thing, [at[person]])[-1] == at[person], "took what was not there"
                held[thing] = person
                path.setdefault(thing, [at[person]])
            else:
                assert held.pop(thing) == person
    if task == 1:
        return at[asked[-1]]
    if task == 2:
        return path[asked[-1]][-1]
    if task == 3:
        thing, before = asked[3], asked[-1]
        assert path[thing][-1] == before
        return path[thing][-2]
    if task == 6:
        return "yes" if at[asked[1]] == asked[-1] else "no"
    if task == 15:
        fears = {SINGLE[said[0]]: SINGLE[said[-1]] for said in told if "afraid" in said}
        return fears[next(said[-1] for said in told if said[0] == asked[2])]
    kinds = {said[0]: said[-1] for said in told if said[2] == "a"}
    colours = {said[0]: said[-1] for said in told if said[2] != "a"}
    (colour,) = {colours[name] for name, kind in kinds.items() if kind == kinds[asked[-1]] and name in colours}
    return colour


@pytest.mark.parametrize("task", WORLDS)
def test_generated_answers_follow_from_their_stories(task):
    lines = list(generate(task, 200, random.Random(0)))
    found = list(read_babi(lines, "made"))
    assert len(found) >= 200
    for one in found:
        assert one.answer == _truth(task, one), one
        # The chain holds together: each fact shares a word that matters with the question or the fact before it.
        chain = [{SINGLE.get(word, word) for word in words(text)} - SMALL for text in (one.question, *facts(one))]
        for before, after in itertools.pairwise(chain):
            assert before & after, one
    assert len({one.answer for one in found}) > 1


def test_facts_of_two_and_three():
    for task, count in ((2, 2), (3, 3), (16, 3)):
        found = list(read_babi(generate(task, 50, random.Random(1)), "made"))
        assert all(len(one.support) == count for one in found)
    with pytest.raises(ValueError, match="task 4 cannot be generated, only 1, 2, 3, 6, 15, 16"):
        list(generate(4, 1, random.Random(0)))


# ---------------------------------------------------------------------------------------------------------------------
# Tables, batches, loaders


def test_a_table_has_the_newest_sentence_first():
    questions = list(read_babi(STORY, "qa1.txt"))
    vocabulary = Vocabulary.of(questions)
    table = Table.of(questions, vocabulary, memory=2)
    assert table.story.shape == (3, 2, 6)
    spelled = [vocabulary.known[number - 1] for number in table.story[1, 0] if number]
    assert spelled == ["mary", "went", "back", "to", "the", "hallway"]
    assert table.support[1, 0] == 0 and table.support[0, 0] == 1
    lost = questions[1]._replace(support=(0,))
    assert Table.of([lost], vocabulary, memory=2).support.tolist() == [[-2]]
    assert Table.of([lost._replace(answer="sauna")], vocabulary, 2).answer.tolist() == [0]
    assert Table.of([lost._replace(answer=None)], vocabulary, 2).answer.tolist() == [-1]


def _tables():
    sizes, dice = (70, 45), np.random.default_rng(0)
    for number, size in enumerate(sizes):
        story = dice.integers(1, 9, (size, 3 + number, 4)).astype(np.int16)
        question = dice.integers(1, 9, (size, 4)).astype(np.int16)
        yield Table(story, question, np.arange(size), np.zeros((size, 1), np.int16))


def test_shuffled_batches_are_full_and_depend_on_seed_and_epoch_alone():
    tables = list(_tables())
    loader = story_loader(tables, 16, seed=3)
    assert len(loader) == 4
    first = [made["answer"] for made in loader]
    second = [made["answer"] for made in loader]
    assert all(made.shape == (16, 2) and (made >= 0).all() for made in first)
    large = torch.cat(first)[:, 0]
    assert len(large.unique()) == 64 and not torch.equal(large, torch.cat(second)[:, 0])
    small = torch.cat(first)[:, 1]
    assert len(small[:45].unique()) == 45  # once through, then again
    again = story_loader(tables, 16, seed=3)
    assert torch.equal(torch.cat([made["answer"] for made in again]), torch.cat(first))
    assert not torch.equal(torch.cat([made["answer"] for made in story_loader(tables, 16, seed=4)]), torch.cat(first))


def test_in_order_every_question_comes_once():
    loader = story_loader(list(_tables()), 16, shuffle=False, validation=True)
    answers = torch.cat([made["answer"] for made in loader])
    assert answers[:, 0].tolist() == list(range(70))
    assert answers[:, 1].tolist() == [*range(45), *[-1] * 25]
    assert all(bool(made["validation"]) for made in loader)
    last = list(loader)[-1]
    assert not last["story"][:, 1].any() and not last["question"][:, 1].any()


def test_a_loader_goes_on_where_it_stopped():
    tables = list(_tables())
    loader, whole = story_loader(tables, 16, seed=3), list(story_loader(tables, 16, seed=3))
    running = iter(loader)
    next(running), next(running)
    other = story_loader(tables, 16, seed=3)
    other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    for made, expected in zip(other, whole[2:], strict=True):
        assert all(torch.equal(made[name], expected[name]) for name in expected)
    with pytest.raises(ValueError, match="seed was 3 and is 4"):
        story_loader(tables, 16, seed=4).load_state_dict(loader.state_dict())


def test_batches_are_cut_to_their_longest_story():
    table = next(_tables())
    table.story[5, 2:] = 0
    made = batch([table], [np.array([5, -1])])
    assert made["story"].shape == (2, 1, 2, 4) and made["answer"].tolist() == [[5], [-1]]


# ---------------------------------------------------------------------------------------------------------------------
# The task


def test_generated_tasks_need_no_data(tmp_path):
    task = Babi(Config(tasks="1,16", train_size=60, test_size=20))
    assert task.names == ["1", "16"] and [len(sizes) for sizes in task.sizes.values()] == [2, 2]
    assert [len(each) for each in task.questions("train").values()] == [54, 54]
    assert [len(each) for each in task.questions("valid").values()] == [6, 6]
    made = next(iter(task.loader("train")))
    assert made["story"].shape[:2] == (32, 2)
    task.save(tmp_path)
    other = Babi.load(tmp_path)
    assert other.sizes == task.sizes and other.names == task.names
    assert other.vocabularies[1].known == task.vocabularies[1].known
    assert torch.equal(next(iter(other.loader("train")))["story"], made["story"])


def test_joint_is_one_model_with_all_words():
    alone, joint = (Babi(Config(tasks="1,16", train_size=60, test_size=20, joint=one)) for one in (False, True))
    assert len(joint.vocabularies) == 1 and joint.home("16") == 0 and alone.home("16") == 1
    assert set(joint.vocabularies[0].known) == {word for one in alone.vocabularies for word in one.known}
    assert next(iter(joint.loader("train")))["answer"].shape == (32, 1)


def test_own_files(tmp_path):
    line = json.dumps({"story": "Mary moved. John left.", "question": "Who left?", "answer": "John"})
    (tmp_path / "train.jsonl").write_text("\n".join([line] * 40))
    task = Babi(Config(), tmp_path)
    assert task.names == ["stories"] and len(task.questions("test")["stories"]) == 4
    (tmp_path / "test.jsonl").write_text(line)
    assert len(Babi(Config(), tmp_path).questions("test")["stories"]) == 1
    one = Babi(Config(), tmp_path / "train.jsonl")
    assert sum(len(one.questions(split)["stories"]) for split in ("train", "valid", "test")) == 40
    (tmp_path / "test.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"test.jsonl: there is no question"):
        Babi(Config(), tmp_path)


@pytest.mark.parametrize("tasks", ["", "0", "21", "1,1", "x", "3-2", "1-2-3"])
def test_wrong_numbers_of_tasks(tasks):
    with pytest.raises(ValueError, match="tasks = "):
        Config(tasks=tasks)
    assert numbers("1,3-5") == [1, 3, 4, 5]


def test_wrong_names(tmp_path):
    task = Babi(Config(train_size=20, test_size=5))
    with pytest.raises(ValueError, match="did you mean 'valid'"):
        task.loader("valdi")
    with pytest.raises(ValueError, match="no task here is called '9'"):
        task.home("9")
    with pytest.raises(ValueError, match="no files qa1_"):
        Babi(Config(), tmp_path)
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(ValueError, match="not the description of a task"):
        Babi.load(tmp_path)


REAL = Path(os.environ.get("REGARD_DATA", "/nowhere")) / "babi"


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the bAbI data in $REGARD_DATA/babi")
def test_the_real_files():
    task = Babi(Config(tasks="1-20", data=str(REAL)))
    for split, number in (("train", 900), ("valid", 100), ("test", 1000)):
        assert [len(each) for each in task.questions(split).values()] == [number] * 20
    assert task.sizes["memory"][2] == 50 and task.sizes["words"][0] == 20
    support = [one.support for one in task.questions("train")["16"]]
    assert all(len(facts) == 3 for facts in support)
    assert {one.answer for one in task.questions("test")["19"]} <= set(task.vocabularies[18].numbers)
    for name in ("1", "15"):
        assert all(one.answer == _truth(int(name), one) for one in task.questions("test")[name])
