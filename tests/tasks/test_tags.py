"""Words with tags: CoNLL and CoNLL-U, entities, strict F1, bad input, subwords, batches."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard import registry
from regard.data import tags
from regard.metrics import tags as metrics
from regard.predictors.tagger import Tagger
from regard.tasks.running_text import RunningConfig, RunningText
from regard.tasks.tags import Config, Tags, shape

UD = """# sent_id = 1
# text = We don't
1\tWe\twe\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""


def test_conll_u(tmp_path):
    path = tmp_path / "x.conllu.gz"
    path.write_bytes(gzip.compress(UD.encode()))
    first, second = tags.read(path)
    assert first == tags.Sentence(("We", "do", "n't"), ("PRON", "AUX", "PART"), (3, 5, 6), str(path))
    assert second.lines == (9,)
    assert tags.read(path, "xpos")[0].tags == ("PRP", "VBP", "RB")
    with pytest.raises(ValueError, match="no column 'upso': did you mean 'upos'"):
        tags.read(path, "upso")


@pytest.mark.parametrize("gap", ["\t", " "])
def test_columns(tmp_path, gap):
    path = tmp_path / "x.conll"
    rows = ["-DOCSTART- -X- O O", "", "U.N. NNP B-NP I-ORG", "official NN I-NP O", "", "", "#tag NN B-NP O"]
    gap = gap.replace("\t", " \t ")  # blanks beside a tab are no part of a tag
    path.write_text("\n".join(row.replace(" ", gap) for row in rows))
    first, second = tags.read(path)
    assert first == tags.Sentence(("U.N.", "official"), ("B-ORG", "O"), (3, 4), str(path)) and second.words == ("#tag",)
    assert tags.read(path, "2")[0].tags == ("NNP", "NN")
    with pytest.raises(ValueError, match="column = '9': the number of one of 4 columns"):
        tags.read(path, "9")


def test_columns_may_have_several_blanks_between_and_a_document_begins_a_sentence(tmp_path):
    path = tmp_path / "x.conll"
    path.write_text(
        "\ufeffAnna   NNP  B-PER\r\nsleeps VBZ  O \r\n-DOCSTART- -X- O\r\nRome  NNP B-LOC\r\n", encoding="utf-8"
    )
    first, second = tags.read(path)
    assert first[:3] == (("Anna", "sleeps"), ("B-PER", "O"), (1, 2)) and second[:3] == (("Rome",), ("B-LOC",), (4,))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.conll", "a\tO\nb\n", r"x\.conll:2: 1 column instead of 2: 'b'"),
        ("x.conll", "a\tO\nb\t\n", r"x\.conll:2: 'b' has no tag"),
        ("x.conllu", "1\tWe\twe\tPRON\n", r"x\.conllu:1: 4 columns instead of 10"),
        ("x.conll", "a B-PER\nb O\n\nc BLOC\n", r"x\.conll:4: the tag 'BLOC' is no entity's"),
    ],
)
def test_bad_lines_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        tags.read(tmp_path / name)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "x.conll").write_bytes(b"a\tO\n\xff\tO\n")
    with pytest.raises(ValueError, match=r"x\.conll:2: not UTF-8"):
        tags.read(tmp_path / "x.conll")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("I-A I-A O I-B", "B-A I-A O B-B"),  # the older scheme
        ("I-A B-A I-B", "B-A B-A B-B"),
        ("S-A B-A E-A S-B O", "B-A B-A I-A B-B O"),
        ("B-A I-A B-A", "B-A I-A B-A"),
        ("NOUN O B-A", "NOUN O B-A"),  # not tags of entities
    ],
)
def test_all_schemes_become_one(given, expected):
    assert " ".join(tags.bio(given.split())) == expected


def test_strict_f1():
    right = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]
    chosen = [["B-A", "I-A", "O", "B-A"], ["I-A", "I-A"]]
    assert metrics.entities(chosen[1]) == [(0, 1, "A")]
    found = metrics.entity_scores(right, chosen)
    assert found["precision"] == pytest.approx(100 / 3) and found["recall"] == pytest.approx(100 / 3)
    assert found["f1_A"] == pytest.approx(100 * 2 / 5) and found["f1_B"] == 0
    assert metrics.entity_scores(right, right)["f1"] == 100
    assert metrics.entity_scores([["O"]], [["O"]])["f1"] == 0
    assert metrics.accuracy(right, chosen) == pytest.approx(100 * 3 / 6)


def folder(path, **files):
    for name, text in files.items():
        (path / f"{name}.conll").write_text(text)
    return path


def test_a_tag_never_seen_is_named_with_its_line(tmp_path):
    folder(tmp_path, train="a\tB-X\n\nb\tO\n" * 5, dev="a\tB-X\n", test="a\tO\n\nb\tO\na\tB-NEW\n")
    with pytest.raises(ValueError, match=r"test\.conll:4: the tag 'B-NEW' was never seen"):
        Tags(Config(data=str(tmp_path)))


