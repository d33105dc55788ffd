"""Conversations: formats and their errors, made ones, what follows what, and talking in the terminal."""

import copy
import io
import json
import math
import random
import re

import pytest
import torch
from rich.console import Console

import regard
from regard import registry, runs
from regard.commands import chat
from regard.data import conversations, dialogs, talks, turns
from regard.metrics.ngrams import NGrams
from regard.systems.dialog_memory import Config, DialogMemory

COQA = {
    "data": [
        {
            "story": "Anna lives in Rome. She has two cats.",
            "questions": [
                {"input_text": "Where does Anna live?", "turn_id": 1},
                {"input_text": "Any cats?", "turn_id": 2},
            ],
            "answers": [
                {"input_text": "in rome", "span_start": 0, "span_end": 19, "turn_id": 1},
                {"input_text": "Yes", "span_start": 20, "span_end": 37, "turn_id": 2},
            ],
            "additional_answers": {"0": [{"input_text": "Rome"}, {"input_text": "two"}]},
        }
    ]
}
QUAC = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "He was born in 1950. CANNOTANSWER",
                    "qas": [
                        {"question": "When was he born?", "answers": [{"text": "1950", "answer_start": 15}]},
                        {"question": "Where?", "answers": [{"text": "CANNOTANSWER", "answer_start": 21}]},
                    ],
                }
            ]
        }
    ]
}
FRIENDS = {
    "data": [
        {
            "paragraphs": [
                {
                    "utterances:": [
                        {"speakers": ["Ross Geller"], "utterance": "I like dinosaurs ."},
                        {"speakers": ["Carol"], "utterance": "Really ?"},
                    ],
                    "qas": [
                        {
                            "question": "What does Ross like ?",
                            "answers": [
                                {"answer_text": "dinosaurs", "utterance_id": 0, "inner_start": 2, "inner_end": 2}
                            ],
                        },
                        {
                            "question": "Who doubts it ?",
                            "answers": [{"answer_text": "Carol", "utterance_id": 1, "is_speaker": True}],
                        },
                    ],
                }
            ]
        }
    ]
}


def test_an_answer_that_does_not_stand_where_it_should_is_named():
    found = copy.deepcopy(FRIENDS)
    found["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_text"] = "a piano"
    with pytest.raises(ValueError, match="question 1: the answer 'a piano' does not stand there, but 'dinosaurs'"):
        conversations.parse(found, "a file")


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("found", "wanted"),
    [(COQA, ["in Rome", "yes"]), (QUAC, ["1950", "CANNOTANSWER"]), (FRIENDS, ["dinosaurs", "Carol"])],
)
def test_answers_are_spans_of_the_text(found, wanted, whole):
    (talk,) = conversations.parse(found if whole else found["data"], "a file")
    assert [one.document.piece(*one.span) for one in talk] == wanted


def test_a_text_that_is_cut_keeps_yes_no_and_unknown(tmp_path):
    (whole,) = conversations.parse(COQA, "a file")
    short = conversations.shorten(whole, 8)  # of five words, yes, no and unknown
    assert short[0].document.words == ("Anna", "lives", "in", "Rome", ".", "yes", "no", "unknown")
    assert [one.document.piece(*one.span) for one in short] == ["in Rome", "yes"]
    assert conversations.shorten(whole, 5)[0].span == (-1, -1)  # Rome was cut off
    assert conversations.shorten(whole, 99) == whole
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.json").write_text(json.dumps(COQA))
    recipe = registry.recipe("coqa-made").change(["task.longest=8", f"task.data={tmp_path}"])
    task = runs.assemble(recipe).task
    batch = next(iter(task.loader("valid")))
    assert task.questions("valid")[1].document.words[-3:] == ("yes", "no", "unknown")
    assert batch["first"].tolist() == [2, 5]


def test_history_and_all_right_answers_are_kept():
    (talk,) = conversations.parse(COQA, "a file")
    assert talk[1].history == (("Where does Anna live?", "in rome"),)
    assert talk[1].answers == ("Yes", "two")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry["answers"].pop(), "entry 1: 2 questions and 1 answers"),
        (lambda entry: entry["answers"][1].update(turn_id=3), "entry 1, turn 2: its 'turn_id' must be 2"),
        (lambda entry: entry["answers"][0].update(span_end=900), "entry 1, turn 1: span_start and span_end"),
        (lambda entry: entry.update(story=" "), "entry 1: 'story' must be a text"),
    ],
)
def test_a_bad_conversation_is_named(change, message):
    found = json.loads(json.dumps(COQA))
    change(found["data"][0])
    with pytest.raises(ValueError, match=message):
        conversations.parse(found, "a file")


