"""``make bench-translate``: our translation systems and other toolkits, the same work in one run.

    python tools/bench_translate.py --rounds 3 --json found.json
    python tools/bench_translate.py --work decode-transformer --only ctranslate2

All train on the Multi30k text (English to German) of ``$REGARD_DATA``, in the same tokens: one byte-level BPE of 8,000
entries for both languages, written as numbers. The sizes are a Transformer of width 256 with 3 + 3 layers, 1,024 inner
units, 4 heads and tied embeddings, and an LSTM that reads with 2 × 256 units and writes with 512, additive attention
and input feeding; what differs between toolkits stands in the scripts of tools/peers, as is what is timed.

- train: real target tokens a second, padding not counted, after a warm-up; each toolkit makes its batches as it always
  does, at the same nominal number of tokens. Memory is the high-water mark of the process.
- decode: sentences a second by a beam of 5, 64 sentences at a time, hypotheses forced to 20 tokens.

Each measurement is a process of its own. Rounds are interleaved (ours, peer, peer, …, ours, …) and medians compared.
A toolkit's environment, .peers/NAME, is made once; it sees the packages of ours, so that torch is there only once. A
toolkit that cannot be set up or run is reported and does not end the run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.bench.measure import aligned, machine, machine_line

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".peers"
OURS = "ours"


@dataclass(frozen=True)
class Work:
    """A row of the table."""

    name: str
    unit: str
    factor: float
    """How many times the best peer ours should reach."""


WORKS = {
    "train-transformer": Work("train Transformer", "tokens/s", 1.25),
    "train-rnn": Work("train attention RNN", "tokens/s", 2.0),
    "decode-transformer": Work("decode Transformer", "sentences/s", 1.0),
    "decode-rnn": Work("decode attention RNN", "sentences/s", 3.0),
}


@dataclass(frozen=True)
class Contender:
    """Ours or a peer.

    Attributes:
        script: what measures it, in tools/peers.
        works: what it can do.
        package: whose version is reported; None for ours.
        needs: what pip installs into an environment of its own; none needs only ours.
        bare: install these without what they ask for.
    """

    name: str
    script: Path
    works: tuple[str, ...]
    package: str | None = None
    needs: tuple[str, ...] = ()
    bare: bool = False


def _script(name: str) -> Path:
    return ROOT / "tools" / "peers" / name


ALL = tuple(WORKS)
CONTENDERS = (
    Contender(OURS, _script("ours.py"), ALL),
    Contender(
        "joeynmt",
        _script("joey.py"),
        ALL,
        "joeynmt",
        ("joeynmt==2.3.0", "sentencepiece==0.2.0", "importlib_metadata"),
    ),
    # It asks for an old torch and for packages that only its other transforms of text use.
    Contender(
        "opennmt-py",
        _script("opennmt.py"),
        ALL,
        "OpenNMT-py",
        ("OpenNMT-py==3.5.1", "pyonmttok<2", "configargparse", "rapidfuzz", "regex", "pyahocorasick", "six", "pyyaml"),
        bare=True,
    ),
    Contender("nn.Transformer", _script("plain.py"), ("train-transformer",), "torch"),
    Contender(
        "transformers", _script("huggingface.py"), ("decode-transformer",), "transformers", ("transformers==5.22.2",)
    ),
    Contender("ctranslate2", _script("engine.py"), ("decode-transformer",), "ctranslate2", ("ctranslate2==4.8.4",)),
)


class Failed(Exception):
    """A contender could not be set up or measured; the message says why."""


@dataclass
class Results:
    """What was measured: work → contender → its rounds; and contender → why it has none."""

    rounds: dict[str, dict[str, list[dict[str, float]]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, work: str, name: str, quantity: str = "rate") -> float | None:
        """Over rounds."""
        rounds = self.rounds.get(work, {}).get(name, [])
        return statistics.median(round_[quantity] for round_ in rounds) if rounds else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, measure, print, write."""
    parser = argparse.ArgumentParser(description="Our translation systems and other toolkits, measured in one run.")
    names = [contender.name for contender in CONTENDERS if contender.name != OURS]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0, help="least length of a window")
    parser.add_argument("--tokens", type=int, default=4096, help="of a training batch")
    parser.add_argument("--only", action="append", choices=[OURS, *names], help="only ours and this peer; may repeat")
    parser.add_argument("--work", action="append", choices=ALL, help="only this row; may repeat")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rounds here")
    parser.add_argument("--anyway", action="store_true", help="also on a busy machine")
    parser.add_argument("--set-up", action="store_true", help="only make the environments")
    options = parser.parse_args(arguments)

    if not options.anyway and not options.set_up and (why := busy()):
        print(f"{why}. Speeds measured now would be wrong; --anyway measures nevertheless.", file=sys.stderr)
        return 1
    chosen = [each for each in CONTENDERS if options.only is None or each.name in (OURS, *options.only)]
    chosen_works = options.work or ALL
    results = Results()
    if options.set_up:
        set_up(chosen, results)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            prepare(Path(folder))
        except ValueError as error:
            print(f"bench_translate: {error}", file=sys.stderr)
            return 1
        pythons = set_up(chosen, results)
        facts = machine()
        facts["versions"] |= versions(chosen, pythons)
        settings = f"{options.threads} threads, {options.rounds} rounds, {options.tokens} tokens a batch"
        print(f"{machine_line(facts)}; {settings}\n", flush=True)
        sizes = {"threads": options.threads, "seconds": options.seconds, "tokens": options.tokens}
        measure(chosen, chosen_works, options.rounds, pythons, {**sizes, "text": folder}, results)
    print(table(results, chosen, chosen_works))
    for line in notes(results):
        print(line)
    if options.json is not None:
        content = {"machine": facts, "settings": sizes, **asdict(results)}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0


