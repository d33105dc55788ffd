"""The runner of the tables on pictures: its trainings are what its rows say, and a table is printed twice alike."""

import sys
from pathlib import Path

import results_pictures as tool


def test_every_training_is_a_recipe_that_can_be_built():
    cells = {cell for table in tool.TABLES.values() for cell in table.cells()}
    lab = tool.Pictures(Path())
    assert len({lab.folder(cell) for cell in cells}) == len(cells)
    for cell in cells:
        recipe = lab._recipe(cell)
        recipe.build("train")
        assert recipe.sections["train"]["seed"] == cell.seed
        assert lab.split(cell) == ("valid" if "flickr8k" in cell.recipe else "test")
    alone = lab._recipe(tool.VQA_DAQUAR["the question alone"][1]).sections
    assert alone["system"]["hops"] == 0 and alone["train"]["seed"] == 1
    assert lab._recipe(tool.VQA_SCENES["stacked attention, one layer"][0]).sections["system"]["name"] == "san"


def test_a_table_from_trainings_of_seconds(tmp_path, capsys, monkeypatch):
    """Trained, measured, printed; and the second time only printed."""
    quick = ["steps=2", "task.batch=4", "pixels=32", "train_size=8", "valid_size=4", "test_size=20", "system.dim=8"]
    titles = ("two hops", "the question alone", "stacked attention, two layers")
    monkeypatch.setattr(tool, "VQA_SCENES", {title: tool.VQA_SCENES[title] for title in titles})
    monkeypatch.setattr(sys, "argv", ["results_pictures.py", "vqa-scenes", *quick, "--runs", str(tmp_path)])
    tool.main()
    first = capsys.readouterr()
    header, _, *rows = [line for line in first.out.splitlines() if line.startswith("|")]
    assert [row.split("|")[1].strip() for row in rows] == list(titles)
    assert len({line.count("|") for line in (header, *rows)}) == 1
    assert rows[1].split("|")[6:9] == ["  ", "  ", "  "], "what does not look points nowhere"
    tool.main()
    second = capsys.readouterr()
    assert second.out == first.out
    assert "training" not in second.err and "measuring" not in second.err
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "hops0"])
    tool.main()
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")] == [header, rows[1]]
    monkeypatch.setattr(sys, "argv", [*sys.argv[:-1], "seed 7", "--list"])
    tool.main()
    assert "nothing to train" in capsys.readouterr().out


def test_captions_come_with_a_figure_of_the_best_and_of_the_worst(tmp_path, capsys, monkeypatch):
    quick = ["steps=2", "task.batch=4", "pixels=32", "train_size=8", "valid_size=4", "test_size=9", "decode.size=1"]
    monkeypatch.setattr(tool, "CAPTIONS", {"soft": tool.row("caption-scenes", 1)})
    monkeypatch.setattr(sys, "argv", ["results_pictures.py", "captions", *quick, "--runs", str(tmp_path)])
    tool.main()
    drawn = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line.startswith("Figure")]
    assert [Path(path).name for path in drawn] == ["captions-best.png", "captions-worst.png"]
    assert all(Path(path).stat().st_size > 5000 for path in drawn)
