"""``regard bench translate``: our translation systems by themselves.

Where the time goes; how speed changes as the work grows; a large file through ``regard predict``; and the shipped
translator in other engines and in 8-bit integers, with what that costs in quality. Other toolkits, each in an
environment of its own, are measured by ``make bench-translate`` (tools/bench_translate.py), on the systems that
:func:`transformer` and :func:`recurrent` build.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard import _heap, exports
from regard.bench.measure import aligned, exponent, machine, machine_line
from regard.data.lines import clean
from regard.decode import beam
from regard.decode.packed import packed
from regard.predictors.predictor import Predictor
from regard.systems import luong
from regard.systems import transformer as transformers

MODEL = "translate-en-es"
THREADS = 2
VOCAB = 8000
USUAL = {"batch": 64, "beam": 5, "length": 20, "vocabulary": VOCAB}
SMALL = {"batch": 4, "length": 5}
SIZES = {
    "batch": (1, 4, 16, 64, 256),
    "beam": (1, 2, 5, 10),
    "length": (10, 20, 50, 100, 200),
    "vocabulary": (4000, 8000, 16_000, 32_000, 64_000),
}
BOS, EOS = 1, 2


def transformer(vocab: int = VOCAB) -> transformers.Transformer:
    """3 + 3 layers of width 256, tied embeddings: the size that toolkits are compared at."""
    sizes: dict[str, Any] = dict(dim=256, heads=4, hidden=1024, encoder_layers=3, decoder_layers=3, norm="pre")
    return transformers.Transformer(transformers.Config(vocab, vocab, **sizes))


def recurrent(vocab: int = VOCAB) -> luong.Luong:
    """One LSTM layer of 512 a side, additive attention, input feeding."""
    choices: dict[str, Any] = dict(score="additive", local="none", dropout=0.1, label_smoothing=0.1)
    return luong.Luong(luong.Config(vocab, vocab, embedding=256, hidden=512, layers=1, **choices))


SYSTEMS: dict[str, Callable[[int], Any]] = {"Transformer": transformer, "attention RNN": recurrent}


@dataclass(frozen=True)
class Profile:
    """Where the time of the usual size goes."""

    work: str
    milliseconds: float
    products: float
    """Of these, in matrix products."""
    rate: float
    """Floating-point operations of the products in a nanosecond."""
    best: float
    """The same of a large product by itself."""
    outside: float
    """Milliseconds in no operation of PyTorch: our own kernels, and Python."""
    others: tuple[tuple[str, float], ...]
    """The operations that take most of the rest, and their milliseconds."""


@dataclass(frozen=True)
class Growth:
    """The speed of one size of the work."""

    work: str
    grows: str
    size: int
    milliseconds: float
    rate: float
    """Sentences a second in decoding, target tokens a second in training."""


@dataclass(frozen=True)
class File:
    """A file through ``regard predict``."""

    workers: int
    lines: int
    rate: float
    """Lines a second, the start of the program included."""
    megabytes_early: float | None
    """All its processes, after a tenth of the lines."""
    megabytes_late: float | None
    """The same after nine tenths."""


@dataclass(frozen=True)
class Engine:
    """The shipped translator in one engine."""

    engine: str
    search: str
    sentences: int
    rate: float
    """Sentences a second, from text to text."""
    bleu: float | None
    same: float
    """Percent of answers that are those of ours in float32 by the same search."""


def run(
    json_file: Path | None = None, quick: bool = False, only: str = "", lines: int = 100_000
) -> dict[str, list[Any]]:
    """Measure what has ``only`` in its name (profile, growth, predict, engines), print tables, and write JSON if asked.

    Args:
        quick: two sizes of each kind, once, and few sentences: to see that everything runs.
        lines: of the file for ``regard predict``.
    """
    parts: dict[str, Callable[[], list[Any]]] = {
        f"profile: {work} {system}": partial(_profile, work, system, quick) for system in SYSTEMS for work in STEPS
    }
    parts |= {
        f"growth: {work} {system}, {grows}": partial(_growth, work, system, grows, quick)
        for system in SYSTEMS
        for work in STEPS
        for grows in SIZES
        if (work, grows) != ("train", "beam")
    }
    parts |= {f"predict: {n} worker{'s' * (n > 1)}": partial(_predict, 40 if quick else lines, n) for n in (1, 2)}
    parts["engines"] = partial(_engines, 8 if quick else 500, 1 if quick else 3)
    chosen = {name: part for name, part in parts.items() if only in name}
    if not chosen:
        raise ValueError(f"no part of this benchmark has {only!r} in its name: {'; '.join(parts)}")
    facts = machine()
    print(f"{machine_line(facts)}; {THREADS} threads\n")
    _heap.keep()  # as `regard train` and `regard predict` do
    measured: dict[str, list[Any]] = {}
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        for name, part in chosen.items():
            print(f"  {name}", file=sys.stderr)
            measured.setdefault(name.partition(":")[0], []).extend(part())
    finally:
        torch.set_num_threads(before)
    for name, rows in measured.items():
        print(f"{TABLES[name](rows)}\n")
    if json_file is not None:
        written = {name: [asdict(row) for row in rows] for name, rows in measured.items()}
        json_file.write_text(json.dumps({"machine": facts, **written}, indent=1) + "\n")
    return measured


def _profile(work: str, system: str, quick: bool) -> list[Profile]:
    """Time of PyTorch's matrix products by its profiler, their operations by its counter."""
    sizes = {**USUAL, **(SMALL if quick else {})}
    torch.manual_seed(0)
    step = STEPS[work](SYSTEMS[system](VOCAB), sizes)
    milliseconds = 1e3 * _median(step, 0.0 if quick else 3.0)
    steps = 1 if quick else 5
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its profiler says on stderr that it starts and stops
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as watched:
        for _ in range(steps):
            step()
    spent = {event.key: event.self_cpu_time_total / 1e3 / steps for event in watched.key_averages()}
    with FlopCounterMode(display=False, custom_mapping=_UNCOUNTED) as counter:
        step()
    products = sum(spent.pop(name, 0.0) for name in PRODUCTS)
    slowest = sorted(spent.items(), key=lambda item: -item[1])[:3]
    outside = max(milliseconds - products - sum(spent.values()), 0.0)
    rate = counter.get_total_flops() / products / 1e6
    return [Profile(f"{work} {system}", milliseconds, products, rate, _best_rate(), outside, tuple(slowest))]


