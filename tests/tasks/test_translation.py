"""The translation task: from two files to batches and back to a score."""

import dataclasses
import gzip
import json
import os
import time
import warnings
from pathlib import Path

import pytest

from regard import _lazy
from regard.data.tokens import BOS, EOS, Tokenizer
from regard.tasks import Translation
from regard.tasks.translation import Config

SENTENCES = [(f"I have {n} cats.", f"Ich habe {n} Katzen.") for n in range(60)] + [
    (f"Do you love tea number {n}?", f"Liebst du Tee Nummer {n}?") for n in range(60)
]
SMALL = Config(vocab=400, batch_tokens=200, valid_size=6, test_size=6)


def write(folder, pairs=SENTENCES, name="train"):
    for side, language in enumerate(("en", "de")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return folder


def test_two_files_are_enough(tmp_path):
    task = Translation(SMALL, write(tmp_path, name="corpus"))
    assert task.sizes == {"source_vocab": len(task.source), "target_vocab": len(task.target)}
    sizes = {split: len(task.pairs(split).lines) for split in ("train", "valid", "test")}
    assert sizes == {"train": 108, "valid": 6, "test": 6}
    for split in sizes:
        wanted = sorted(task.pairs(split).target)
        batches = list(task.loader(split, seed=1))
        assert sorted(task.target.decode(row) for batch in batches for row in batch["target"].tolist()) == wanted
        for batch in batches:
            last = batch["target_lengths"][:, None]
            assert (batch["target"][:, 0] == BOS).all() and (batch["target"].gather(1, last) == EOS).all()
            assert (batch["source"].gather(1, batch["source_lengths"][:, None] - 1) == EOS).all()


def test_which_column_is_which_language_is_said(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in SENTENCES))
    for columns, told in (("", "column 1 as en, the source and column 2 as de"), ("2,1", "column 2 as en, the source")):
        task = Translation(dataclasses.replace(SMALL, columns=columns), tmp_path)
        assert told in task.loader("train").report()


def test_splits_are_disjoint_and_the_tokenizer_saw_only_training(tmp_path):
    pairs = [*SENTENCES, *((source.upper().replace(".", " !"), target) for source, target in SENTENCES)]
    task = Translation(dataclasses.replace(SMALL, level="word", vocab=5000), write(tmp_path, pairs))
    bare = {
        split: {source.lower().strip(" .!?") for source in task.pairs(split).source}
        for split in ("train", "valid", "test")
    }
    assert not (bare["train"] & bare["test"] or bare["train"] & bare["valid"] or bare["test"] & bare["valid"])
    assert 3 in [i for source in task.pairs("test").source for i in task.source.encode(source)]


def test_files_of_their_own_are_used_as_they_are(tmp_path):
    write(tmp_path)
    write(tmp_path, SENTENCES[:3] * 2, "val")
    write(tmp_path, SENTENCES[3:5], "test_2016_flickr")
    task = Translation(SMALL, tmp_path)
    assert [len(task.pairs(split).lines) for split in ("train", "valid", "test")] == [120, 6, 2]


def test_one_vocabulary_or_two(tmp_path):
    write(tmp_path)
    one, two = Translation(SMALL, tmp_path), Translation(dataclasses.replace(SMALL, shared=False), tmp_path)
    assert one.source is one.target
    assert two.source is not two.target and "Katzen" not in "".join(two.source.backend.get_vocab())
    for number, task in enumerate((one, two)):
        task.save(tmp_path / f"run{number}")
        loaded = Translation.load(tmp_path / f"run{number}")
        assert loaded.sizes == task.sizes and (loaded.source is loaded.target) == (task is one)
        assert loaded.target.encode("Ich habe Katzen.") == task.target.encode("Ich habe Katzen.")
        assert Translation.load(tmp_path / f"run{number}", skip_bad=True).config.skip_bad


def test_a_saved_task_translates_without_its_data(tmp_path):
    data = write(tmp_path)
    task = Translation(dataclasses.replace(SMALL, lowercase=True), data)
    task.save(tmp_path / "run")
    batch = next(iter(task.loader("test")))
    same = next(iter(Translation.load(tmp_path / "run").loader("test")))  # the folder is remembered
    assert all(batch[key].equal(same[key]) for key in batch)
    for path in data.glob("train.*"):
        path.unlink()
    task = Translation.load(tmp_path / "run")
    assert task.config.lowercase
    ((rows, batch),) = task.batches(["I HAVE 3 cats."])
    assert rows == [0] and task.source.decode(batch["source"][0].tolist()) == "i have 3 cats."
    with pytest.raises(ValueError, match="no text to train on"):
        task.loader("train")
    with pytest.raises(ValueError, match=r"no data at .*nowhere.*--data"):
        Translation.load(tmp_path / "run", tmp_path / "nowhere").loader("train")


