"""The five tasks of the Neural Turing Machine, generated. Graves, Wayne & Danihelka 2014 (arXiv:1410.5401), section 4.

============  ======================================================================================================
copy          random vectors, then a delimiter; the same vectors again
repeat_copy   random vectors, then a number N; the vectors N times, then an end marker
recall        items of three vectors between delimiters, then one of them as a query; the item that came after it
ngrams        bits of a random 6-gram; at each bit the next one
sort          random vectors with priorities; those of the highest priority, in descending order
============  ======================================================================================================

A batch has ``input`` (B, T, I), ``target`` (B, T, O) of zeros and ones, and ``mask`` (B, T), 1 where an output is
expected. Meanwhile the input is silent. All sequences of a batch are equally long, so nothing is padded.
n-grams also have ``optimal`` (B,), the bits that the best possible predictor pays for the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from regard._lazy import nearest
from regard._settings import at_least
from regard.tasks.task import MEMORY, Batch, GeneratedTask

PAPER: dict[str, dict[str, Any]] = {
    "copy": {"bits": 8, "shortest": 1, "longest": 20},
    "repeat_copy": {"bits": 8, "shortest": 1, "longest": 10, "repeats": 10},
    "recall": {"bits": 6, "shortest": 2, "longest": 6, "item": 3},
    "ngrams": {"bits": 1, "shortest": 200, "longest": 200, "order": 6},
    "sort": {"bits": 8, "shortest": 20, "longest": 20, "top": 16},
}
"""The paper's sizes."""


@dataclass(frozen=True)
class Config:
    """What is generated, and how much of it. The defaults are the paper's for copying; see ``PAPER`` for the others.

    Attributes:
        what: copy, repeat_copy, recall, ngrams or sort.
        bits: the width of the vectors.
        shortest, longest: how many vectors (copy, repeat_copy, sort), items (recall) or bits (ngrams) a sequence has.
        repeats: the most copies that repeat_copy asks for.
        item: vectors of an item of recall.
        order: ngrams' next bit depends on ``order`` − 1 bits before it.
        top: vectors that sort asks for.
        batch: sequences to a batch.
        batches: batches to an epoch of training.
        measured: batches of a validation; a test has five times as many.
    """

    what: str = "copy"
    bits: int = 8
    shortest: int = 1
    longest: int = 20
    repeats: int = 10
    item: int = 3
    order: int = 6
    top: int = 16
    batch: int = 16
    batches: int = 500
    measured: int = 20

    def __post_init__(self) -> None:
        if self.what not in PAPER:
            raise ValueError(f"no task on tapes is called {self.what!r}: {nearest(self.what, PAPER)}")
        least = {"recall": 2, "ngrams": self.order}.get(self.what, 1)
        if not least <= self.shortest <= self.longest:
            raise ValueError(
                f"{self.what} needs {least} <= shortest <= longest, not shortest={self.shortest} and "
                f"longest={self.longest}"
            )
        if self.what == "sort" and self.top > self.shortest:
            raise ValueError(f"the top {self.top} of {self.shortest} vectors cannot be asked for")
        if self.what == "ngrams" and self.bits != 1:
            raise ValueError(f"ngrams are of single bits: bits=1, not {self.bits}")
        at_least(self, "bits", "repeats", "item", "order", "top", "batch", "batches", "measured")