def busy(processes: str | None = None, load: float | None = None) -> str | None:
    """Why speeds would be wrong now: a training or tests that run, or a load of more than 0.5 a core."""
    if processes is None:
        processes = subprocess.run(["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True).stdout
    for line in processes.splitlines():
        process, state, *command = line.split()
        if int(process) != os.getpid() and not state.startswith(("T", "Z")) and _trains(command):
            return f"the machine is busy: process {process} is {' '.join(command)[:100]}"
    load = os.getloadavg()[0] if load is None else load
    share = load / (os.cpu_count() or 1)
    return f"the machine is busy: its load is {share:.1f} a core" if share > 0.5 else None


def _trains(command: list[str]) -> bool:
    """Is it ``regard train`` or pytest, whichever way it was started?"""
    words = [Path(word).name for word in command]
    while words and (words[0].startswith(("python", "-")) or words[0] == "env"):
        words.pop(0)
    plain = [word for word in words if not word.startswith("-")]
    return plain[:1] in (["pytest"], ["py.test"]) or plain[:2] in (["regard", "train"], ["regard.cli", "train"])


def set_up(chosen: Sequence[Contender], results: Results) -> dict[str, str]:
    """Make the environments that are missing; the Python of each contender."""
    pythons = {}
    for contender in chosen:
        try:
            pythons[contender.name] = environment(contender) if contender.needs else sys.executable
        except Failed as error:
            results.failures[contender.name] = f"could not be set up: {error}"
            print(f"{contender.name} could not be set up: {error}", file=sys.stderr)
    return pythons


def environment(contender: Contender) -> str:
    """The Python of a peer's environment, which is made if it is not there or was made for something else."""
    folder = HOME / contender.name
    stamp, python = folder / ".ready", folder / "bin" / "python"
    specification = json.dumps({"needs": contender.needs, "base": sys.executable, "version": sys.version})
    if stamp.exists() and stamp.read_text() == specification:
        return str(python)
    print(f"Setting up {contender.name} in {folder}: {', '.join(contender.needs)}.", file=sys.stderr)
    stamp.unlink(missing_ok=True)
    try:
        venv.create(folder, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(f"no virtual environment in {folder} ({error})") from error
    inside = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    Path(inside, "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")  # come after its own packages
    options = ["--disable-pip-version-check", "--quiet", "-c", str(ROOT / "constraints.txt")]
    options += ["--no-deps"] if contender.bare else []
    done = subprocess.run(
        [str(python), "-m", "pip", "install", *options, *contender.needs], capture_output=True, text=True
    )
    if done.returncode:
        raise Failed(_last_line(done.stderr))
    stamp.write_text(specification)
    return str(python)


def versions(chosen: Sequence[Contender], pythons: dict[str, str]) -> dict[str, str]:
    """Of the peers, each in its own environment."""
    installed = {}
    for contender in chosen:
        if contender.package in (None, "torch") or contender.name not in pythons:
            continue
        ask = f"import importlib.metadata as m; print(m.version({contender.package!r}))"
        done = subprocess.run([pythons[contender.name], "-c", ask], capture_output=True, text=True)
        installed[contender.name] = done.stdout.strip() or "unknown"
    return installed


def prepare(folder: Path, sentences: int = 128) -> None:
    """Write the text of the benchmark, tokens as numbers; see ``Job`` in tools/peers/common.py."""
    from regard.tasks.translation import Config, Translation

    task = Translation(Config(data="multi30k", src="en", tgt="de", vocab=8000))
    task.save(folder / "task")
    (folder / "vocab.txt").write_text("".join(f"{number}\n" for number in range(4, len(task.source))))
    for name, split in (("train", "train"), ("valid", "valid"), ("decode", "test")):
        pairs = task.pairs(split)
        encoded_pairs = [
            (source.tolist(), target.tolist())
            for source, target in zip(
                _each(task.source.encode_all(pairs.source)), _each(task.target.encode_all(pairs.target)), strict=True
            )
        ]
        if name == "decode":  # batches of like length
            encoded_pairs = sorted(encoded_pairs[:sentences], key=lambda pair: len(pair[0]))
        for number, ending in enumerate(("src", "tgt")):
            lines = (" ".join(map(str, pair[number])) + "\n" for pair in encoded_pairs)
            (folder / f"{name}.{ending}").write_text("".join(lines))


def _each(ragged: Any) -> Iterator[Any]:
    return (ragged[row] for row in range(len(ragged.lengths)))


def measure(
    chosen: Sequence[Contender],
    works: Sequence[str],
    rounds: int,
    pythons: dict[str, str],
    job: dict[str, Any],
    results: Results,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> None:
    """Contenders take turns; one that failed at some work is not tried at it again."""
    broken = set()
    for number in range(1, rounds + 1):
        for work in works:
            for contender in chosen:
                name = contender.name
                if work not in contender.works or name not in pythons or (work, name) in broken:
                    continue
                try:
                    measured = once(contender, pythons[name], {**job, "work": work})
                except Failed as error:
                    broken.add((work, name))
                    results.failures[f"{name}, {work}"] = f"did not run: {error}"
                    say(f"  round {number}: {work}, {name} did not run: {error}")
                    continue
                results.rounds.setdefault(work, {}).setdefault(name, []).append(measured)
                unit, memory = WORKS[work].unit, f"{measured['megabytes']:,.0f} MB"
                say(f"  round {number}: {work}, {name}: {measured['rate']:,.1f} {unit}, {memory}")


def once(contender: Contender, python: str, job: dict[str, Any], timeout: float = 1800.0) -> dict[str, float]:
    """One measurement in a process of its own; the last line that is JSON is the result."""
    threads = str(job["threads"])
    variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as scratch:
        command = [python, str(contender.script), json.dumps({**job, "scratch": scratch})]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=scratch, env={**os.environ, **variables}, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {timeout:,.0f} seconds") from None
    if done.returncode:
        raise Failed(_last_line(done.stderr))
    for line in reversed(done.stdout.splitlines()):
        if line.startswith('{"rate"'):
            return json.loads(line)
    raise Failed("it printed no result")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def table(results: Results, chosen: Sequence[Contender], works: Sequence[str]) -> str:
    """A row for each work and one for the memory of each training; ratios are to the best peer."""
    peers = [contender.name for contender in chosen if contender.name != OURS]
    body = []
    for work in works:
        work_settings = WORKS[work]
        medians = {name: results.median(work, name) for name in (OURS, *peers)}
        body.append(
            _row(
                f"{work_settings.name}, {work_settings.unit}",
                medians,
                results,
                work,
                max,
                f"≥ {work_settings.factor:g}",
            )
        )
    for work in works:
        if work.startswith("train"):
            medians = {name: results.median(work, name, "megabytes") for name in (OURS, *peers)}
            body.append(_row(f"{WORKS[work].name}, peak MB", medians, results, work, min, "≤ 1"))
    return aligned(["work", OURS, *peers, "best peer", "ours ÷ best", "target"], body)


def _row(
    name: str, medians: dict[str, float | None], results: Results, work: str, best_of: Callable[..., float], target: str
) -> list[str]:
    def cell(contender: str) -> str:
        value = medians[contender]
        if value is not None:
            return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"
        if contender in results.failures:
            return "could not be set up"
        return "did not run" if f"{contender}, {work}" in results.failures else "–"

    peers = {contender: value for contender, value in medians.items() if contender != OURS and value is not None}
    ours, best = medians[OURS], best_of(peers, key=lambda contender: peers[contender]) if peers else None
    ratio = f"{ours / peers[best]:.2f}" if best is not None and ours is not None else ""
    return [name, *map(cell, medians), best or "", ratio, target]


def notes(results: Results) -> Iterator[str]:
    """What went wrong, how far rounds lay apart, and what was compared."""
    for name, why in results.failures.items():
        yield f"\n{name} {why}"
    spreads = [
        max(rates) / min(rates) - 1
        for by_contender in results.rounds.values()
        for rates in ([round_["rate"] for round_ in rounds] for rounds in by_contender.values())
    ]
    if spreads:
        yield f"\nMedians; the rounds of one measurement lie at most {100 * max(spreads):.0f} % apart."
    for work, by_contender in results.rounds.items():
        sizes = [
            f"{name} {rounds[0]['parameters'] / 1e6:.2f} M, {rounds[0]['units'] / rounds[0]['steps']:,.0f}"
            for name, rounds in by_contender.items()
        ]
        yield f"{WORKS[work].name}, parameters and {WORKS[work].unit.partition('/')[0]} a step: {'; '.join(sizes)}"


if __name__ == "__main__":
    raise SystemExit(main())
