"""``make test-versions``: the contracts on the oldest torch that pyproject.toml allows, and on the newest.

    python tools/versions.py                          # floor and newest
    python tools/versions.py --torch 2.9 --torch 2.11 # these instead
    python tools/versions.py --python python3.14 -n 2 # the newest torch on this Python; the rest goes to pytest

Each version has an environment of its own, .versions/NAME, which is made once. The floor runs on the oldest Python that
is found and allowed, the newest torch on the newest Python for which it has a build. The table at the end is that of
docs/versions.md. TORCH_INDEX= is as for the Makefile: a URL, or ``default`` for pip's own index.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TESTS = ("tests/contracts", "tests/exports", "tests/kernels", "tests/test_edges.py", "tests/test_skipping.py")
TOPICS: dict[str, Callable[[str, str], bool]] = {
    "masked NaN": lambda file, test: file.endswith("test_masked") or "masked_does_not_matter" in test,
    "compile": lambda file, test: "compile" in test,
    "export": lambda file, test: "export" in test or ".exports." in file,
    "determinism": lambda file, test: "determinism" in test or "same_bits" in test,
    "training": lambda file, test: file.endswith(("test_every_recipe", "test_every_task", "test_systems")),
    "all else": lambda file, test: True,
}
"""A test belongs to the first topic that claims it, given its module and its name."""


class Failed(Exception):
    """An environment could not be made; the message says why."""


@dataclass(frozen=True)
class Version:
    """One environment: its folder's name, what pip is asked for, and the Pythons to try in order."""

    name: str
    torch: str
    pythons: tuple[str, ...]


@dataclass
class Count:
    """Tests of a topic."""

    passed: int = 0
    skipped: int = 0
    failed: int = 0

    def __str__(self) -> str:
        if self.failed:
            return f"**{self.failed} of {self.passed + self.failed} fail**"
        return "yes" + (f", {self.skipped} skipped" if self.skipped else "") if self.passed else "–"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make environments, run, print the table; 1 if anything failed."""
    parser = argparse.ArgumentParser(description="The contracts on other versions of torch and Python.")
    parser.add_argument("--torch", action="append", metavar="VERSION", help="instead of floor and newest; may repeat")
    parser.add_argument("--python", metavar="PROGRAM", help="instead of those that are found")
    parser.add_argument("--home", type=Path, default=ROOT / ".versions", help="where the environments are")
    options, for_pytest = parser.parse_known_args(arguments)
    pythons = [options.python] if options.python else find_pythons()
    if not pythons:
        print(f"no Python ≥ {'.'.join(map(str, oldest_python()))} was found; name one with --python", file=sys.stderr)
        return 1
    rows, status = [], 0
    for version in versions(options.torch, pythons):
        try:
            python = make(version, options.home)
        except Failed as error:
            print(f"{version.name}: {error}", file=sys.stderr)
            status = 1
            continue
        description, counts, failures = run(python, for_pytest)
        rows.append((description, counts))
        for failure in failures:
            print(f"{version.name}: {failure}", file=sys.stderr)
        status = status or int(bool(failures) or not counts)
    print(table(rows))
    return status


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def floor() -> str:
    """The oldest torch that pyproject.toml allows."""
    (requirement,) = [dependency for dependency in _project()["dependencies"] if dependency.startswith("torch>=")]
    return requirement.removeprefix("torch>=")


def oldest_python() -> tuple[int, int]:
    """The oldest Python that pyproject.toml allows."""
    major, minor = _project()["requires-python"].removeprefix(">=").split(".")
    return int(major), int(minor)


def versions(wanted: Iterable[str] | None, pythons: Sequence[str]) -> list[Version]:
    """What to test, given the Pythons, newest first."""
    if wanted is not None:
        return [Version(f"torch-{number}", f"torch=={_prefix(number)}", tuple(reversed(pythons))) for number in wanted]
    oldest = f"torch=={_prefix(floor())}"
    return [Version("floor", oldest, tuple(reversed(pythons))), Version("newest", "torch", tuple(pythons))]


def _prefix(version: str) -> str:
    return version if version.count(".") > 1 else f"{version}.*"


def find_pythons() -> list[str]:
    """Programs that run and can make environments, newest version first: on PATH, and pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    names = ["python3", *(f"python3.{minor}" for minor in range(oldest_python()[1], 21))]
    programs = [path for name in names if (path := shutil.which(name))]
    programs += [str(path) for path in sorted(root.glob("versions/*/bin/python"))]
    pythons: dict[tuple[int, ...], str] = {}
    for program in programs:
        version = _version(program)
        if version is not None and version[:2] >= oldest_python():
            pythons.setdefault(version[:2], program)
    return [pythons[version] for version in sorted(pythons, reverse=True)]


