"""What the scripts of this folder share: the job, the text, the clock, and the line of JSON at the end.

Each script measures one contender at one kind of work, in a process and an environment of its own, so this needs only
the standard library. The text is the same for all of them: sentences of numbers, each a token of one vocabulary.
"""

from __future__ import annotations

import itertools
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WARMUP = 3  # steps of training before the clock starts; in decoding one batch


@dataclass(frozen=True)
class Job:
    """What to measure; the driver gives it as JSON, the only argument of a script.

    Attributes:
        work: train-transformer, train-rnn, decode-transformer or decode-rnn.
        text: folder with {train,valid,decode}.{src,tgt}, vocab.txt (all tokens but the four special ones) and our task.
        scratch: an empty folder for what a toolkit wants to write.
        tokens: of a training batch; each toolkit counts as it always does.
        seconds: the least length of the window.
        batch, beam, length: sentences that are decoded together, hypotheses of each, tokens of each hypothesis.
    """

    work: str
    text: str
    scratch: str
    threads: int = 2
    tokens: int = 4096
    seconds: float = 30.0
    batch: int = 64
    beam: int = 5
    length: int = 20

    @staticmethod
    def from_arguments() -> Job:
        """From the command line."""
        return Job(**json.loads(sys.argv[1]))

    @property
    def trains(self) -> bool:
        return self.work.startswith("train")

    @property
    def recurrent(self) -> bool:
        return self.work.endswith("rnn")

    @property
    def vocab(self) -> int:
        """Entries of the vocabulary."""
        return 4 + len(self.lines("vocab.txt"))

    def file(self, name: str) -> str:
        """The path of a file of the text."""
        return str(Path(self.text) / name)

    def lines(self, name: str) -> list[str]:
        """The sentences of a file."""
        return Path(self.file(name)).read_text().splitlines()

    def ids(self, name: str) -> list[list[int]]:
        """The same as numbers."""
        return [[int(token) for token in line.split()] for line in self.lines(name)]


class Over(Exception):
    """The window has passed."""


class Window:
    """The clock. :meth:`step` is called when a step begins; the time between two of them has all that is done for a
    step, the making of its batch too. Steps of the warm-up are not counted.
    """

    def __init__(self, seconds: float, warmup: int, whole: int = 1):
        self.least, self.warmup, self.whole = seconds, warmup, whole
        self.steps, self.units, self.began, self.seconds = -warmup, 0, 0.0, 0.0
        self.parameters = 0  # whoever builds the model sets this

    def step(self, units: int) -> None:
        """A step of so many tokens or sentences begins; :class:`Over` if enough were counted before it: the seconds
        are over, and the steps are a multiple of ``whole``."""
        now = time.perf_counter()
        if self.steps == 0:
            self.began, self.units = now, 0
        self.seconds = now - self.began
        if self.steps > 0 and self.seconds >= self.least and self.steps % self.whole == 0:
            raise Over
        self.steps += 1
        self.units += units


def train(job: Job, loop: Callable[[Window], Any]) -> None:
    """Time a training loop that calls ``window.step(real target tokens)`` before each step."""
    window = Window(job.seconds, WARMUP)
    try:
        loop(window)
    except Over:
        tell(window)
    else:
        raise RuntimeError("the training ended before the window did")


def decode(job: Job, batches: Sequence[Any], search: Callable[[Any], Iterable[int]], parameters: int) -> None:
    """Time ``search(batch)``, which gives the length of the best hypothesis of each sentence, over whole passes."""
    window = Window(job.seconds, 1, len(batches))
    window.parameters = parameters
    try:
        for batch in itertools.cycle(batches):
            window.step(job.batch)
            lengths = list(search(batch))
            if lengths != [job.length] * job.batch:
                raise RuntimeError(f"{job.batch} hypotheses of {job.length} tokens were asked for, not {lengths}")
    except Over:
        tell(window)


def tell(window: Window) -> None:
    """The one line that the driver reads."""
    report = {"rate": window.units / window.seconds, "units": window.units, "steps": window.steps}
    report |= {"seconds": window.seconds, "megabytes": peak_megabytes(), "parameters": window.parameters}
    print(json.dumps(report), flush=True)


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    try:
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        match = None
    if match:
        return int(match[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)


def size(model: Any) -> int:
    """Parameters of a PyTorch model, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
