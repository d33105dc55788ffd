"""Bad text ends in one line that names file and line: in training data, and in what one asks a trained system."""

import json
import random
from pathlib import Path

import pytest

import regard
from regard import registry
from regard.data import conversations, sentences, summaries, tags


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Systems after a step of their recipe's ``[tiny]``."""
    folder = tmp_path_factory.mktemp("runs")

    def made(name, *changes):
        regard.train(registry.recipe(name).tiny(), *changes, "steps=1", out=folder / name)
        return regard.load(folder / name)

    return made


def _asked(run, path, *lines, **options):
    path.write_text("\n".join(lines) + "\n")
    return list(run.answer(path, **options))


@pytest.mark.parametrize(
    ("name", "content", "read", "message"),
    [
        ("a.conll", "We PRON\nrun\n", tags.read, r"a\.conll:2: 1 column instead of 2"),
        ("b.conll", "We\nrun\n", tags.read, r"b\.conll:1: a line has a word and its tag"),
        ("c.json", '{"data": [\n{"story": "Anna}]}\n', conversations.read, r"c\.json: not JSON: .*line 2 column"),
        ("c.json", '{"data": []}\n{"data": []}\n', conversations.read, r"c\.json: not JSON: .* not one a line"),
        ("d.txt", "1 fine\n0\n", sentences.read, r"d\.txt:2: a line has a label"),
        ("f.txt", "1 fine\0\n", sentences.read, r"f\.txt:1: not text; UTF-16"),
        ("e.tsv", "label\tsentence\n1\tgood\n\tbad\n", sentences.read, r"e\.tsv:3: the label is missing"),
    ],
)
def test_a_file_is_refused_with_its_line(tmp_path, name, content, read, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


def test_a_line_of_json_with_unequal_quotes_is_named(tmp_path):
    path = tmp_path / "train.jsonl"
    good = json.dumps({"source": ["A text."], "target": ["A text."]})
    path.write_text(f'{good}\n{{"source": ["A text.], "target": ["A text."]}}\n')
    with pytest.raises(ValueError, match=r"train\.jsonl:2: not JSON: .* at character 25$"):
        summaries.read(path)


def test_a_label_never_seen_is_named_with_its_line(tmp_path):
    (tmp_path / "train.txt").write_text("1 good film\n0 bad film\n" * 20)
    (tmp_path / "test.txt").write_text("1 good film\n\n2 a film\n")
    kind = registry.task("sentences")
    with pytest.raises(ValueError, match=r"test\.txt:3: the label '2' was never seen in training, only 0, 1"):
        kind(kind.settings(data=str(tmp_path)))


def test_an_empty_prompt_and_one_that_is_too_long(trained, tmp_path, capsys):
    run = trained("gpt-shakespeare")
    with pytest.raises(ValueError, match="1 of 3 questions have no answer"):
        _asked(run, tmp_path / "asked.txt", "the", "", "the")
    assert "asked.txt, line 2: the prompt is empty" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"there is no file 'ROMEO:'; a text itself comes by standard input"):
        list(run.answer(Path("ROMEO:")))
    with pytest.raises(ValueError, match=r"asked\.txt, line 1: the prompt has .* at most 16 at once"):
        _asked(run, tmp_path / "asked.txt", "the " * 20)


def test_a_passage_longer_than_what_is_read(trained, tmp_path):
    run = trained("coqa-made", "task.longest=150")
    story = conversations.make(1, random.Random(0))["data"][0]["story"]
    good = json.dumps({"story": story, "question": "Who had a birthday?"})
    long = json.dumps({"story": "Anna lives in Rome. " * 40, "question": "Where?"})
    with pytest.raises(ValueError, match=r"asked\.jsonl, line 2: the text has 203 words, and at most 150 are read"):
        _asked(run, tmp_path / "asked.jsonl", good, long)
    with pytest.raises(ValueError, match=r"asked\.jsonl, line 1: not JSON: .* at character 19$"):
        _asked(run, tmp_path / "asked.jsonl", '{"story": "Anna, "question": "Where?"}')
    with pytest.raises(
        ValueError, match=r"asked\.jsonl, line 1: a line is \{\"story\": .*, not 'Where does Anna live\?'"
    ):
        _asked(run, tmp_path / "asked.jsonl", "Where does Anna live?")
    with pytest.raises(ValueError, match=r"asked\.jsonl, line 1: 'question' must be a text, and not empty"):
        _asked(run, tmp_path / "asked.jsonl", json.dumps({"story": story, "question": " "}))


def test_a_turn_that_is_longer_than_what_is_read(trained, tmp_path):
    run = trained("chat-dailydialog")
    most = run.task.config.max_source - 2
    with pytest.raises(
        ValueError, match=rf"asked\.txt, line 1: the text has {most + 1} words, and at most {most} are read"
    ):
        _asked(run, tmp_path / "asked.txt", "well " * (most + 1))
    assert len(_asked(run, tmp_path / "asked.txt", "well " * most)) == 1


def test_an_option_out_of_range_is_no_fault_of_a_line(trained, tmp_path):
    run = trained("lstmn-lm")
    with pytest.raises(ValueError, match=r"^length is a whole number from 1 to 2000, not 0$"):
        _asked(run, tmp_path / "asked.txt", "the", length=0)
    with pytest.raises(ValueError, match=r"^there is no option 'lang', nor a file 'lang=en'; .* --help names all$"):
        list(run.answer(Path("lang=en")))


def test_choices_may_be_a_list(trained, tmp_path):
    run = trained("dream")
    asked = {"dialogue": "W: Hello.\nM: Tea, please.", "question": "What does the man want?"}
    lists, lines = ({**asked, "choices": choices} for choices in (["tea", "a cup"], "tea\na cup"))
    (one,), (other,) = (_asked(run, tmp_path / "asked.jsonl", json.dumps(each)) for each in (lists, lines))
    assert one == other
    with pytest.raises(
        ValueError, match=r'line 1: a line is \{"dialogue": "…", "question": "…", "choices": "…"\}, not'
    ):
        _asked(run, tmp_path / "asked.jsonl", "tea")


def test_dialogues_of_ones_own_need_no_names_of_files(tmp_path):
    (tmp_path / "talks.txt").write_text("hello __eou__ good day __eou__\n" * 20)
    kind, recipe = registry.task("chat"), registry.recipe("chat-dailydialog").sections["task"]
    files = {"data": str(tmp_path), "files": recipe["files"]}
    with pytest.raises(ValueError, match=r"0 files in it begin with 'dialogues_text_En'.*say files=\"\""):
        kind(kind.settings(**files)).count("train")
    assert kind(kind.settings(**files | {"files": ""})).count("train") > 10