def test_made_answers_stand_where_they_say_and_names_stay_in_sight():
    others = {"Today", "She", "He", "Two", "Three", "Four", "Nobody", *conversations._TOWNS}
    for talk in conversations.parse(conversations.make(200, random.Random(1)), "made"):
        assert 4 <= len(talk) <= 6
        for one in talk:
            said = one.document.piece(*one.span)
            assert said == one.answers[0], (one.question.raw, said, one.answers)
            seen = " ".join([one.question.raw, *(f"{a} {b}" for a, b in one.history[-2:])])
            named = set(re.findall(r"[A-Z]\w+", one.document.raw)) - others
            assert any(name in seen for name in named) or not one.history, seen


def test_histories_are_read_written_and_cut():
    text = turns.add("you: hi\nagent: hello: you\na fact", "more", "yes", "b R_x c", longest=200)
    said = turns.read(text)
    assert [one.speaker for one in said] == ["you", "agent", "", "you", "agent", ""]
    assert said[1].text == "hello: you" and turns.pairs(said) == [("hi", "hello: you"), ("more", "yes")]
    assert turns.read(turns.add(text, "new", "ok", longest=25)) == [("you", "new"), ("agent", "ok")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["hello"], "line 1: a line is a number"),
        (["1 hi\tyes", "3 b\tc"], "line 2: number 3 follows 1"),
        (["1 hi\tyes\tno"], "line 1: a turn is"),
        (["1 a R_b c"], "the agent says nothing"),
    ],
)
def test_a_bad_dialogue_is_named(lines, message):
    with pytest.raises(ValueError, match=message):
        dialogs.parse(lines, "a file")


def test_a_folder_in_the_published_format_is_read(tmp_path):
    for split in ("trn", "dev", "tst"):
        (tmp_path / f"dialog-babi-task1{split}.txt").write_text("1 hi\thello\n2 a R_price cheap\n3 where\tin rome\n\n")
    (tmp_path / "dialog-babi-candidates.txt").write_text("1 hello\n1 in rome\n")
    (tmp_path / "dialog-babi-kb-all.txt").write_text("1 a R_price\tcheap\n")
    task = registry.task("dialog_babi")(registry.task("dialog_babi").settings(tasks="1"), tmp_path)
    item = task.item("test", 1)
    assert item.labels == ("you: hi", "agent: hello", "a R_price cheap") and task.classes[item.label] == "in rome"
    ((_, batch),) = task.batches([item])
    (loaded,) = list(task.loader("test"))
    for name in ("memory", "question"):
        assert torch.equal(batch[name][0], loaded[name][1][..., : batch[name].shape[-1]])
    (tmp_path / "dialog-babi-candidates.txt").write_text("1 hello\n")
    with pytest.raises(ValueError, match="line 3: 'in rome' is none of the 1 candidates"):
        registry.task("dialog_babi")(task.config, tmp_path).count("test")


def test_the_agents_network_is_its_equations():
    """Word by word in float64: two hops, and match types."""
    torch.manual_seed(0)
    model = DialogMemory(Config(vocab=9, types=3, tasks=1, dim=4, hops=2, spread=1.0)).double().eval()
    memory, question = torch.tensor([[[4, 5, 0], [6, 0, 0], [0, 0, 0]]]), torch.tensor([[7, 5]])
    candidates, kinds = torch.tensor([[4, 6], [7, 0], [8, 5]]), torch.tensor([0, 0, 0, 0, 1, 0, 2, 0, 1])
    entities = torch.where(kinds[candidates] > 0, candidates, 0)
    batch = {"task": torch.tensor([0]), "memory": memory, "question": question, "candidates": candidates}
    found = model.predict({**batch, "entities": entities, "kinds": kinds})[0]
    net = model.networks[0]
    q = net.read[7] + net.read[5]
    sentences = torch.stack([net.read[4] + net.read[5], net.read[6]])
    for _ in range(2):
        q = q + net.mix.weight @ (torch.softmax(sentences @ q, 0) @ sentences)
    scores = [
        q @ (net.say[4] + net.say[6] + net.types[1] + net.types[2]),
        q @ net.say[7],
        q @ (net.say[8] + net.say[5]),
    ]
    torch.testing.assert_close(found, torch.softmax(torch.stack(scores), 0).detach().float())


