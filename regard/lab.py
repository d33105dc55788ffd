"""Many trainings, one after the other or side by side, for `regard sweep` and tables of results.

Every training is a run of its own, made by `regard train` and taken up where it stopped, however it stopped. What is
done is not done again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from regard import _files, registry, runs


@dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        name: of its folder, with the seed.
        recipe, changes: as for `regard train`.
        minutes: about how long it takes on one core.
        examples: how many of the training data; all if 0.
    """

    name: str
    recipe: str
    minutes: float
    changes: tuple[str, ...] = ()
    seed: int = 0
    examples: int = 0

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


@dataclass
class Lab:
    """Where the runs are, and how they are made."""

    root: Path
    changes: tuple[str, ...] = ()
    jobs: int = 1
    figure: Path = Path("figure.png")
    only: str = ""

    def wants(self, cell: Cell) -> bool:
        """Does ``only`` select it?"""
        return self.only in str(cell)

    def folder(self, cell: Cell) -> Path:
        """The folder of its run."""
        return self.root / f"{cell.name}-{cell.seed}"

    def share(self, cell: Cell) -> float:
        """The share of a training that is done, 0 to 1."""
        summary = facts(self.folder(cell)).get("summary", {})
        if summary and not summary["ended"].startswith("SIG"):
            return 1.0
        config, last_metrics = self._recipe(cell).build("train"), last(self.folder(cell) / "metrics.jsonl")
        progress = ((last_metrics.get("step", 0), config.steps), (last_metrics.get("epoch", 0), config.epochs))
        return min(0.99, max(done / end for done, end in progress if end))

    def data(self, cell: Cell) -> list[str]:
        """The option that says where the data of a training lies, if it is not in its usual place."""
        return []

    def left(self, cell: Cell) -> float:
        """About how many minutes a training still takes."""
        return cell.minutes * (1 - self.share(cell))

    def train(self, cells: Sequence[Cell]) -> None:
        """Train those that ``only`` selects, until they have ended; on Ctrl-C or SIGTERM they stop in good order."""
        cells = [cell for cell in cells if self.wants(cell)]
        for cell in cells:
            self._check(cell)
        unfinished = (cell for cell in cells if self.share(cell) < 1)
        pending = sorted(
            unfinished, key=self.left, reverse=True
        )  # so that no core is idle while another does the longest
        running: dict[Cell, subprocess.Popen[bytes]] = {}
        failed: list[Cell] = []
        last_shown = 0.0
        try:
            while pending or running:
                while pending and len(running) < self.jobs:
                    cell = pending.pop(0)
                    running[cell] = self._start(cell)
                    say(f"training {cell} …")
                time.sleep(0.2)
                for cell, process in list(running.items()):
                    if process.poll() is not None:
                        del running[cell]
                        failed += [cell] if self.share(cell) < 1 else []
                        say(f"{cell}: " + (self._log_tail(cell) if cell in failed else "trained"))
                if time.monotonic() - last_shown > (1 if sys.stderr.isatty() else 60):
                    last_shown = time.monotonic()
                    ended = len(cells) - len(pending) - len(running)
                    progress = " · ".join(f"{cell}: {self._log_tail(cell)}" for cell in running)
                    say(f"{ended} of {len(cells)} ended · {progress}", passing=True)
        finally:
            for process in running.values():
                process.terminate()  # also one that has just begun, and would not hear Ctrl-C yet
            for process in running.values():
                process.wait()
        if failed:
            raise ValueError(f"{', '.join(map(str, failed))}: the training failed; {self.root}/NAME.log says why")

    def _start(self, cell: Cell) -> subprocess.Popen[bytes]:
        folder = self.folder(cell)
        arguments = ["train", cell.recipe, "--out", str(folder)]
        if any((folder / "checkpoints").glob("step-*")):
            arguments += ["--resume"]
        else:  # killed before its first checkpoint
            shutil.rmtree(folder, ignore_errors=True)
            arguments += [*self.data(cell), *self._changes(cell)]
        self.root.mkdir(parents=True, exist_ok=True)
        threads = {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // self.jobs, 1))}  # unless it is set
        with open(self._log(cell), "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "regard.cli", *arguments],
                stdout=log,
                stderr=log,
                env={**threads, **os.environ},
                start_new_session=True,  # Ctrl-C comes to it from here, once
            )

    def _changes(self, cell: Cell) -> list[str]:
        return [*cell.changes, f"train.seed={cell.seed}", "checkpoint_minutes=1", "tensorboard=false", *self.changes]

    def _recipe(self, cell: Cell) -> Any:
        return registry.recipe(cell.recipe).change(self._changes(cell))

    def _check(self, cell: Cell) -> None:
        """A folder of that name may hold what was trained before the recipe changed."""
        path = self.folder(cell) / "recipe.toml"
        if not path.exists():
            return
        old_lines, new_lines = (text.splitlines()[1:] for text in (path.read_text(), self._recipe(cell).toml()))
        if differing := [line for line in new_lines if line not in old_lines] + [
            line for line in old_lines if line not in new_lines
        ]:
            raise ValueError(
                f"{path.parent} was trained otherwise ({', '.join(differing)}): remove it, or choose other --runs"
            )

    def _log(self, cell: Cell) -> Path:
        return self.root / f"{self.folder(cell).name}.log"

    def _log_tail(self, cell: Cell) -> str:
        path = self._log(cell)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return lines[-1] if lines else "starting"


@dataclass
class Measured(Lab):
    """Trainings with their metrics by `regard evaluate`."""

    def split(self, cell: Cell) -> str:
        """The split that is measured."""
        return "test"

    def measure(self, cell: Cell) -> dict[str, float]:
        """The metrics of `regard evaluate`, and ``minutes``. They are kept in the run's folder."""
        folder = self.folder(cell)
        run_facts, split = facts(folder), self.split(cell)
        path = folder / ("measured.json" if split == "test" else f"measured-{split}.json")
        if not path.exists() or json.loads(path.read_text())["made"] != run_facts["created"]:
            say(f"measuring {cell} …", passing=True)
            metrics = runs.load(folder).evaluate(split)
            _files.replace(path, json.dumps({"made": run_facts["created"], **metrics}).encode())
        measured: dict[str, Any] = json.loads(path.read_text())
        return {**measured, "minutes": run_facts["summary"]["minutes"]}

    def mean(self, cells: Sequence[Cell], metric: str) -> tuple[str, str]:
        """The mean over cells, with each if there are several; and the mean minutes."""
        measured = [self.measure(cell) for cell in cells]
        values = [metrics[metric] for metrics in measured]
        text = f"{statistics.mean(values):.2f}"
        if len(values) > 1:
            text += f" ({', '.join(f'{value:.2f}' for value in values)})"
        return text, f"{statistics.mean(metrics['minutes'] for metrics in measured):.0f}"


def facts(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    path = folder / "run.json"
    return json.loads(path.read_text()) if path.exists() else {}


def last(path: Path) -> dict[str, Any]:
    """The last whole line of a file of JSON lines."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return json.loads(lines[-1]) if lines else {}


def say(text: str, passing: bool = False) -> None:
    """On stderr; in a terminal a ``passing`` line is written over by the next."""
    if not sys.stderr.isatty():
        print(f"{time.strftime('%H:%M')} {text}", file=sys.stderr, flush=True)
        return
    line = text[: shutil.get_terminal_size().columns - 1] if passing else text
    print(f"\r\x1b[K{line}", end="" if passing else "\n", file=sys.stderr, flush=True)


def stop_on_signals() -> None:
    """SIGTERM and SIGHUP stop trainings in good order, like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt
