"""Lines from the command line's side: texts and files in, drawings out."""

import io
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

import regard
from regard import registry
from regard.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "letters"
    regard.train(registry.recipe("handwriting-letters").tiny(), out=folder, console=Console(file=io.StringIO()))
    return folder


@pytest.fixture(scope="module")
def model(run):
    return regard.load(run)


@pytest.fixture
def command(monkeypatch):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["regard", *map(str, arguments)])
        try:
            main()
        except SystemExit as ended:
            return ended.code or 0
        return 0

    return run


def text_of(model, size=3):
    return "".join(character for character in model.task.known["characters"] if character != " ")[:size]


def test_a_seed_gives_the_same_line_alone_and_together(model, run):
    text = text_of(model)
    questions = [model.Question(text=each, seed=seed) for each, seed in [(text, 1), (text[:1], 5), (text * 4, 2)]]
    together = model.ask(questions)
    for question, found in zip(questions, together):
        (alone,) = regard.load(run).ask([question])
        assert alone.fields["stopped"] == found.fields["stopped"]
        for one, other in zip(alone.fields["strokes"], found.fields["strokes"], strict=True):
            assert np.allclose(one, other, atol=0.011, rtol=0)  # both are rounded to hundredths
    assert together[0].fields != model.ask([model.Question(text=text, seed=2)])[0].fields


def test_primed_lines_begin_with_what_is_given(model):
    text = text_of(model)
    (found,) = model.ask([model.Question(text=text, style=1)])
    line = model.task.item("test", 1)
    shown = found.pictures[0].view().data
    assert shown["begins"] == len(line.points) - 1
    assert "".join(shown["characters"]) == f"{line.text} {text}"
    places = line.points[1:, :2].cumsum(0)
    assert np.allclose(shown["points"][: shown["begins"], :2], places, atol=0.05)


def test_bad_questions_are_said(model):
    found = model.ask([model.Question(text="Ä!"), model.Question(text=text_of(model)), model.Question(text=" ")])
    assert isinstance(found[0], ValueError) and "cannot write '!', 'Ä'" in str(found[0])
    assert isinstance(found[2], ValueError) and not isinstance(found[1], ValueError)


def test_a_text_is_drawn_from_the_command_line(model, run, command, tmp_path, capsys):
    text, out = text_of(model), tmp_path / "line.svg"
    assert command("predict", run, text, "bias=2", "--out", out, "animate=true") == 0
    root = ET.fromstring(out.read_text())
    assert root.find("{http://www.w3.org/2000/svg}title").text == text
    assert list(root.iter("{http://www.w3.org/2000/svg}animate"))
    assert command("predict", run, text, "--out", tmp_path / "line.html") == 0
    assert (tmp_path / "line.html").stat().st_size > 10_000
    capsys.readouterr()
    assert command("predict", run, text, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["strokes"] and all(len(point) == 2 for stroke in told["strokes"] for point in stroke)


def test_a_file_of_texts_makes_a_drawing_each(model, run, command, tmp_path, capsys):
    text = text_of(model)
    (tmp_path / "texts.txt").write_text(f"{text}\n{text[::-1]}\n")
    assert command("predict", run, tmp_path / "texts.txt", "--out", tmp_path / "a.svg") == 0
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["a-1.svg", "a-2.svg"]
    assert command("predict", run, tmp_path / "texts.txt") == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 4


def test_errors_of_the_command_line(run, command, capsys):
    for given, said in [
        (["Ä"], "cannot write 'Ä'"),
        (["a", "bias=7"], "bias is one of"),
        (["a", "--out", "a.doc"], "doc"),
        (["a", "--out", "a.png", "animate=true"], "animate=true is for .svg"),
        (["a", "animate=true"], "animate=true is for .svg: say where to draw it"),
        ([""], "the text is empty"),
        (["a" * 2000], "at most 100 characters, not 2000"),
    ]:
        assert command("predict", run, *given)
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error


def test_the_prediction_network_is_asked_for_points(tmp_path, command, capsys):
    regard.train(
        registry.recipe("handwriting-prediction").tiny(), out=tmp_path / "run", console=Console(file=io.StringIO())
    )
    model = regard.load(tmp_path / "run")
    (found,) = model.ask([model.Question(points=40, seed=2)])
    assert found.text.startswith("40 points and ")
    assert set(model.evaluate("test")) == {"nll", "where", "pen", "alone", "gain"}
    assert command("predict", tmp_path / "run", "50", "seed=3", "--out", tmp_path / "a.svg") == 0
    assert command("predict", tmp_path / "run", "seed=3") == 0
    assert "300 points" in capsys.readouterr().out
    assert command("show", tmp_path / "run", "seed=3") == 0
    assert "300 points" in capsys.readouterr().out
    assert command("predict", tmp_path / "run", "many") == 2
    assert "'many' is not a number of points" in capsys.readouterr().err