def test_a_tag_never_seen_is_named_with_its_file_when_that_has_another_name(tmp_path):
    folder(tmp_path, train="a\tB-X\n\nb\tO\n\n" * 9, dev="a\tB-NEW\n")
    with pytest.raises(ValueError, match=r"dev\.conll:1: the tag 'B-NEW' was never seen"):
        Tags(Config(data=str(tmp_path)))


def made(**options):
    return Tags(Config(train_size=50, valid_size=5, test_size=20, **options))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"text": " "}, "nothing to tag"),
        ({"text": "word " * 30}, "30 tokens, and at most 16 are read"),
        ({"text": "x", "example": 99}, "the test split has 20"),
    ],
)
def test_questions_that_cannot_be_read(question, message):
    with pytest.raises(ValueError, match=message):
        made(max_length=16).read(SimpleNamespace(**{"example": None, **question}))


def test_long_sentences_are_read_in_parts(tmp_path):
    text = "".join(f"w{number}\t{'NOUN' if number % 2 else 'VERB'}\n" for number in range(40)) + "\n"
    task = Tags(Config(data=str(folder(tmp_path, train=text * 3, dev=text, test=text)), max_length=16, min_count=1))
    items = [task.item("test", number) for number in range(task.count("test"))]
    assert len(items) > 2 and all(len(item.words) <= 16 for item in items)
    assert [word for item in items for word in item.words] == [f"w{number}" for number in range(40)]


def test_a_word_of_more_subwords_than_are_read_keeps_the_first_of_them(tmp_path):
    RunningText(RunningConfig(vocab=270, length=8, made_size=50)).save(tmp_path / "task")
    text = f"the\tDET\n{'x1y2' * 40}\tNOUN\n.\tPUNCT\n\n" * 9
    task = Tags(Config(data=str(folder(tmp_path, train=text)), tokens=str(tmp_path), max_length=16))
    items = [task.item("train", number) for number in range(task.count("train"))]
    assert max(len(item.ids) for item in items) <= 16
    assert [word[:4] for item in items for word in item.words][:3] == ["the", "x1y2", "."]


def test_the_simple_tagger_gives_each_word_its_usual_tag(tmp_path):
    folder(tmp_path, train="a\tX\nb\tY\na\tX\na\tY\n\n" * 9, dev="a\tX\n", test="a\tX\na\tY\nz\tX\n")
    task = Tags(Config(data=str(tmp_path)))
    found = [SimpleNamespace(tags=["X", "Y", "Y"])]
    assert task.measure("test", found) == {"accuracy": pytest.approx(200 / 3), "unigram": pytest.approx(200 / 3)}


def test_subwords_of_a_run(tmp_path):
    text = RunningText(RunningConfig(vocab=270, length=8, made_size=50))
    text.save(tmp_path / "task")
    task = made(tokens=str(tmp_path))
    item = task.item("test", 0)
    tokens, ends = task.tokenizer, [*item.places[1:], len(item.ids) - 1]
    for word, first, after in zip(item.words, item.places, ends):
        assert tokens.decode(item.ids[first:after]) == word
    axis = task.axes(item)["words"]
    assert axis.groups[0] == axis.groups[-1] == -1 and max(axis.groups) == len(item.words) - 1
    task.save(tmp_path / "again")
    again = Tags.load(tmp_path / "again")
    assert again.item("test", 0) == item and again.sizes == task.sizes


@pytest.mark.parametrize("recipe", ["ner-wnut", "ner-aligned", "pos-ewt"])
def test_batched_as_one_by_one(recipe):
    recipe, task = registry.recipe(recipe).tiny(), made(batch=5)
    torch.manual_seed(0)
    model = registry.system(recipe.sections["system"]["name"])(recipe.build("system", **task.sizes)).eval()
    predictor = Tagger(model, task, recipe)
    items = [task.item("test", number) for number in range(12)]
    together = predictor.predict(items)
    for item, found in zip(items, together, strict=True):
        (alone,) = predictor.predict([item])
        assert alone.tags == found.tags and len(found.tags) == len(item.words)


def test_known_words_and_characters():
    task = made(min_count=2)
    batch = next(iter(task.loader("test")))
    item = task.item("test", 0)
    rows = np.flatnonzero(batch["lengths"].numpy() == len(item.words))
    assert len(rows) and batch["characters"].shape[:2] == batch["tags"].shape == batch["places"].shape
    assert (batch["characters"][batch["places"] > 0] > 0).any(-1).all()


def test_shapes_of_words():
    words = ["word", "Word", "WORD", "wOrd", "B2", "@me", "!?", "I", "https://x.org", "McCoy"]
    assert [shape(word) for word in words] == [1, 2, 3, 4, 5, 6, 7, 2, 6, 4]
