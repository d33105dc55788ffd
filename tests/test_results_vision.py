"""The runner of the vision tables: its trainings are what its rows say, and the figure can be drawn."""

import sys
from pathlib import Path

import results_vision as tool

TOOL = Path(__file__).parents[1] / "tools" / "results_vision.py"


def test_every_training_is_a_recipe_that_can_be_built():
    cells = {cell for table in tool.TABLES.values() for cell in table.cells()}
    lab = tool.Sights(Path())
    assert len({lab.folder(cell) for cell in cells}) == len(cells)
    for cell in cells:
        recipe = lab._recipe(cell)
        recipe.build("train")
        assert recipe.sections["train"]["seed"] == cell.seed
    assert lab._recipe(tool.RAM["the same, looking anywhere"][0]).sections["system"]["policy"] == "random"
    curves = [lab._recipe(curve[100]).sections for curve in tool.COST.values()]
    assert {(curve["task"]["size"], curve["task"]["kind"]) for curve in curves} == {(100, "translated")}


def test_a_table_from_trainings_of_seconds(tmp_path, capsys, monkeypatch):
    """Predictor, the longest first, measured, printed; and the second time only printed."""
    quick = ["data=drawn", "drawn=300", "steps=3", "task.batch=16", "examples=0"]
    ram, cnn = tool.Cell("ram", "ram-mnist", 1), tool.Cell("cnn", "cnn-cluttered", 2, ("kind=plain",))
    monkeypatch.setattr(tool, "COST", {"RAM": {28: ram}, "CNN": {28: cnn}})
    monkeypatch.setattr(tool, "KINDS", {28: ()})
    command = ["results_vision.py", "cost", *quick, "--runs", str(tmp_path), "--figure", str(tmp_path / "cost.png")]
    monkeypatch.setattr(sys, "argv", command)
    tool.main()
    first = capsys.readouterr()
    assert "| 28 × 28 | " in first.out
    assert -1 < first.err.find("training cnn") < first.err.find("training ram")
    assert (tmp_path / "cost.png").stat().st_size > 5000
    tool.main()
    second = capsys.readouterr()
    assert second.out == first.out
    assert "training" not in second.err and "measuring" not in second.err
