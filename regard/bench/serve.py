"""``regard bench serve``: the gain from answering the questions of many clients in one batch.

Two servers of the shipped translator, alike but that one answers a sentence at a time; 32 clients ask each in turn,
every one its next sentence as soon as it has its answer. The servers are processes of their own, started as a user
would.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.bench.measure import machine, machine_line

MODEL = "translate-en-es"
CLIENTS = 32
TARGET = 3.0
SENTENCES = (
    "I love coffee.",
    "Where is the station?",
    "She didn't tell me where she was going.",
    "The red house is near the river.",
    "We have to finish this before tomorrow morning.",
    "He bought his daughter a new bicycle.",
    "What time does the next train to the city leave?",
    "It was raining so hard that we decided to stay at home.",
)


@dataclass(frozen=True)
class Row:
    """How a server did: medians over rounds."""

    server: str
    clients: int
    sentences_per_second: float
    p50_milliseconds: float
    p95_milliseconds: float


@dataclass(frozen=True)
class Round:
    """The answers of one server within some seconds."""

    rate: float
    """Answers a second, of those that came before the end."""
    times: list[float]
    """Seconds that each answer took, also the last ones."""


def run(json_file: Path | None = None, quick: bool = False, only: str = "", model: str = MODEL) -> list[Row]:
    """Measure the servers whose name holds ``only``, print the table, and write it as JSON if asked."""
    servers = {name: batch for name, batch in {"one at a time": 1, "together": 32}.items() if only in name}
    if not servers:
        raise ValueError(f"no row of this benchmark has {only!r} in its name")
    facts = machine()
    print(f"{machine_line(facts)}; {model}\n")
    measured: dict[tuple[str, int], list[Round]] = {(name, n): [] for n in (1, CLIENTS) for name in servers}
    seconds, rounds = (2.0, 1) if quick else (10.0, 3)
    with ExitStack() as stack:
        ports = {name: stack.enter_context(_server(model, batch)) for name, batch in servers.items()}
        for port in ports.values():
            asyncio.run(_clients(port, model, CLIENTS, 1.0))
        for _ in range(rounds):
            for (name, clients), measurements in measured.items():
                measurements.append(asyncio.run(_clients(ports[name], model, clients, seconds)))
    rows = [_row(name, clients, measurements) for (name, clients), measurements in measured.items()]
    print("| server | clients | sentences/s | p50 ms | p95 ms |\n|---|---|---|---|---|")
    for row in rows:
        latency = f"{row.p50_milliseconds:,.0f} | {row.p95_milliseconds:,.0f}"
        print(f"| {row.server} | {row.clients} | {row.sentences_per_second:,.1f} | {latency} |")
    speed = {row.server: row.sentences_per_second for row in rows if row.clients == CLIENTS}
    if len(speed) == 2:
        ratio = speed["together"] / speed["one at a time"]
        print(f"\nTogether is {ratio:.1f}× one at a time for {CLIENTS} clients; at least {TARGET:g}× is the aim.")
    if json_file is not None:
        json_file.write_text(json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return rows


def _row(name: str, clients: int, rounds: list[Round]) -> Row:
    def median(part: float) -> float:
        return statistics.median(1000 * round_.times[int(part * (len(round_.times) - 1))] for round_ in rounds)

    return Row(name, clients, statistics.median(round_.rate for round_ in rounds), median(0.5), median(0.95))


@contextmanager
def _server(model: str, batch: int) -> Iterator[int]:
    """``regard serve`` in a process of its own; yields its port."""
    options = ["--port", "0", "--batch", str(batch), "--queue", "1000", "--timeout", "600"]
    command = [sys.executable, "-m", "regard.cli", "serve", model, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} did not start")
        yield int(line.rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(60)


async def _clients(port: int, model: str, clients: int, seconds: float) -> Round:
    """Each of N clients asks one question after another for some seconds."""
    end = time.perf_counter() + seconds
    per_client = await asyncio.gather(*(_client(port, Path(model).name, number, end) for number in range(clients)))
    answers = [answer for client_answers in per_client for answer in client_answers]
    return Round(sum(arrival <= end for arrival, _ in answers) / seconds, sorted(took for _, took in answers))


async def _client(port: int, name: str, number: int, end: float) -> list[tuple[float, float]]:
    """When each answer came (:func:`time.perf_counter`), and the seconds that it took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[tuple[float, float]] = []
    try:
        while (began := time.perf_counter()) < end:
            text = SENTENCES[(number + len(times)) % len(SENTENCES)]
            body = json.dumps({"text": text, "pictures": False}).encode()
            head = f"POST /api/models/{name}/answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(answer.partition("content-length:")[2].split()[0]))
            if " 200 " not in answer.partition("\r\n")[0]:
                raise RuntimeError(f"the server answered {answer.partition(chr(13))[0]}")
            now = time.perf_counter()
            times.append((now, now - began))
    finally:
        writer.close()
    return times