class Tapes(GeneratedTask):
    """Tapes in, tapes out; see the module's docstring."""

    kind: ClassVar[str] = "tapes"
    family: ClassVar[str] = MEMORY
    unit: ClassVar[str] = "sequences"
    settings = Config

    @property
    def sizes(self) -> dict[str, int]:
        """The widths of input and target."""
        bits = self.config.bits
        more = {"copy": (1, 0), "repeat_copy": (2, 1), "recall": (2, 0), "ngrams": (0, 0), "sort": (2, 0)}
        inputs, outputs = more[self.config.what]
        return {"inputs": bits + inputs, "outputs": bits + outputs}

    def length(self, split: str) -> int:
        return {"train": self.config.batches, "valid": self.config.measured, "test": 5 * self.config.measured}[split]

    def make(self, split: str, random: np.random.Generator, epoch: int, number: int) -> Batch:
        """Random lengths in training; all lengths in turn where it is measured."""
        config = self.config
        lengths = config.longest - config.shortest + 1
        if split == "train":
            length, repeats = int(random.integers(lengths)), int(random.integers(config.repeats))
        else:
            length, repeats = number % lengths, number // lengths % config.repeats
        return self.draw(random, config.shortest + length, config.batch, repeats=repeats + 1)

    def draw(self, random: np.random.Generator, length: int, rows: int = 1, *, repeats: int = 1) -> Batch:
        """``rows`` sequences of ``length`` vectors, items or bits."""
        config = self.config
        if config.what == "repeat_copy":
            arrays = repeat_copy(random, rows, length, config.bits, repeats, config.repeats)
        elif config.what == "recall":
            arrays = recall(random, rows, length, config.bits, config.item)
        elif config.what == "sort":
            arrays = sort(random, rows, length, config.bits, min(config.top, length))
        elif config.what == "ngrams":
            arrays = ngrams(random, rows, length, config.order)
        else:
            arrays = copy(random, rows, length, config.bits)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def beyond(self) -> Iterator[tuple[str, Batch]]:
        """Sequences longer than any in training, by name: the paper's tests of whether an algorithm was learned."""
        random, rows = np.random.default_rng(0), 64
        if self.config.what == "copy":
            for length in (2 * self.config.longest, 6 * self.config.longest):
                yield f"at_{length}", self.draw(random, length, rows)
        elif self.config.what == "repeat_copy":
            longest, repeats = self.config.longest, self.config.repeats
            yield f"at_{2 * longest}_x_{repeats}", self.draw(random, 2 * longest, rows, repeats=repeats)
            yield f"at_{longest}_x_{2 * repeats}", self.draw(random, longest, rows, repeats=2 * repeats)
        elif self.config.what == "recall":
            for items in (self.config.longest, 2 * self.config.longest):
                yield f"at_{items}", self.draw(random, items, rows)


def copy(random: np.random.Generator, rows: int, length: int, bits: int) -> dict[str, np.ndarray]:
    """Section 4.1. Inputs: the bits, the delimiter."""
    vectors = _vectors(random, rows, length, bits)
    start = length + 1
    tape = _blank(rows, start + length, bits + 1, bits)
    tape["input"][:, :length, :bits] = vectors
    tape["input"][:, length, bits] = 1
    return _answer(tape, start, vectors)


def repeat_copy(
    random: np.random.Generator, rows: int, length: int, bits: int, repeats: int, most: int
) -> dict[str, np.ndarray]:
    """Section 4.2. Inputs: the bits, the delimiter, and with it the number of copies, which has mean 0 and variance 1
    over 1…``most``. Outputs: the bits, the end marker."""
    vectors = _vectors(random, rows, length, bits)
    start = length + 1
    tape = _blank(rows, start + length * repeats + 1, bits + 2, bits + 1)
    tape["input"][:, :length, :bits] = vectors
    tape["input"][:, length, bits] = 1
    counts = np.arange(1, most + 1)
    tape["input"][:, length, bits + 1] = (repeats - counts.mean()) / max(counts.std(), 1.0)
    answer = np.zeros((rows, length * repeats + 1, bits + 1), np.float32)
    answer[:, :-1, :bits] = np.tile(vectors, (1, repeats, 1))
    answer[:, -1, bits] = 1
    return _answer(tape, start, answer)