def test_named_data_leaves_no_path_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine")
    task = Translation(dataclasses.replace(SMALL, data="mine"))
    task.save(tmp_path / "run")
    assert str(tmp_path) not in (tmp_path / "run" / "task.json").read_text()


def test_descriptions_of_other_tasks_and_versions(tmp_path):
    task = Translation(SMALL, write(tmp_path))
    task.save(tmp_path / "run")
    path = tmp_path / "run" / "task.json"
    about = json.loads(path.read_text())
    for change, message in (
        ({"format": 99}, "in format 99; expected 'translation' in format 1"),
        ({"task": "toy_grammar"}, "the task 'toy_grammar'"),
        ({"config": {"vocabb": 1}}, "no setting 'vocabb'.*'vocab'"),
    ):
        path.write_text(json.dumps({**about, **change}))
        with pytest.raises(ValueError, match=message):
            Translation.load(tmp_path / "run")
    path.write_text("{")
    with pytest.raises(ValueError, match=r"task.json: not the description of a task"):
        Translation.load(tmp_path / "run")


@pytest.mark.parametrize("stream", [False, True])
def test_lines_that_are_too_long(tmp_path, stream):
    long = "sehr " * 300
    pairs = [*SENTENCES[:50], ("A sentence.", long), *SENTENCES[50:], (f"{long}!", long)]
    config = dataclasses.replace(SMALL, max_length=40, valid_size=1, test_size=1, stream_mb=-1.0 if stream else 1.0)
    task = Translation(config, write(tmp_path, pairs))
    with pytest.raises(ValueError, match=r"train.de:51: 301 tokens, more than max_length = 40.*--skip-bad"):
        list(task.loader("train"))
    task = Translation(dataclasses.replace(config, skip_bad=True), tmp_path)
    loader = task.loader("train")
    rows = sum(len(batch["source"]) for batch in loader)
    assert rows == len(task.pairs("train").lines) - 2
    assert loader.bad.counts == {"too long": 2} and "train.de:51" in str(loader.bad)


def test_unequal_files_are_found_before_streaming_begins(tmp_path):
    write(tmp_path)
    with (tmp_path / "train.en").open("a") as file:
        file.write("One more.\n")
    for stream in (256.0, -1.0):
        with pytest.raises(ValueError, match=r"train.en:121: train.de ends after 120 lines, but train.en has 121"):
            Translation(dataclasses.replace(SMALL, stream_mb=stream), tmp_path)
        for name in ("valid", "test"):  # now nothing need be read for holding out
            write(tmp_path, SENTENCES[:2], name)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return Translation(dataclasses.replace(SMALL, max_length=30), write(tmp_path_factory.mktemp("data")))


class TestPrediction:
    def test_rows_say_where_each_sentence_is(self, task):
        sentences = ["I have 3 cats.", "", "a " * 12, "深度學習 👩‍🚀", "I have 3 cats.  "]
        found = {}
        for rows, batch in task.batches(sentences, tokens=40):
            assert set(batch) == {"source", "source_lengths"}
            assert batch["source"].numel() <= 40 or len(rows) == 1
            for row, ids, length in zip(rows, batch["source"].tolist(), batch["source_lengths"].tolist()):
                assert ids[length - 1] == EOS
                found[row] = task.source.decode(ids)
        assert [found[row] for row in range(5)] == [" ".join(sentence.split()) for sentence in sentences]

    def test_none(self, task):
        assert list(task.batches([])) == []

    def test_a_sentence_that_is_too_long_is_cut(self, task):
        with pytest.warns(UserWarning, match=r"sentence 2 has 10,001 tokens and is cut to 30"):
            ((_, batch),) = task.batches(["I have cats.", "cats " * 10_000])
        assert batch["source_lengths"].max() == 30 and batch["source"].shape[1] == 30
        assert batch["source"][-1, -1] == EOS

    def test_decomposed_letters_are_the_same_letters(self, task):
        one, other = (next(task.batches([text]))[1]["source"] for text in ("caf\u00e9", "cafe\u0301"))
        assert one.equal(other)


