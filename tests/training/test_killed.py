"""Killed at any moment and resumed, a training ends as if nothing had happened: bit for bit, on one thread."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("kills", "inside", "seed"), [(15, 5, 0), pytest.param(75, 25, 1, marks=pytest.mark.slow, id="100 moments")]
)
def test_killed_and_resumed_equals_uninterrupted(tmp_path, kills, inside, seed):
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(HERE / "killed.py"), str(tmp_path), str(kills), str(inside), str(seed)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=1200,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr[-4000:]
    found = json.loads(result.stdout)
    assert found["killed"] == kills
    assert found["inside"] == [
        "after it",
        "before the rename",
        "old one half removed",
        "state half written",
        "weights half written",
    ]
    assert found["steps"] == 150
    equal = {name: found[name] for name in ("weights", "optimizer", "best", "kept", "metrics")}
    assert all(equal.values()), equal
    assert found["left over"] == []