PRODUCTS = (
    "aten::addmm",
    "aten::addmm_",
    "aten::bmm",
    "aten::baddbmm",
    "aten::mm",
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward",
    "mkldnn::_linear_pointwise",
)


def _linear_flops(x: Any, weight: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    return 2 * math.prod(x) * out_shape[-1]


def _recurrent_flops(x: Any, input_weight: Any, hidden_weight: Any, *_: Any, **__: Any) -> int:
    """An LSTM's layer over (T, N, D); twice that for its gradients, which get the same first arguments."""
    return 2 * math.prod(x[:-1]) * (math.prod(input_weight) + math.prod(hidden_weight))


_UNCOUNTED = {
    torch.ops.mkldnn._linear_pointwise: _linear_flops,
    torch.ops.aten.mkldnn_rnn_layer: _recurrent_flops,
    torch.ops.aten.mkldnn_rnn_layer_backward: lambda *a, **k: 2 * _recurrent_flops(*a, **k),
}


def _best_rate(width: int = 2048) -> float:
    """Operations in a nanosecond of a product that is large and square; the fastest of several."""
    a, b = torch.ones(width, width), torch.ones(width, width)
    return 2 * width**3 / min(_times(partial(torch.mm, a, b), 1.0)) / 1e9


def _growth(work: str, system: str, grows: str, quick: bool) -> list[Growth]:
    rows = []
    for size in SIZES[grows][: 2 if quick else None]:
        sizes = {**USUAL, **(SMALL if quick else {}), grows: size}
        torch.manual_seed(0)
        step = STEPS[work](SYSTEMS[system](sizes["vocabulary"]), sizes)
        seconds = _median(step, 0.0 if quick else 3.0)
        units = sizes["batch"] * (1 if work == "decode" else sizes["length"])
        rows.append(Growth(f"{work} {system}", grows, size, 1e3 * seconds, units / seconds))
    return rows


def _decoding(model: Any, sizes: dict[str, int]) -> Callable[[], Any]:
    """Sources and hypotheses have the same length; no token is −1, so that no hypothesis ends before it."""
    batch = _sources(sizes)
    options: dict[str, Any] = {"size": sizes["beam"], "max_length": sizes["length"], "eos": -1, "alignments": False}
    return torch.inference_mode()(partial(beam, packed(model.eval()), batch, **options))


def _training(model: Any, sizes: dict[str, int]) -> Callable[[], None]:
    """Forward, backward, Adam."""
    batch = _sources(sizes)
    target = torch.randint(4, sizes["vocabulary"], (sizes["batch"], sizes["length"] + 1))
    batch |= {"target": target, "target_lengths": batch["source_lengths"]}
    adam = torch.optim.Adam(model.train().parameters(), fused=True)

    def step() -> None:
        model(batch)["loss"].backward()
        adam.step()
        adam.zero_grad()

    return step


STEPS: dict[str, Callable[[Any, dict[str, int]], Callable[[], Any]]] = {"decode": _decoding, "train": _training}


def _sources(sizes: dict[str, int]) -> dict[str, Tensor]:
    source = torch.randint(4, sizes["vocabulary"], (sizes["batch"], sizes["length"]))
    return {"source": source, "source_lengths": torch.full((sizes["batch"],), sizes["length"])}


def _median(step: Callable[[], Any], least: float) -> float:
    """Seconds of a step."""
    return statistics.median(_times(step, least))


def _times(step: Callable[[], Any], least: float) -> list[float]:
    """Seconds of each step, until they sum to ``least``; a first step warms up and does not count."""
    step()
    times: list[float] = []
    while not times or sum(times) < least:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times


def sentences(count: int) -> list[str]:
    """Made-up English of the kind that the shipped translator knows, always the same."""
    draw = random.Random(0)
    subjects = ("I", "We", "They", "My brother", "The old woman", "Our teacher", "Nobody", "The man at the door")
    verbs = ("saw", "bought", "forgot", "wanted", "could not find", "asked about", "lost")
    objects = ("the red car", "a book", "the keys to the house", "her letter", "some bread", "the answer", "a dog")
    times = ("yesterday", "last night", "before it was dark", "two weeks ago", "on the way to school", "again", "")
    drawn = (" ".join(filter(None, map(draw.choice, (subjects, verbs, objects, times)))) for _ in range(count))
    return [f"{sentence}." for sentence in drawn]


def _predict(lines: int, workers: int) -> list[File]:
    """``regard predict`` as a user starts it; memory is that of the program and of its workers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.txt"
        file.write_text("\n".join(sentences(lines)) + "\n")
        command = [sys.executable, "-m", "regard.cli", "predict", MODEL, str(file), "--workers", str(workers)]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            memory: dict[int, float | None] = dict.fromkeys((max(1, lines // 10), max(1, 9 * lines // 10)))
            answers = 0
            for _ in process.stdout:
                answers += 1
                if answers in memory:
                    memory[answers] = _megabytes(process.pid)
        seconds = time.perf_counter() - began
    if process.returncode or answers != lines:
        raise RuntimeError(f"{' '.join(command)} answered {answers} of {lines} lines (exit {process.returncode})")
    early, late = min(memory), max(memory)
    return [File(workers, lines, lines / seconds, memory[early], memory[late])]


def _megabytes(process: int) -> float | None:
    """Resident memory of a process and its children; Linux only."""
    try:
        match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return None
    own = int(match[1]) / 1024 if match else 0.0
    return own + sum(_megabytes(int(child)) or 0.0 for child in children)


Answer = Callable[[Sequence[str]], list[str]]


def _engines(count: int, rounds: int) -> list[Engine]:
    """The same sentences through each engine, in turns; BLEU where the data of the model's test is at hand."""
    ours = Predictor.open(MODEL)
    try:
        pairs = ours.task.pairs("test")
        inputs, references = pairs.source[:count], pairs.target[:count]
    except ValueError as error:
        print(f"  no BLEU: {error}", file=sys.stderr)
        inputs, references = sentences(count), None
    with tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(ours, Path(folder))
        times: dict[tuple[str, str], list[float]] = {name: [] for name in contenders}
        answers: dict[tuple[str, str], list[str]] = {}
        for answer in contenders.values():
            answer(inputs[:8])
        for _, (name, answer) in itertools.product(range(rounds), contenders.items()):
            began = time.perf_counter()
            answers[name] = answer(inputs)
            times[name].append(time.perf_counter() - began)
    rows = []
    for (engine, search), outputs in answers.items():
        rate = len(inputs) / statistics.median(times[engine, search])
        bleu = None if references is None else ours.task.compare(outputs, references)["bleu"]
        same = sum(a == b for a, b in zip(outputs, answers["ours", search], strict=True)) / len(inputs)
        rows.append(Engine(engine, search, len(inputs), rate, bleu, 100 * same))
    return rows


def _contenders(ours: Any, folder: Path) -> dict[tuple[str, str], Answer]:
    """(engine, search) → from sentences to sentences. An engine that is not installed is left out, and said so."""
    search = f"beam {ours.config.size}"
    greedy = type(ours)(ours.model, ours.task, ours.recipe.change(["decode.method=greedy"]), ours.name)
    engines: dict[tuple[str, str], Answer] = {
        ("ours", search): partial(_ours, ours),
        ("ours", "greedy"): partial(_ours, greedy),
        ("ours, int8", search): partial(_ours, Predictor.open(MODEL).int8()),
    }
    makers: dict[tuple[str, str], Callable[[], Answer]] = {
        ("ctranslate2", search): partial(_ctranslate2, ours, folder / "float32", None),
        ("ctranslate2, int8", search): partial(_ctranslate2, ours, folder / "int8", "int8"),
        ("onnxruntime", "greedy"): partial(_onnxruntime, ours, folder / "onnx"),
    }
    for name, maker in makers.items():
        try:
            engines[name] = maker()
        except (ImportError, ValueError) as error:
            print(f"  {name[0]} is left out: {error}", file=sys.stderr)
    return engines


def _ours(trained: Any, inputs: Sequence[str]) -> list[str]:
    return [best.text for best, *_ in trained.predict(inputs, alignments=False)]


def _ctranslate2(trained: Any, folder: Path, quantization: str | None) -> Answer:
    import ctranslate2  # type: ignore[import-untyped]

    exports.write(trained, "ctranslate2", folder, quantization=quantization)
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=THREADS)
    source, target, config = trained.task.source.backend, trained.task.target, trained.config
    options = {"beam_size": config.size, "length_penalty": config.length_penalty}
    options |= {"max_batch_size": trained.task.config.batch_tokens, "batch_type": "tokens"}

    def answer(inputs: Sequence[str]) -> list[str]:
        tokens = [
            item.tokens for item in source.encode_batch([clean(text) for text in inputs], add_special_tokens=False)
        ]
        translations = translator.translate_batch(tokens, **options)
        return [target.decode(map(target.backend.token_to_id, item.hypotheses[0])) for item in translations]

    return answer