def test_n_grams_are_probabilities_and_know_what_they_saw():
    dice = random.Random(0)
    seen = [[1, *(dice.choice((4, 4, 5, 6)) for _ in range(6)), 2] for _ in range(20)]
    model = NGrams(seen, 9, order=3)
    for history in ([1], [1, 4], [4, 4, 5], [7, 8]):
        assert sum(math.exp(model.log_prob(history, word)) for word in range(9)) == pytest.approx(1)
    assert model.perplexity(seen) < NGrams(seen, 9, order=1).perplexity(seen) < 9


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line(tmp_path):
    (tmp_path / "dialog-babi-task1trn.txt").write_text("1 hi\thello\r\n", encoding="utf-8-sig", newline="")
    assert dialogs.Folder(tmp_path).dialogs(1, "train")[0][0][:2] == ("hi", "hello")


def test_dialogues_are_read_and_a_short_one_is_named(tmp_path):
    path = tmp_path / "talks.txt"
    path.write_text("Hi . __eou__ Hello . __eou__\t1\t2 1\n\nA __eou__ B __eou__ C\n")
    assert talks.read(path) == [["Hi .", "Hello ."], ["A", "B", "C"]]
    path.write_text("Hi . __eou__ Hello .\r\n", encoding="utf-8-sig", newline="")
    assert talks.read(path) == [["Hi .", "Hello ."]]
    path.write_text("Hi . __eou__ Hello .\nalone __eou__\n")
    with pytest.raises(ValueError, match="line 2: a dialogue has two turns"):
        talks.read(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    quiet = Console(file=io.StringIO())
    return {
        name: regard.load(regard.train(registry.recipe(name).tiny(), out=folder / name, console=quiet))
        for name in ("dialog-babi", "coqa-made")
    }


def test_a_call_is_answered_by_facts_in_the_next_turn(trained):
    model = trained["dialog-babi"]
    call = next(each for each in model.task.classes if each.startswith(dialogs.CALL))
    asked = model.Question(text="", history="you: hi\nagent: hello")
    history = model.task.follow(asked, call)["history"]
    assert f"agent: {call}" in history and history.count("R_phone") == 2
    assert len(model.task.read(model.Question(text="ok", history=history)).sentences) == 4 + 12


def test_talking_keeps_what_was_said_and_shows_what_was_looked_at(trained):
    lines = list(chat.talk(trained["dialog-babi"], {"task": "5"}, iter(["/look", "hello", "book a table", "/history"])))
    assert lines[0] == "(nothing was looked at)"
    assert lines[3].startswith(f"you: hello\nagent: {lines[1]}") and "you: book a table" in lines[3]
    story = {"story": conversations.JESSICA}
    lines = list(
        chat.talk(trained["coqa-made"], story, iter([*conversations.TALK[:2], "/look", "/new", "", "/history"]))
    )
    assert "birthday" in lines[2] and "read with" in lines[2]
    assert lines[3:] == ["(a new conversation)", "(there is no question)", "(nothing was said yet)"]


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("coqa-made", {}, "'story' is missing"),
        ("dialog-babi", {"task": "2"}, "task is one of 1, 5, not '2'"),
    ],
)
def test_what_all_questions_share_is_checked_before_one_talks(trained, name, fields, message):
    with pytest.raises(ValueError, match=message):
        list(chat.talk(trained[name], fields, iter(["hello"])))


def test_a_conversation_about_nothing_is_refused(trained):
    assert list(chat.talk(trained["coqa-made"], {"story": " "}, iter(["Who?"]))) == ["(there is no text)"]


def test_an_answer_offers_the_questions_that_may_follow(trained):
    model = trained["coqa-made"]
    (answer,) = model.ask(model.examples()[:1])
    label, changed = answer.next[0]
    assert label == changed["question"] == "How old would she be?"
    assert changed["history"] == f"you: Who had a birthday?\nagent: {answer.text}"


def test_what_does_not_converse_is_refused(trained):
    class Other:
        name, task = "other", object()
        Question = trained["dialog-babi"].Question

    with pytest.raises(ValueError, match="do not follow each other"):
        list(chat.talk(Other(), {}, iter(["hi"])))
