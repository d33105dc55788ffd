"""Measuring: contenders must compute the same, then they take turns, and the medians of their times are compared."""

from __future__ import annotations

import ctypes
import gc
import json
import math
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Contender = Callable[[], Tensor]
TURN, TURN_MILLISECONDS = 5, 20.0  # calls of a turn at most, and the time after which no other begins


@dataclass
class Case:
    """One row of a table: several ways to compute the same tensor.

    Attributes:
        work: what is computed, with its sizes.
        contenders: name → function of no arguments; ``ours`` and ``eager`` among them.
        inputs: the tensors that get gradients in ``forward+backward``.
        target: the aim, as text; it is printed in the last column.
        passes: ``forward``, ``forward+backward`` or both.
        tolerance: how far the contenders' results may lie apart, or None where they differ by design (dropout).
        slow: contenders that take seconds; they run once, after the others.
    """

    work: str
    contenders: dict[str, Contender]
    inputs: Sequence[Tensor] = ()
    target: str = ""
    passes: tuple[str, ...] = ("forward", "forward+backward")
    tolerance: float | None = 1e-4
    slow: tuple[str, ...] = ()


@dataclass
class Row:
    """What was measured: milliseconds and extra megabytes for each contender."""

    work: str
    threads: int
    which: str
    milliseconds: dict[str, float]
    megabytes: dict[str, float | None] = field(default_factory=dict)
    target: str = ""

    def ratio(self, name: str) -> float:
        """How many times faster than ``name`` ours is."""
        return self.milliseconds[name] / self.milliseconds["ours"]


def measure(case: Case, threads: int, seconds: float = 1.0) -> list[Row]:
    """Time every pass of a case on ``threads`` threads."""
    torch.set_num_threads(threads)
    _same(case)
    rows = []
    for pass_name in case.passes:
        for tensor in case.inputs:
            tensor.requires_grad_(pass_name != "forward")
        runs = {name: _run(contender, case.inputs, pass_name) for name, contender in case.contenders.items()}
        quick = {name: run for name, run in runs.items() if name not in case.slow}
        memory = {name: _extra_megabytes(run) for name, run in quick.items()}
        times = _medians(quick, seconds) | {name: _once(runs[name]) for name in case.slow}
        rows.append(Row(case.work, threads, pass_name, times, memory, case.target))
    return rows


def report(
    cases: Callable[[], Iterable[Callable[[], Case]]],
    *,
    threads: Sequence[int],
    seconds: float,
    only: str = "",
    json_file: Path | None = None,
    peer: str = "eager",
    **versions: str,
) -> list[Row]:
    """Measure the cases whose name holds ``only``, on each number of threads, and print machine and table.

    Args:
        cases: they are built one by one, so that only one's tensors are in memory.
        seconds: for each contender of a row.
        json_file: where rows and machine are written too.
        peer: the contender that the line above the table names.
        versions: of the other libraries that were measured.
    """
    facts = machine()
    facts["versions"] |= versions
    print(machine_line(facts))
    print(
        f"Medians in milliseconds; `× {peer}` is how many times faster than {peer} ours is; MB is peak extra memory.\n"
    )
    rows: list[Row] = []
    before = torch.get_num_threads()
    try:
        for count in threads:
            for make in cases():
                torch.manual_seed(0)
                case = make()
                if only in case.work:
                    rows += measure(case, count, seconds)
                    print(f"  {count} thread{'s' * (count > 1)}: {case.work}", file=sys.stderr)
    finally:
        torch.set_num_threads(before)
    if not rows:
        raise ValueError(f"no row of this benchmark has {only!r} in its name")
    print(table(rows))
    if json_file is not None:
        json_file.write_text(json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return rows


def machine_line(facts: dict[str, Any]) -> str:
    """A machine in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return f"{facts['processor']}, {facts['cores']} cores; {versions}"


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, aligned so that it reads well in a terminal too."""
    rivals = list(dict.fromkeys(name for row in rows for name in row.milliseconds if name != "ours"))
    head = ["work", "threads", "pass", "ours ms", *(f"{name} ms" for name in rivals)]
    rival = "eager" if "eager" in rivals or not rivals else rivals[0]
    head += [*(f"× {name}" for name in rivals), "MB ours", f"MB {rival}", "target"]
    body = []
    for row in rows:
        times = [_number(row.milliseconds.get(name)) for name in rivals]
        ratios = [_number(row.ratio(name), 2) if name in row.milliseconds else "" for name in rivals]
        memory = [_number(row.megabytes.get(name), 1) for name in ("ours", rival)]
        ours = _number(row.milliseconds["ours"])
        body.append([row.work, str(row.threads), row.which, ours, *times, *ratios, *memory, row.target])
    return aligned(head, body)


def aligned(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Cells as a Markdown table whose columns stand one below the other."""
    body = list(body)
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *body]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines
    )


def exponent(times: Iterable[tuple[float, float]]) -> float:
    """e of time ∝ size^e, between the smallest and the largest of (size, time)."""
    points = sorted(times)
    (few, quick), (many, slow) = points[0], points[-1]
    return math.log(slow / quick) / math.log(many / few)


def machine() -> dict[str, Any]:
    """The machine and the versions of the libraries, which go with every number."""
    import numba
    import numpy

    from regard import __version__

    return {
        "processor": _processor(),
        "cores": len(_affinity()),
        "system": platform.platform(),
        "versions": {
            "regard": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numba": numba.__version__,
            "numpy": numpy.__version__,
        },
    }


def _same(case: Case) -> None:
    if case.tolerance is None:
        return
    with torch.no_grad():
        results = {name: contender() for name, contender in case.contenders.items()}
    for name, result in results.items():
        if not torch.allclose(result, results["ours"], atol=case.tolerance, rtol=case.tolerance):
            worst = float((result - results["ours"]).abs().max())
            raise RuntimeError(f"{case.work}: {name} and ours differ by {worst:.2g}, so their times cannot be compared")


def _run(contender: Contender, inputs: Sequence[Tensor], pass_name: str) -> Callable[[], object]:
    if pass_name == "forward":
        return torch.no_grad()(contender)

    def forward_backward() -> None:
        for tensor in inputs:
            tensor.grad = None
        contender().sum().backward()

    return forward_backward


def _medians(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Milliseconds; the contenders take turns, so that a busy moment of the machine hits all of them. A turn of a quick
    one is several calls, as in a loop that calls it: most of them find in the caches what the call before left there,
    not what another contender did."""
    order = random.Random(0)
    for run in runs.values():
        run()
        run()
    start = time.perf_counter()
    times: dict[str, list[float]] = {name: [] for name in runs}
    while time.perf_counter() - start < seconds * len(runs) or len(times["ours"]) < 5:
        for name in order.sample(list(runs), len(runs)):
            turn: list[float] = []
            while len(turn) < TURN and sum(turn) < TURN_MILLISECONDS:
                turn.append(_once(runs[name]))
            times[name] += turn
    return {name: statistics.median(samples) for name, samples in times.items()}


def _once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def _extra_megabytes(run: Callable[[], object]) -> float | None:
    """How far one run lifts the resident memory above what was there before; Linux only."""
    if sys.platform != "linux":
        return None
    run()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        return None
    run()
    return max(0.0, _status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) if match else 0


def _processor() -> str:
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match[1] if match else platform.processor()


def _affinity() -> Sequence[int]:
    import os

    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}" if value < 100 else f"{value:.0f}"
