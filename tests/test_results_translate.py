"""The runner of the translation tables: what it trains, how it goes on, and what it concludes."""

import gzip
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import results_translate as tool

from regard import registry
from regard.predictors.predictor import Predictor
from regard.tasks.toy_grammar import sentence

TOOL = Path(__file__).parents[1] / "tools" / "results_translate.py"
TWO = {"luong": ("Luong", 1), "seq2seq": ("LSTM without attention", 1)}
STEPS = 120
QUICK = [
    f"steps={STEPS}",
    "vocab=300",
    "embedding=16",
    "system.hidden=16",
    "batch_tokens=256",
    "warmup=2",
    "log_every=1",
]
CALL = f"""
import sys; sys.path.insert(0, {str(TOOL.parent)!r})
import results_translate; results_translate.SYSTEMS = {TWO!r}; results_translate.main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder like Multi30k's, of sentences of the toy grammar."""
    folder, dice = tmp_path_factory.mktemp("data"), random.Random(0)
    (folder / "multi30k").mkdir()
    for name, count in (("train", 300), ("val", 20), ("test_2016_flickr", 30)):
        made = [sentence(dice.randint(4, 14), dice) for _ in range(count)]
        for side, ending in enumerate(("en", "de")):
            with gzip.open(folder / "multi30k" / f"{name}.{ending}.gz", "wt", encoding="utf-8") as file:
                file.writelines(example[side] + "\n" for example in made)
    return folder


@pytest.fixture(scope="module")
def home(data, tmp_path_factory):
    """Where the runs go, after a first session that was told to stop in the midst of a training."""
    folder = tmp_path_factory.mktemp("runs")
    running = subprocess.Popen(command(folder), env=environment(data), stderr=subprocess.PIPE, text=True)
    try:
        steps = folder / "luong-0" / "metrics.jsonl"
        end = time.monotonic() + 300
        while time.monotonic() < end and not (steps.exists() and steps.read_bytes().count(b"\n") > 3):
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        _, told = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode == 130 and "the same command goes on" in told and "Traceback" not in told, told
    return folder


def environment(data):
    return os.environ | {"REGARD_DATA": str(data), "OMP_NUM_THREADS": "1"}


def command(folder, *more):
    figure = ["--figure", str(folder / "length.png")]
    return [sys.executable, "-c", CALL, "systems", "length", *QUICK, "--runs", str(folder), *figure, *more]


def facts(folder):
    return json.loads((folder / "run.json").read_text())


@pytest.mark.skipif(os.name != "posix", reason="it is told to stop by a signal")
def test_it_trains_is_stopped_goes_on_and_prints(data, home, monkeypatch, capsys):
    """The whole way: the second session goes on where the first stopped, the third finds all done."""
    first, began = facts(home / "luong-0"), (home / "luong-0" / "metrics.jsonl").read_text().splitlines()[0]
    assert first["summary"]["ended"] == "SIGTERM" and 0 < first["summary"]["steps"] < STEPS
    monkeypatch.setenv("REGARD_DATA", str(data))
    monkeypatch.setattr(tool, "SYSTEMS", TWO)

    def call(*more):
        monkeypatch.setattr(sys, "argv", ["results_translate.py", *command(home, *more)[3:]])
        tool.main()
        return capsys.readouterr()

    listed = call("--list").out
    assert "systems: 0 of 2 trainings done" in listed and "to do  seq2seq, seed 0" in listed
    share = f"{100 * first['summary']['steps'] / STEPS:.0f} %"
    assert f"{share:5}  luong, seed 0" in listed
    out, told = call("--jobs", "2")
    assert "training luong" in told and "seq2seq, seed 0: trained" in told
    now = facts(home / "luong-0")
    assert now["summary"]["steps"] == STEPS and now["created"] == first["created"]
    assert (home / "luong-0" / "metrics.jsonl").read_text().splitlines()[0] == began
    rows = [line for line in out.splitlines() if line.startswith(("| Luong", "| LSTM"))]
    assert len(rows) == 2 and all(row.count("|") == 6 and " ± " in row for row in rows)
    assert "case:lc" in out and "tok:13a" in out and "| 12 to 14 |" in out
    assert (home / "length.png").stat().st_size > 5000
    again, told = call()
    assert again == out and not told
    assert "0 minutes with --jobs 1" in call("--list").out

    with pytest.raises(SystemExit, match=r"trained otherwise \(.*dropout = 0.7.*\)"):
        call("dropout=0.7")