def recall(random: np.random.Generator, rows: int, items: int, bits: int, item: int) -> dict[str, np.ndarray]:
    """Section 4.3. Inputs: the bits, the delimiter of items, the delimiter of the query."""
    vectors = _vectors(random, rows, items * item, bits).reshape(rows, items, item, bits)
    start = (items + 1) * (item + 1) + 1
    tape = _blank(rows, start + item, bits + 2, bits)
    queried = random.integers(items - 1, size=rows)
    all_rows = np.arange(rows)
    for place in range(items):
        first = place * (item + 1)
        tape["input"][:, first, bits] = 1
        tape["input"][:, first + 1 : first + 1 + item, :bits] = vectors[:, place]
    query = items * (item + 1)
    tape["input"][:, [query, query + item + 1], bits + 1] = 1
    tape["input"][:, query + 1 : query + 1 + item, :bits] = vectors[all_rows, queried]
    return _answer(tape, start, vectors[all_rows, queried + 1])


def ngrams(random: np.random.Generator, rows: int, length: int, order: int) -> dict[str, np.ndarray]:
    """Section 4.4. A table of 2^(order−1) probabilities from Beta(½, ½) for each sequence; the first order − 1 bits are
    fair coins and not measured."""
    table = random.beta(0.5, 0.5, (rows, 2 ** (order - 1)))
    bits = np.zeros((rows, length), np.int64)
    bits[:, : order - 1] = random.integers(0, 2, (rows, order - 1))
    powers = 2 ** np.arange(order - 1)
    for t in range(order - 1, length):
        context = bits[:, t - order + 1 : t] @ powers
        bits[:, t] = random.random(rows) < table[np.arange(rows), context]
    tape = {
        "input": bits[:, :-1, None].astype(np.float32),
        "target": bits[:, 1:, None].astype(np.float32),
        "mask": np.zeros((rows, length - 1), np.float32),
        "optimal": optimal(bits, order).astype(np.float32),
    }
    tape["mask"][:, order - 2 :] = 1
    return tape


def optimal(bits: np.ndarray, order: int) -> np.ndarray:
    """(B, T) → (B,): the bits that the Bayes-optimal predictor pays, p(1 | N₁, N₀) = (N₁ + ½) / (N₁ + N₀ + 1) (eq. 10),
    N₁ and N₀ being how often a 1 and a 0 came after the same context in this sequence."""
    rows, length = bits.shape
    all_rows, powers = np.arange(rows), 2 ** np.arange(order - 1)
    tally = np.zeros((rows, 2 ** (order - 1), 2))
    cost = np.zeros(rows)
    for t in range(order - 1, length):
        context, bit = bits[:, t - order + 1 : t] @ powers, bits[:, t]
        counts = tally[all_rows, context]
        cost -= np.log2((counts[all_rows, bit] + 0.5) / (counts.sum(-1) + 1))
        tally[all_rows, context, bit] += 1
    return cost


def sort(random: np.random.Generator, rows: int, length: int, bits: int, top: int) -> dict[str, np.ndarray]:
    """Section 4.5. Inputs: the bits, the priority from −1 to 1, the delimiter."""
    vectors = _vectors(random, rows, length, bits)
    priorities = random.uniform(-1, 1, (rows, length)).astype(np.float32)
    start = length + 1
    tape = _blank(rows, start + top, bits + 2, bits)
    tape["input"][:, :length, :bits] = vectors
    tape["input"][:, :length, bits] = priorities
    tape["input"][:, length, bits + 1] = 1
    order = np.argsort(-priorities, axis=1)[:, :top]
    return _answer(tape, start, np.take_along_axis(vectors, order[:, :, None], axis=1))


def _vectors(random: np.random.Generator, rows: int, length: int, bits: int) -> np.ndarray:
    return random.integers(0, 2, (rows, length, bits)).astype(np.float32)


def _blank(rows: int, time: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    shapes = {"input": (rows, time, inputs), "target": (rows, time, outputs), "mask": (rows, time)}
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _answer(tape: dict[str, np.ndarray], start: int, answer: np.ndarray) -> dict[str, np.ndarray]:
    """The tape with ``answer`` as the target from step ``start`` on."""
    tape["target"][:, start:] = answer
    tape["mask"][:, start:] = 1
    return tape
