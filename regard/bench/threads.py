"""``regard bench threads``: what waiting threads cost, on idle cores and beside programs that keep them busy.

The same short training runs as GNU's OpenMP waits by default, as ``regard train`` runs it (a short spin, and no more
threads than cores to spare), without spinning, and on one thread; first alone, and then beside as many busy loops as
there are cores. Each training is a process of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from regard._threads import SPIN, TURNS
from regard.bench.measure import aligned, machine, machine_line

OURS = "as regard trains"
WANTED = "idle ≥ 0.95, busy ≥ 3"
"""Of the ratios to how OpenMP waits."""

WAYS: dict[str, dict[str, str]] = {
    "as OpenMP waits": {},
    OURS: {SPIN: str(TURNS)},
    "without spinning": {"OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
STEPS = """
import sys, time
from regard import _threads, registry, runs
recipe = registry.recipe("translate-toy").change(["task.train_size=2000", "threads=none"])
made = runs.assemble(recipe, seed=0)
loader, model = made.task.loader("train"), made.model
import torch
if sys.argv[2] == "spare":
    torch.set_num_threads(_threads.threads_to_spare(torch.get_num_threads()))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
times, end = [], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for batch in loader:
        began = time.perf_counter()
        optimizer.zero_grad()
        model(batch)["loss"].backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
        if time.monotonic() > end:
            break
times = times[1:] or times  # kernels are loaded in the first
print(len(times) / sum(times))
"""


@dataclass(frozen=True)
class Row:
    """Steps of training a second, medians over rounds."""

    way: str
    idle: float
    busy: float


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the ways whose name holds ``only``, print the table, and write it as JSON if asked."""
    seconds, rounds = (3.0, 1) if quick else (6.0, 5)
    chosen = {way: environment for way, environment in WAYS.items() if only in way}
    rates: dict[str, dict[bool, list[float]]] = {way: {False: [], True: []} for way in chosen}
    for _ in range(rounds):
        for busy in (False, True):
            with _busy_loops(busy, (seconds + 20) * len(chosen)):
                for way, environment in chosen.items():
                    rates[way][busy].append(_steps(environment, seconds, spare=way == OURS))
    rows = [Row(way, *(statistics.median(samples[busy]) for busy in (False, True))) for way, samples in rates.items()]
    print(machine_line(machine()))
    first = rows[0]
    body = [
        (row.way, f"{row.idle:.1f}", f"{row.busy:.1f}", f"{row.idle / first.idle:.2f}", f"{row.busy / first.busy:.2f}")
        + ((WANTED,) if row.way == OURS else ("",))
        for row in rows
    ]
    print(aligned(("", "steps/s, idle", "steps/s, busy", "idle, ratio", "busy, ratio", "wanted"), body))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return rows


def _steps(environment: dict[str, str], seconds: float, spare: bool) -> float:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, "-c", STEPS, str(seconds), "spare" if spare else "all"]
    done = subprocess.run(command, env={**plain, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a training failed: {done.stderr.strip().splitlines()[-1:]}")
    return float(done.stdout)


@contextmanager
def _busy_loops(busy: bool, seconds: float) -> Iterator[None]:
    """A loop for each core, each of which ends by itself."""
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    loops = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)] if busy else []
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
