"""What CONTRIBUTING.md shows is run."""

import importlib
import io
import re
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard import registry
from regard.predictors.predictor import Answer
from regard.serve.card import Card

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(section: str, language: str = "python") -> str:
    part = TEXT.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.search(rf"```{language}\n(.*?)```", part, re.DOTALL)[1]


def test_the_score():
    space: dict = {}
    exec(block("Add a score"), space)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    out = regard.Attention(space["Laplace"](2.0))(query, key)
    expected = torch.softmax(-(query[:, :, None] - key[:, None]).abs().sum(-1) / 2, -1)
    torch.testing.assert_close(out.weights, expected)


def test_the_window():
    space: dict = {}
    exec(block("Add a window"), space)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 6, 5)
    windowed = regard.Attention("dot", window=space["Leading"](2))(query, key)
    whole = regard.Attention("dot")(query, key[:, :2])
    torch.testing.assert_close(windowed.context, whole.context)
    assert windowed.weights[..., 2:].abs().max() == 0


@pytest.fixture
def mean_reader(tmp_path, monkeypatch):
    """The system as a module outside the package, and its recipe."""
    (tmp_path / "mean_reader.py").write_text(block("Add a system"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("mean_reader")
    yield (tmp_path / "translate-mean.toml", block("Add a system", "toml"))
    sys.modules.pop("mean_reader")


def test_the_system_with_its_recipe(mean_reader, tmp_path):
    path, recipe = mean_reader
    path.write_text(recipe.replace('name = "mean_reader"', 'name = "mean_reader:MeanReader"'), encoding="utf-8")
    tiny = registry.recipe(str(path)).tiny()
    run = regard.train(tiny, out=tmp_path / "run", console=Console(file=io.StringIO()))
    model = regard.load(run)
    assert model.evaluate("test", limit=4)
    (answer,) = model.ask(model.examples()[:1])
    assert isinstance(answer, Answer) and answer.pictures[0].terminal()
    (reply,) = Card(model).answer(Card(model).examples()[:1])
    assert reply.text == answer.text and reply.pictures[0].kind == "alignment"
    with regard.record(model.model) as tape:
        model.model(next(iter(model.task.loader("valid"))))
    assert list(tape) == list(model.model.uses)


def test_a_module_that_a_run_names_is_not_imported_for_it(mean_reader, tmp_path):
    path, recipe = mean_reader
    path.write_text(recipe.replace('name = "mean_reader"', 'name = "antigravity:MeanReader"'), encoding="utf-8")
    with pytest.raises(ValueError, match="REGARD_IMPORT=antigravity"):
        registry.recipe(str(path))
    assert "antigravity" not in sys.modules
    path.write_text(recipe.replace('name = "mean_reader"', 'name = "mean_reader:MeanRaeder"'), encoding="utf-8")
    with pytest.raises(ValueError, match="did you mean 'MeanReader'"):
        registry.recipe(str(path))