def _onnxruntime(trained: Any, folder: Path) -> Answer:
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]

    exports.write(trained, "onnx", folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    start, step = (
        onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
        for name in ("start", "step")
    )
    task, config = trained.task, trained.config

    def answer(inputs: Sequence[str]) -> list[str]:
        texts = [""] * len(inputs)
        for rows, batch in task.batches(inputs):
            state = start.run(None, {name: tensor.numpy() for name, tensor in batch.items()})
            token, ended, written = np.full(len(rows), BOS), np.zeros(len(rows), bool), []
            for _ in range(int(batch["source_lengths"].max() * config.ratio) + config.extra):
                state_feed = {f"state_{number}": tensor for number, tensor in enumerate(state)}
                log_probs, _, *state = step.run(None, {"token": token, **state_feed})
                token = log_probs.argmax(-1)
                written.append(token)
                ended |= token == EOS
                if ended.all():
                    break
            for row, ids in zip(rows, np.stack(written, 1).tolist(), strict=True):
                texts[row] = task.target.decode(itertools.takewhile(lambda number: number != EOS, ids))
        return texts

    return answer


def _profile_table(rows: Sequence[Profile]) -> str:
    products = ["in matrix products", "% of the time", "GFLOP/s there", "at best"]
    head = ["work", "ms", *products, "in no operation of PyTorch", "what else takes most"]
    body = [
        [
            row.work,
            f"{row.milliseconds:,.0f}",
            f"{row.products:,.0f}",
            f"{100 * row.products / row.milliseconds:.0f}",
            f"{row.rate:,.0f}",
            f"{row.best:,.0f}",
            f"{row.outside:,.0f}",
            ", ".join(f"{name} {spent:,.1f}" for name, spent in row.others),
        ]
        for row in rows
    ]
    return aligned(head, body)


def _growth_table(rows: Sequence[Growth]) -> str:
    body = [[row.work, row.grows, f"{row.size:,}", f"{row.milliseconds:,.1f}", f"{row.rate:,.1f}"] for row in rows]
    return "\n".join([aligned(["work", "what grows", "to", "ms", "sentences/s or tokens/s"], body), "", *slopes(rows)])


def slopes(rows: Sequence[Growth]) -> Iterator[str]:
    """How time grows with each size, from the least to the greatest."""
    for (work, grows), group in itertools.groupby(rows, lambda row: (row.work, row.grows)):
        times = [(float(row.size), row.milliseconds) for row in group]
        yield f"- {work}: time ∝ {grows}^{exponent(times):.2f}, {times[0][0]:,.0f} to {times[-1][0]:,.0f}"


def _file_table(rows: Sequence[File]) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}"

    body = [
        [str(r.workers), f"{r.lines:,}", f"{r.rate:,.1f}", number(r.megabytes_early), number(r.megabytes_late)]
        for r in rows
    ]
    return aligned(["workers", "lines", "lines/s", "MB after a tenth", "MB after nine tenths"], body)


def _engine_table(rows: Sequence[Engine]) -> str:
    body = [
        [row.engine, row.search, f"{row.rate:,.1f}", "" if row.bleu is None else f"{row.bleu:.2f}", f"{row.same:.1f}"]
        for row in rows
    ]
    head = ["engine", "search", "sentences/s", f"BLEU of {rows[0].sentences} sentences", "% the same as ours"]
    return aligned(head, body)


TABLES: dict[str, Callable[[list[Any]], str]] = {
    "profile": _profile_table,
    "growth": _growth_table,
    "predict": _file_table,
    "engines": _engine_table,
}
