"""`regard sweep`: the grid, the table, and that what is trained is not trained again."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

from regard import lab, registry
from regard.commands import sweep
from regard.commands._app import app

LUONG = "translate-toy-luong"


def grid(*changes: str) -> sweep.Sweep:
    return sweep.sweep(registry.recipe(LUONG), LUONG, changes)


def test_every_combination_is_trained_with_every_seed():
    found = grid("score=dot,additive", "system.hidden=64,128", "seed=1-3,7", "epochs=2")
    assert found.keys == ["system.score", "system.hidden"]
    assert found.rows == [("dot", "64"), ("dot", "128"), ("additive", "64"), ("additive", "128")]
    assert [[cell.seed for cell in cells] for cells in found.cells] == [[1, 2, 3, 7]] * 4
    assert found.cells[1][0].changes == ("train.epochs=2", "system.score=dot", "system.hidden=128")
    names = [(cell.name, cell.seed) for cells in found.cells for cell in cells]
    assert len(set(names)) == 16


def test_without_values_to_sweep_there_is_one_row():
    found = grid("epochs=1")
    assert found.keys == [] and found.rows == [()] and len(found.cells) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["scores=dot,additive"], "score"),
        (["score=dot,dot"], "twice"),
        (["score=dot", "system.score=additive"], "twice"),
        (["seed=3-1"], "range"),
        (["score"], "key=value"),
        (["layers=1,two"], "layers"),
    ],
)
def test_a_wrong_grid_is_refused_before_training(changes, told):
    with pytest.raises(ValueError, match=told):
        grid(*changes)


def test_an_interval_is_students():
    assert sweep.interval([1.0, 2.0, 3.0]) == (2.0, pytest.approx(4.303 / math.sqrt(3)))
    assert math.isnan(sweep.interval([5.0])[1])


def test_a_sweep_prints_its_table_draws_it_and_goes_on(tmp_path, monkeypatch):
    recipe = tmp_path / "toy.toml"
    recipe.write_text(registry.recipe(LUONG).tiny().toml())
    started = []

    def start(self, cell):  # in this process, which is quicker
        from regard import runs

        started.append(cell)
        self.root.mkdir(parents=True, exist_ok=True)
        runs.train(cell.recipe, *self._changes(cell), out=self.folder(cell))
        return type("Done", (), {"poll": lambda self: 0, "wait": lambda self: 0, "terminate": lambda self: None})()

    monkeypatch.setattr(lab.Lab, "_start", start)
    monkeypatch.setattr(lab, "stop_on_signals", lambda: None)
    words = ["sweep", str(recipe), "score=dot,general", "seed=1-2", "--runs", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "figure.svg"), "--metric", "chrf"]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert len(started) == 4
    lines = [line for line in first.output.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == ["system.score", "chrf", "minutes"]
    assert "±" in lines[2] and lines[3].startswith("| general")
    assert "<svg" in (tmp_path / "figure.svg").read_text()
    assert CliRunner().invoke(app, words).exit_code == 0 and len(started) == 4
    wrong = CliRunner().invoke(app, [*words, "--metric", "chrff"])
    assert "chrf" in str(wrong.exception)


def test_a_metric_that_some_settings_do_not_have_leaves_its_cells_empty(tmp_path):
    found = sweep.Sweep(["system.pointer"], [("false",), ("true",)], [])
    values = [[{"rouge_l": 1.0, "minutes": 1.0}], [{"rouge_l": 2.0, "copying": 3.0, "minutes": 1.0}]]
    assert sweep._columns({"rouge_l": 1.0, "copying": 3.0, "minutes": 1.0}, []) == ["rouge_l", "copying"]
    lines = sweep.table(found, values, ["rouge_l", "copying"])
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == ["false", "1.00", "–", "1.0"]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["true", "2.00", "3.00", "1.0"]
    sweep.draw(found, values, "copying", tmp_path / "figure.svg")
    assert "<svg" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize(("names", "joined"), [(["true", "false"], False), (["8", "1–16"], True)])
def test_only_places_in_an_order_are_joined_by_a_line(tmp_path, monkeypatch, names, joined):
    from regard.views import _shared, curves

    drawn = []
    monkeypatch.setattr(_shared, "save", lambda figure, path: drawn.append(figure))
    curves.draw({"a": [(1.0, 0.1), (2.0, 0.1)]}, names, tmp_path / "a.png", along="x", metric="y")
    lines = [line for line in drawn[0].axes[0].get_lines() if len(line.get_xdata()) == 2 and line.get_marker() == "o"]
    assert [line.get_linestyle() != "None" for line in lines] == [joined]
