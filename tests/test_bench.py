"""The measurements: what is compared must be the same, and the table says what was measured."""

import json
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from regard import spoiled
from regard.bench import attention, graphs
from regard.bench import threads as waiting
from regard.bench.measure import Case, Row, measure, table


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_contenders_that_disagree_are_not_timed():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="differ by 1"):
        measure(Case("sums", {"ours": lambda: x, "eager": lambda: x + 1}), threads=1, seconds=0.01)


def test_a_ratio_is_theirs_over_ours_and_gradients_are_measured():
    x = torch.ones(400, 400, requires_grad=True)
    contenders = {"ours": lambda: x * 2, "eager": lambda: ((x @ x) * 0 + x) * 2}
    rows = measure(Case("double", contenders, [x], "faster"), threads=1, seconds=0.02)
    assert [row.which for row in rows] == ["forward", "forward+backward"]
    for row in rows:
        assert row.ratio("eager") == row.milliseconds["eager"] / row.milliseconds["ours"] > 1
    assert x.grad is not None


def test_a_slow_contender_runs_once():
    calls = []

    def slow():
        calls.append(1)
        return torch.zeros(1)

    case = Case("wait", {"ours": lambda: torch.zeros(1), "eager": slow}, (), "", ("forward",), None, ("eager",))
    (row,) = measure(case, threads=1, seconds=0.01)
    assert len(calls) == 1 and row.milliseconds["eager"] > 0


def test_the_table_is_markdown():
    rows = [Row("a", 1, "forward", {"ours": 1.0, "eager": 250.0}, {"ours": 0.5, "eager": None}, "fast")]
    lines = table(rows).splitlines()
    assert len({len(line) for line in lines}) == 1 and len(lines) == 3
    assert "| 250" in lines[2] and "fast" in lines[2]


def test_one_row_of_the_real_benchmark(tmp_path, capsys):
    rows = attention.run(tmp_path / "bench.json", quick=True, only="context and then weights")
    assert len(rows) == 1 and rows[0].milliseconds["ours"] > 0
    assert "context and then weights" in capsys.readouterr().out
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["machine"]["versions"]["torch"] == torch.__version__ and len(found["rows"]) == 1
    with pytest.raises(ValueError, match="'nothing like it'"):
        attention.run(quick=True, only="nothing like it")


def test_rows_of_modern_heads(capsys, monkeypatch):
    """Small ones: each compares the same numbers before it is timed, and the growth of windows is printed."""
    monkeypatch.setattr(attention, "_cases", lambda: iter(small))
    small = [
        partial(attention._sliding, 256, True),
        partial(attention._sliding, 256, False),
        *(partial(attention._sliding, length, True, grows=True) for length in (128, 256)),
        partial(attention._grouped, 1, 64),
        partial(attention._checked, 2, 16),
    ]
    before = spoiled.harmless
    rows = attention.run(quick=True)
    assert {tuple(row.milliseconds) for row in rows} == {
        *(("ours", "sdpa"), ("ours",), ("ours", "repeated", "sdpa"), ("ours", "unchecked"))
    }
    assert spoiled.harmless is before
    assert "time ∝ T^" in capsys.readouterr().out


def test_the_benchmark_of_graphs(tmp_path, capsys):
    pytest.importorskip("torch_geometric")
    rows = graphs.run(tmp_path / "bench.json", quick=True, only="GATv2 layer")
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["machine"]["versions"]["torch-geometric"] and len(found["rows"]) == len(rows) == 6
    assert "MB pyg" in capsys.readouterr().out
    graphs.run(quick=True, only="growth")
    assert "time ∝ edges^" in capsys.readouterr().out
    assert graphs.run(quick=True, only="sparse features")[0].which == "training step"
    with pytest.raises(ValueError, match="'nothing like it'"):
        graphs.run(quick=True, only="nothing like it")


def test_waiting_threads_idle_and_busy(monkeypatch, tmp_path, capsys):
    """Each way is measured in both, and told as a ratio to how OpenMP waits by itself."""
    beside, seen = [], []

    @contextmanager
    def loops(wanted, seconds):
        beside.append(wanted)
        yield

    def steps(environment, seconds, spare):
        seen.append((beside[-1], environment))
        return (2.0 if beside[-1] else 10.0) * (4 if environment and beside[-1] else 1)

    monkeypatch.setattr(waiting, "_busy_loops", loops)
    monkeypatch.setattr(waiting, "_steps", steps)
    rows = waiting.run(tmp_path / "found.json", quick=True)
    assert len(seen) == 2 * len(waiting.WAYS) == 2 * len(rows)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if waiting.OURS in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [waiting.OURS, "10.0", "8.0", "1.00", "4.00", waiting.WANTED]
    assert json.loads((tmp_path / "found.json").read_text())[1] == {"way": waiting.OURS, "idle": 10.0, "busy": 8.0}
