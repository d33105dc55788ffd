"""The examples as a reader runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = sorted(
    path.stem
    for path in (ROOT / "examples").glob("*.py")
    if not path.stem.startswith("_") and path.stem != "weather_stations"
)


def run(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "examples" / f"{name}.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "DISPLAY": ""}
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "figures").write_text("a file, not a folder")
    done = run(tmp_path, "scaled_dot", "--out", "figures/here")
    assert done.returncode != 0
    assert "Cannot write" in done.stderr and "--out" in done.stderr and "Traceback" not in done.stderr


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_weather_stations(tmp_path):
    done = run(tmp_path, "weather_stations")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "(31.0, 48.0)" in done.stdout and "(32.5, 47.1)" in done.stdout
    assert "Saved weather_stations.png" in done.stdout
    assert "regard list" in done.stdout
    assert min(size(tmp_path / "weather_stations.png")) > 400


def test_own_stations(tmp_path):
    rows = [f"{x},{y},{x + y},{x - y}" for x in range(4) for y in range(4)]
    (tmp_path / "mine.csv").write_text("\n".join(["east,north,rain,sun", *rows]))
    done = run(tmp_path, "weather_stations", "mine.csv", "--out", "figures")
    assert done.returncode == 0, done.stderr
    assert "rain" in done.stdout and "16 stations" in done.stdout
    assert min(size(tmp_path / "figures" / "mine_map.png")) > 400


def test_bad_stations_are_one_line_without_a_traceback(tmp_path):
    (tmp_path / "mine.csv").write_text("x,y,v1\n0,0,1\n0,zero,1\n")
    done = run(tmp_path, "weather_stations", "mine.csv")
    assert done.returncode != 0
    assert done.stderr == "weather_stations: mine.csv, line 3: y is 'zero', not a number\n"
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_others(tmp_path, name):
    done = run(tmp_path, name, "--out", "figures")
    assert done.returncode == 0, done.stderr
    assert min(size(tmp_path / "figures" / f"{name}.png")) > 400