def test_perplexity_is_that_of_teacher_forcing(data, home, monkeypatch):
    """Also of an ensemble: of one system twice it is that of the system."""
    monkeypatch.setenv("REGARD_DATA", str(data))
    folder = home / "luong-0"
    one = Predictor.open(folder, which="last")
    wanted = math.exp(Predictor.evaluate(one, "test")["nll"])
    assert tool.perplexity(one) == pytest.approx(wanted, rel=1e-4)
    assert tool.perplexity(Predictor.open(folder, folder, which="last")) == pytest.approx(wanted, rel=1e-4)


def test_tuning_measures_each_change_and_each_search_on_the_validation_split(data, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(data))
    monkeypatch.setattr(tool, "TUNING", {"the recipe": (), "no change": ()})
    cell = tool.Cell("luong", "translate-multi30k-luong", 1)
    monkeypatch.setattr(tool, "tuning_cells", lambda: [cell, cell])
    lab = tool.Translations(tmp_path, (*QUICK, "validate_every=40"))
    lab.train([cell])
    head, _, *rows, _, told = "\n".join(tool.tuning(lab)).splitlines()
    shown = {row.split(" | ")[0].strip("| "): row for row in rows}
    assert list(shown) == [*tool.TUNING, *tool.SEARCHES] and "case:lc" in told
    assert "no gain: +0.00" in shown["no change"] and shown["the recipe"].endswith("|  |")
    assert head.count("|") == shown["greedy"].count("|")
    written = {path.stem: json.loads(path.read_text())["texts"] for path in (tmp_path / "measured").iterdir()}
    assert len(written["luong-0-best-valid"]) == 20
    searched = [texts for name, texts in written.items() if "-decode" in name]
    assert len(searched) == 4 and len({tuple(texts) for texts in searched}) > 1


def test_a_subset_has_fewer_pairs_and_the_same_tests(data, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(data))
    folder = tool.Translations(tmp_path).subset(50)
    assert tool.Translations(tmp_path).subset(50) == folder
    for name, count in (("train", 50), ("val", 20), ("test_2016_flickr", 30)):
        for ending in ("en", "de"):
            with gzip.open(data / "multi30k" / f"{name}.{ending}.gz", "rt", encoding="utf-8") as file:
                assert (folder / f"{name}.{ending}").read_text(encoding="utf-8").splitlines(True) == list(file)[:count]


def test_every_training_is_one_that_can_be_made():
    cells = {cell for table in tool.TABLES.values() for cell in table.cells()}
    assert len({tool.Translations(Path()).folder(cell) for cell in cells}) == len(cells)
    for cell in cells:
        recipe = tool.Translations(Path())._recipe(cell)
        recipe.build("task")
        assert recipe.build("train").seed == cell.seed
        system = recipe.sections["system"]["name"]
        registry.system(system)(recipe.build("system", source_vocab=30, target_vocab=30))


def test_each_rung_changes_what_it_says():
    cells = tool.ladder_cells()
    assert [cell.seed for cell in cells] == [0] * len(tool.RUNGS) + [1, 2, 3]
    configs = [tool.Translations(Path())._recipe(cell).sections["system"] for cell in cells]
    changed = [{key for key in now if now[key] != before[key]} for before, now in itertools.pairwise(configs)]
    assert changed == [
        {"reverse"},
        {"dropout"},
        {"attention", "score"},
        {"feed"},
        {"local", "score"},
        set(),
        set(),
        set(),
    ]
    assert not configs[0]["attention"] and not configs[0]["reverse"] and configs[0]["dropout"] == 0


def test_bleu_is_sacrebleus_and_differences_are_judged_in_pairs():
    from sacrebleu.metrics import BLEU

    dice = random.Random(0)
    wanted = [sentence(dice.randint(5, 14), dice).target for _ in range(200)]

    def spoiled(share, seed):
        chance = random.Random(seed)
        return [" ".join(w.upper() if chance.random() > share else "zzz" for w in text.split()) for text in wanted]

    def measured(texts, cased=False):
        return tool.Measured(texts, wanted, wanted, 1.0, 1.0, cased)

    bad, good = spoiled(0.3, 1), spoiled(0.1, 2)
    theirs = BLEU(lowercase=True).corpus_score(bad, [wanted], n_bootstrap=1000)
    score, half = measured(bad).bleu()
    assert score == pytest.approx(theirs.score) and half == pytest.approx(theirs._ci, rel=0.15)
    assert measured(bad, cased=True).bleu()[0] < 1
    assert measured(good).against(measured(bad)).startswith("+")
    assert measured(bad).against(measured(good)).startswith("worse: -")
    same = [spoiled(0.3, 1)[0], *bad[1:-1], "zzz"]
    assert measured(same).against(measured(bad)).startswith("no gain: -0.")
    # Far less than the interval of either alone, because both have the same hard sentences.
    low, high = measured(same).against(measured(bad)).partition("(")[2].rstrip(")").split(" to ")
    assert float(high) - float(low) < half