def _version(program: str) -> tuple[int, ...] | None:
    """(3, 12, 1); None if it does not run, or cannot make environments. Final versions only."""
    code = "import ensurepip, venv, sys; v = sys.version_info; print(*v[:3], v[3])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    *numbers, level = done.stdout.split() or ["none"]
    return tuple(int(number) for number in numbers) if done.returncode == 0 and level == "final" else None


def index() -> list[str]:
    """pip's option for where torch comes from."""
    chosen = os.environ.get("TORCH_INDEX", "")
    if chosen:
        return [] if chosen == "default" else ["--index-url", chosen]
    if sys.platform != "linux":
        return []
    try:
        urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=8).close()
    except OSError:
        print(f"{CPU_INDEX} does not answer from here; torch comes from pip's own index, with CUDA", file=sys.stderr)
        return []
    return ["--index-url", CPU_INDEX]


def make(version: Version, home: Path) -> Path:
    """The Python of the environment, with torch and all that the tests need."""
    reasons = []
    for program in version.pythons:
        folder = home / version.name
        python = folder / "bin" / "python"
        needed = _version(program)
        if not (folder / ".ready").exists() or _version(str(python)) != needed:
            print(f"{version.name}: a new environment in {folder}, Python {'.'.join(map(str, needed or ()))}")
            subprocess.run([program, "-m", "venv", "--clear", str(folder)], check=True)
        try:
            _install(python, [*index(), "--upgrade", version.torch])
            torch = _ask(python, "import importlib.metadata as m; print(m.version('torch'))").split("+")[0]
            constraints = folder / "constraints.txt"
            constraints.write_text(f"torch=={torch}\n")
            _install(python, ["-c", str(constraints), "--editable", f"{ROOT}[dev]"])
        except Failed as error:  # perhaps there is no build for this Python
            reasons.append(f"{program}: {error}")
            continue
        (folder / ".ready").touch()
        return python
    raise Failed("; ".join(reasons))


def _install(python: Path, arguments: Sequence[str]) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Failed(f"pip install {arguments[-1]}: {' '.join(errors[-1:]) or done.stderr.strip()[-300:]}")


def _ask(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def run(python: Path, pytest_args: Sequence[str] = ()) -> tuple[str, dict[str, Count], list[str]]:
    """Which versions they are, how each topic went, and what failed."""
    code = "import sys, torch; print('torch', torch.__version__.split('+')[0] + ', Python', sys.version.split()[0])"
    description = _ask(python, code)
    print(description)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [str(python), "-m", "pytest", *TESTS, "-p", "no:cacheprovider", f"--junitxml={report}", *pytest_args],
            cwd=ROOT,
        )
        if not report.exists():
            return description, {}, [f"pytest ended with {done.returncode} and no report"]
        counts, failures = read(report)
    if done.returncode > 1:
        failures.append(f"pytest ended with {done.returncode}")
    return description, counts, failures


def read(report: Path) -> tuple[dict[str, Count], list[str]]:
    """The counts of each topic, and the names of what failed, from pytest's XML."""
    counts, failures = {topic: Count() for topic in TOPICS}, []
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "")
        count = counts[next(topic for topic, claims in TOPICS.items() if claims(module, re.sub(r"\[.*", "", name)))]
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
            failures.append(f"{module}::{name}")
        elif case.find("skipped") is not None:
            count.skipped += 1
        else:
            count.passed += 1
    return counts, failures


def table(rows: Sequence[tuple[str, dict[str, Count]]]) -> str:
    """In Markdown."""
    lines = [f"| | {' | '.join(TOPICS)} |", "|---" * (len(TOPICS) + 1) + "|"]
    for description, counts in rows:
        lines.append(f"| {description} | {' | '.join(str(counts.get(topic, '–')) for topic in TOPICS)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