def test_case_does_not_count_where_the_task_has_none(tmp_path):
    task = Translation(dataclasses.replace(SMALL, lowercase=True), write(tmp_path))
    wanted = task.pairs("test").target
    assert wanted != [line.lower() for line in wanted]
    for written in (str.lower, str.upper):  # a word may be copied from the source as it is
        found = task.evaluate([written(line) for line in wanted])
        assert [found[name] for name in ("bleu", "chrf", "exact_match")] == pytest.approx([100] * 3)
    assert "case:lc" in task.signatures["bleu"] and "case:lc" in task.signatures["chrf"]


def test_evaluate(tmp_path):
    task = Translation(SMALL, write(tmp_path))
    references = task.pairs("test").target
    values = task.evaluate(references)
    assert values["bleu"] == pytest.approx(100) and values["exact_match"] == 100 and values["ter"] == 0
    assert set(task.signatures) == {"bleu", "chrf", "ter"}
    assert task.evaluate(task.pairs("test").source)["bleu"] < 50
    assert task.compare(references[:2], references[:2])["exact_match"] == 100
    with pytest.raises(ValueError, match="1 translations for 6 references"):
        task.evaluate(["x"])


def test_bad_settings(tmp_path):
    with pytest.raises(ValueError, match="'word'"):
        Config(level="words")
    with pytest.raises(ValueError, match="columns"):
        Config(columns="1")
    with pytest.raises(ValueError, match="max_length must be at least 2, not 0"):
        Config(max_length=0)
    with pytest.raises(ValueError, match=r"which data\?.*multi30k"):
        Translation(Config())
    task = Translation(SMALL, write(tmp_path))
    with pytest.raises(ValueError, match=r"'dev'.*known: test, train, valid"):
        task.loader("dev")


def test_no_good_line_is_left(tmp_path):
    write(tmp_path, name="train")
    write(tmp_path, [("", "")], name="val")
    task = Translation(dataclasses.replace(SMALL, skip_bad=True), tmp_path)
    with pytest.raises(ValueError, match=r"val.en: no pair of sentences for 'valid' \(left out 1 bad lines: 1 empty"):
        task.loader("valid")


def test_stub_equals_folder():
    from regard import tasks

    path = Path(tasks.__file__).with_name("__init__.pyi")
    assert path.read_text() == _lazy.stub("regard.tasks")
    assert {"NumberWords", "ToyGrammar", "Translation"} <= set(dir(tasks))


def real(name):
    folder = Path(os.environ.get("REGARD_DATA") or "/nowhere") / name
    return pytest.mark.skipif(not folder.is_dir(), reason=f"needs {name} in $REGARD_DATA")


@pytest.fixture(scope="module")
def tatoeba():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Translation(Config(src="en", tgt="es", data="tatoeba", vocab=4000))


@real("tatoeba")
class TestTatoeba:
    def test_held_out_by_the_english_sentence(self, tatoeba):
        train, test = ({s.lower().rstrip(".!?") for s in tatoeba.pairs(split).source} for split in ("train", "test"))
        assert len(test) == 1000 and not train & test
        pairs = tatoeba.pairs("test")
        first = {}
        with gzip.open(Path(os.environ["REGARD_DATA"]) / "tatoeba" / "spa.txt.gz", "rt", encoding="utf-8") as file:
            for line in file:
                source, target = line.rstrip("\n").split("\t")
                first.setdefault(source, target)
        assert sum(first[source] == target for source, target in zip(pairs.source, pairs.target)) >= 995

    def test_everything_comes_back(self, tatoeba):
        pairs = tatoeba.pairs("test")
        for text in (*pairs.source, *pairs.target):
            assert tatoeba.source.decode(tatoeba.source.encode(text)) == text

    def test_little_padding_and_never_the_bottleneck(self, tatoeba):
        begin = time.process_time()
        loader = tatoeba.loader("train", seed=1)
        tokens = sum(int(batch["target_lengths"].sum()) for batch in loader)
        assert tokens / (time.process_time() - begin) > 50_000  # a first epoch: reading and tokenizing included
        assert loader.filled > 0.95


@real("multi30k")
def test_multi30k():
    task = Translation(Config(data="multi30k", level="word", vocab=4000, shared=False))
    assert {split: len(task.pairs(split).lines) for split in ("train", "valid", "test")} == {
        "train": 29_000,
        "valid": 1014,
        "test": 1000,
    }
    assert task.loader("train").filled > 0.9
    assert task.pairs("test").target[0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."


def test_tokenizers_can_be_given(tmp_path):
    tokenizer = Tokenizer.train(["I love coffee."] * 3, vocab=300)
    task = Translation(SMALL, write(tmp_path), known={"source": tokenizer, "target": tokenizer})
    assert task.sizes["source_vocab"] == len(tokenizer)
