"""The measurements of `regard bench record`, small."""

import pytest
import torch

from regard.bench import record
from regard.bench.measure import measure

SMALL = {"layers": 2, "width": 64, "length": 32}


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("read", [True, False])
def test_recording(read):
    pytest.importorskip("transformers", reason="transformers is not installed")
    case = record.recorded(read, **SMALL)
    (row,) = measure(case, threads=1, seconds=0.01)
    assert list(row.milliseconds) == ["ours", "alone", "eager"] and "T=32" in row.work


@pytest.mark.parametrize("asked", [True, False])
def test_the_implementation(asked):
    pytest.importorskip("transformers", reason="transformers is not installed")
    (row,) = measure(record.implemented(asked, **SMALL), threads=1, seconds=0.01)
    assert list(row.milliseconds) == ["ours", "alone", "eager"]


def test_knock_outs():
    (row,) = measure(record.knocked_out(2, layers=1, width=8, length=3), threads=1, seconds=0.01)
    assert list(row.milliseconds) == ["ours", "one by one"]


def test_without_transformers(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(ValueError, match="pip install transformers"):
        record.run(quick=True)
