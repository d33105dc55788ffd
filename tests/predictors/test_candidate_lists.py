"""A translator by words that writes only candidates, and the command that learns a dictionary."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import regard
from regard import registry
from regard.commands._app import app


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jean") / "run"
    return regard.train(registry.recipe("translate-tatoeba-jean").tiny(), out=folder)


def test_only_candidates_are_written(run):
    model = regard.load(run.folder)
    source = model.task.pairs("test").source
    lexicon = model.task.lexicon()
    assert model.task.target.pieces(range(4, 8))  # by frequency: the first is the most frequent
    counts = [0] * len(model.task.target)
    for text in model.task.pairs("train").target:
        for token in model.task.target.encode(text):
            counts[token] += 1
    assert counts[4:] == sorted(counts[4:], reverse=True)
    model.list_candidates(6, 1, lexicon)
    for sentence, (best, *_) in zip(source, model.predict(source)):
        allowed = {model.task.target.pieces([i])[0].strip() for i in range(6)}
        allowed |= {lexicon[word][0][0] for word in model.task.source.surfaces(sentence) if word in lexicon}
        assert set(best.text.split()) <= allowed
    with pytest.raises(ValueError, match="level"):
        regard.load("translate-en-es").list_candidates()


def test_a_dictionary_is_learned_and_read(run, tmp_path):
    path = tmp_path / "words.tsv"
    told = CliRunner().invoke(app, ["dictionary", str(run.folder), "--out", str(path)])
    assert told.exit_code == 0, told.output
    words = dict(line.split("\t") for line in path.read_text().splitlines())
    assert words["cat"] == "gato" and words["house"] == "casa"
    text = tmp_path / "in.txt"
    text.write_text("the cat sees a zebra\n")
    asked = ["predict", str(run.folder), str(text), f"replace_unknown={path}"]
    assert CliRunner().invoke(app, asked).exit_code == 0
