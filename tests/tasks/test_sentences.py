"""Sentences with labels: the formats in which they come, what is held out, bad input, metrics."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard import registry
from regard.data import parts, sentences
from regard.data.sentences import Labelled
from regard.metrics import classes
from regard.tasks.sentences import Config, Sentences

SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\tA dog runs\tA cat sleeps\t1\tNEUTRAL\n"
)
MRPC = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "no\tHe refused\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 a fine film\n0 a bad  one\n", [Labelled("a fine film", "1"), Labelled("a bad one", "0")]),
        ("gj04\t1\t\tHe left.\nks08\t0\t*\tHim left.\n", [Labelled("He left.", "1"), Labelled("Him left.", "0")]),
        ("sentence\tlabel\nHe left.\t1\n", [Labelled("He left.", "1")]),
        (SICK, [Labelled("A dog runs", "NEUTRAL", "A cat sleeps")]),
        (MRPC, [Labelled('He said "no', "1", "He refused")]),
        ("yes\tone\tother\n", [Labelled("one", "yes", "other")]),
    ],
)
def test_formats(tmp_path, text, expected):
    (tmp_path / "set.tsv").write_text(text)
    assert [one._replace(place="") for one in sentences.read(tmp_path / "set.tsv")] == expected
    (tmp_path / "set.gz").write_bytes(gzip.compress(text.encode()))
    assert [one._replace(place="") for one in sentences.read(tmp_path / "set.gz")] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 fine\nbad\n", r"set\.tsv:2: a line has a label, a space and a sentence"),
        ("sentence\tlabel\nHe left.\n", r"set\.tsv:2: 1 column, and the first line has 2"),
        ("sentence\tlabel\n\t1\n", r"set\.tsv:2: the sentence is missing"),
        ("label\tsentence\n\tone\n", r"set\.tsv:2: the label is missing"),
        ("a\tb\tc\td\te\n", r"set\.tsv:1: 5 columns"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, message):
    (tmp_path / "set.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        sentences.read(tmp_path / "set.tsv")


def folder(path, *names, lines=30):
    for name in names:
        (path / name).write_text("".join(f"{number % 2} word{number} of {name}\n" for number in range(lines)))
    return path


def test_files_are_found_by_their_names(tmp_path):
    folder(tmp_path, "a.train", "a.dev", "a.test", "b.train.txt", "README.md")
    assert {split: each.name for split, each in parts.find(tmp_path, "a", ()).items()} == {
        "train": "a.train",
        "valid": "a.dev",
        "test": "a.test",
    }
    with pytest.raises(ValueError, match=r"a\.train, b\.train\.txt might all be for train: .*files="):
        parts.find(tmp_path, "", ())
    with pytest.raises(
        ValueError, match=r"no file for train whose name begins with .c.; there are .*files=\"\" for all"
    ):
        parts.find(tmp_path, "c", ())


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        (("x.train", "x.dev", "x.test"), (30, 30, 30)),
        (("x.train", "x.test"), (27, 3, 30)),
        (("x.train", "x.dev"), (27, 3, 30)),
        (("x.all",), (25, 2, 3)),
    ],
)
def test_what_is_missing_is_held_out(tmp_path, names, sizes):
    found = parts.split(parts.find(folder(tmp_path, *names), "", ()), sentences.read)
    assert tuple(len(found[split]) for split in ("train", "valid", "test")) == sizes
    every = [one.text for split in found.values() for one in split]
    assert len(set(every)) == len(every)


def test_a_label_never_seen_is_named(tmp_path):
    folder(tmp_path, "train.txt", "valid.txt")
    (tmp_path / "test.txt").write_text("7 what is this\n")
    with pytest.raises(ValueError, match=r":\d+: the label '7' was never seen in training, only 0, 1"):
        Sentences(Config(data=str(tmp_path)))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("1\tgood\tfilm\n0\tbad\tplay\n", "1\tgood film\n", "one sentence in a line, and two in those of training"),
        ("1\tgood\n0\tbad\n", "\n1\tgood\tfilm\n", "two sentences in a line, and one in those of training"),
    ],
)
def test_pairs_in_some_files_alone_are_named(tmp_path, train, test, message):
    (tmp_path / "train.tsv").write_text(train * 20)
    (tmp_path / "test.tsv").write_text(test)
    with pytest.raises(ValueError, match=rf"test\.tsv:\d: {message}"):
        Sentences(Config(data=str(tmp_path)))


def test_part_of_the_labels(tmp_path):
    folder(tmp_path, "train.txt", "test.txt", lines=200)
    whole, part = (Sentences(Config(data=str(tmp_path), share=share)) for share in (1.0, 0.1))
    assert part.count("train") == whole.count("train") // 10 and part.count("test") == whole.count("test")


def made(**options):
    return Sentences(Config(train_size=50, valid_size=10, test_size=20, max_length=30, **options))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"text": "  "}, "nothing to read"),
        ({"text": "the boy " * 40}, "82 tokens, and at most 30"),
        ({"text": "x", "example": 99}, "the test split has 20"),
    ],
)
def test_questions_that_cannot_be_read(question, message):
    with pytest.raises(ValueError, match=message):
        made().read(SimpleNamespace(**{"example": None, **question}))


def test_names_must_fit_the_labels():
    with pytest.raises(ValueError, match="but the labels are plural, singular"):
        made(names="a,b,c")


def test_tokens_of_a_run_are_used(tmp_path):
    task = made(level="bpe", vocab=300)
    task.save(tmp_path / "task")
    other = made(tokens=str(tmp_path))
    assert other.tokenizer.to_bytes() == task.tokenizer.to_bytes()
    with pytest.raises(ValueError, match=r"tokenizer\.json is not there"):
        made(tokens=str(tmp_path / "nowhere"))


def test_the_subject_is_where_it_is_said_to_be():
    task = made()
    for number in range(20):
        item = task.item("test", number)
        noun = task.axes(item)["words"].labels[item.subject]
        assert task.classes[item.label] == ("plural" if noun.endswith("s") else "singular")


def test_batched_as_one_by_one():
    task = made(data="echo", batch=4)
    torch.manual_seed(0)
    recipe = registry.recipe("lstmn-sst").tiny()
    model = registry.system("lstmn")(recipe.build("system", **task.sizes)).eval()
    items = [task.item("test", number) for number in range(9)]
    with torch.no_grad():
        together = {
            int(row): out for rows, batch in task.batches(items) for row, out in zip(rows, model.predict(batch))
        }
        for row, item in enumerate(items):
            ((_, batch),) = task.batches([item])
            assert torch.allclose(model.predict(batch)[0], together[row], atol=1e-6)


def test_scores_of_classes():
    right, chosen = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 1, 1, 1, 0, 2])
    found = classes.scores(right, chosen, 4)
    assert found["accuracy"] == pytest.approx(100 * 4 / 6) and found["majority"] == 50
    assert found["f1"] == pytest.approx(100 * (0.5 + 2 / 3 + 1) / 3)
    # Gorodkin's formula, written out over all pairs of items.
    x, y = np.eye(4)[right], np.eye(4)[chosen]
    x, y = x - x.mean(0), y - y.mean(0)
    assert found["matthews"] == pytest.approx(100 * (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))
    assert classes.scores(right, np.zeros(6, int), 3)["matthews"] == 0


def test_names_are_for_labels_that_are_numbers(tmp_path):
    (tmp_path / "train.txt").write_text("ham a letter\nspam a lottery\n" * 20)
    with pytest.raises(ValueError, match=r"names = 'negative,positive' is for labels that are numbers, .* ham, spam"):
        Sentences(Config(data=str(tmp_path), names="negative,positive"))
    assert Sentences(Config(data=str(tmp_path), names="ham,spam")).classes == ["ham", "spam"]
