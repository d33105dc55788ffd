"""The runner of the tables on language: trainings are what its rows say, start from each other, and are measured."""

import sys
from pathlib import Path

import results_language as tool

from regard.lab import Cell


def test_every_training_is_a_recipe_that_can_be_built(tmp_path):
    cells = {cell for table in tool.TABLES.values() for cell in table.cells()}
    lab = tool.Language(tmp_path)
    assert len({lab.folder(cell) for cell in cells}) == len(cells)
    for cell in cells:
        recipe = lab._recipe(cell)
        recipe.build("train")
        assert recipe.sections["train"]["seed"] == cell.seed
    (scratch,), (trained,) = (tool.tuned("CoLA", 0.1, start) for start in (False, True))
    first, second = (lab._recipe(cell).sections for cell in (scratch, trained))
    assert first["task"]["share"] == second["task"]["share"] == 0.1 and first["task"]["data"] == "text/cola"
    assert "init" not in first["train"]
    assert second["train"]["init"] == second["task"]["tokens"] == str(lab.folder(tool.BERT[0]))


def test_an_lstm_of_equal_size_has_as_many_parameters():
    from regard import registry

    sizes = []
    for (cell,) in tool.MODELS.values():
        sections = tool.Language(Path())._recipe(cell).sections
        system = {name: value for name, value in sections["system"].items() if name != "name"}
        cls = registry.system("lstmn")
        config = sys.modules[cls.__module__].Config(vocab=sections["task"]["vocab"], **system)
        sizes.append(sum(parameter.numel() for parameter in cls(config).parameters()))
    assert abs(sizes[1] / sizes[0] - 1) < 0.01


def test_what_starts_from_another_training_waits_for_it(tmp_path):
    """Although it takes longer, and the longest are trained first."""
    quick = ("steps=2", "dim=8", "heads=2", "system.hidden=16", "layers=1", "precision=float32", "task.batch=4")
    made = ("task.data=made", "made_size=60", "task.vocab=280", "task.length=16")
    first = Cell("first", "bert-text", 1, (*quick, *made, "task.pairs=false"))
    start = (f"init={tool.RUNS}/first-0", f"tokens={tool.RUNS}/first-0")
    sentences = ("task.data=agreement", "files=", "names=", "train_size=20", "valid_size=4", "test_size=8")
    second = Cell("second", "bert-sst", 9, (*quick, *sentences, "max_length=16", *start))
    lab = tool.Language(tmp_path)
    lab.train([second, first])
    assert lab.share(first) == lab.share(second) == 1
    assert lab.measure(second)["accuracy"] >= 0


def test_tables_from_trainings_of_seconds(tmp_path, capsys, monkeypatch):
    """Trained, measured, printed; and the second time only printed."""
    small = ["steps=2", "embedding=8", "system.hidden=8", "train_size=8", "valid_size=4", "test_size=8"]
    monkeypatch.setattr(tool, "DREAM", {"made dialogues": tool.row("dream", 1, "data=", "joint=8", "task.batch=4")})
    changes = ("batch_tokens=200", "system.attention=8")
    monkeypatch.setattr(tool, "NNJM", {"self-normalized": tool.row("nnjm-toy", 1, *changes)})
    monkeypatch.setattr(sys, "argv", ["results_language.py", "dream", "nnjm", *small, "--runs", str(tmp_path)])
    tool.main()
    first = capsys.readouterr()
    rows = [line for line in first.out.splitlines() if line.startswith("|") and not line.startswith("|---")]
    assert [row.split("|")[1].strip() for row in rows] == ["", "made dialogues", "", "self-normalized"]
    assert rows[0].count("|") == rows[1].count("|") and rows[2].count("|") == rows[3].count("|")
    assert float(rows[3].split("|")[3]) >= 0
    tool.main()
    second = capsys.readouterr()
    assert second.out == first.out
    assert "training" not in second.err and "measuring" not in second.err
