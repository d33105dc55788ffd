"""Batches of pairs: sentences of like length together, so that little of a batch is padding.

The order is a pure function of (seed, epoch), and a loader's state is a few numbers, so that a run that was stopped
goes on with the very next batch, also in the middle of a file that is larger than memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.lines import BadLines
from regard.data.text import Position
from regard.data.tokens import PAD, Ragged
from regard.tasks.task import Chunk, Loader

Batch = dict[str, Tensor]


class Encoded(NamedTuple):
    """Pairs as ids: sources end with eos, targets run from bos to eos."""

    source: Ragged
    target: Ragged
    affiliation: Ragged | None = None
    """Of each token to predict, the place in the source that it comes from, where that is known."""

    @staticmethod
    def join(parts: Sequence[Encoded]) -> Encoded:
        """One after the other."""
        affiliations = [part.affiliation for part in parts if part.affiliation is not None]
        source, target = (Ragged.join([getattr(part, side) for part in parts]) for side in ("source", "target"))
        return Encoded(source, target, Ragged.join(affiliations) if affiliations else None)

    def batch(self, rows: np.ndarray) -> Batch:
        """The chosen pairs, padded."""
        source, source_lengths = pad(self.source, rows)
        target, target_lengths = pad(self.target, rows)
        return {
            "source": source,
            "source_lengths": source_lengths,
            "target": target,
            "target_lengths": target_lengths - 1,
            **({} if self.affiliation is None else {"affiliation": pad(self.affiliation, rows)[0]}),
        }


def pad(ragged: Ragged, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """(B, longest) ids of the chosen sequences, and their lengths (B,)."""
    starts, lengths = ragged.offsets[rows], ragged.offsets[rows + 1] - ragged.offsets[rows]
    places = np.arange(lengths.max(initial=0))
    real = places < lengths[:, None]
    index = np.where(real, starts[:, None] + places, 0)
    padded = np.where(real, ragged.ids[index], PAD) if len(ragged.ids) else np.zeros(real.shape)
    return torch.from_numpy(padded.astype(np.int64)), torch.from_numpy(lengths)


def bucket(lengths: tuple[np.ndarray, np.ndarray], tokens: int, random: np.random.Generator | None) -> list[np.ndarray]:
    """Rows of batches with at most ``tokens`` slots a side, of like source and target length. In random order, with
    equal lengths mixed, if ``random`` is given; else from short to long.

    Whatever the order, the lengths are cut the same, so every epoch has as many batches.
    """
    source, target = lengths
    tie = np.arange(len(source)) if random is None else random.permutation(len(source))
    # Target by target length; within it sources go up, in the next down, so that neighbours stay alike.
    order = np.lexsort((tie, np.where(target % 2, source, -source), target))
    widths = np.maximum(source, target)[order]
    batches: list[np.ndarray] = []
    first = widest = 0
    for place, width in enumerate(widths.tolist()):
        wider = max(widest, width)
        if wider * (place + 1 - first) > tokens and place > first:
            batches.append(order[first:place])
            first, wider = place, width
        widest = wider
    if len(order):
        batches.append(order[first:])
    if random is not None:
        batches = [batches[number] for number in random.permutation(len(batches))]
    return batches


def fill(lengths: tuple[np.ndarray, np.ndarray], batches: Iterable[np.ndarray]) -> float:
    """The share of slots, of both sides together, that hold a token and not padding."""
    real = slots = 0
    for rows in batches:
        for side in lengths:
            real += int(side[rows].sum())
            slots += int(side[rows].max()) * len(rows)
    return real / max(slots, 1)


Reader = Callable[[BadLines, Position], Iterator[tuple[Encoded, Position]]]
"""Encoded pairs from a position on, each chunk with the position after it."""


class PairLoader(Loader):
    """Batches of pairs, from memory or from a stream; see :class:`regard.tasks.task.Loader`.

    ``bad`` counts the lines left out; ``filled`` is the share of slots that held tokens in the chunk last planned.

    Args:
        data: the pairs, or what reads them.
        tokens: slots of a batch on either side.
        size: bytes of a stream.
    """

    def __init__(
        self,
        data: Encoded | Reader,
        *,
        tokens: int,
        seed: int = 0,
        shuffle: bool = True,
        bad: BadLines | None = None,
        size: int = 0,
    ):
        self._data, self._tokens, self._shuffle, self._seed = data, tokens, shuffle, seed
        self.bad = bad or BadLines()
        self._tally = self._bad_counts()
        self.filled = float("nan")
        self.note = ""
        """A line about the files that the report begins with."""
        identity: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "batch_tokens": tokens}
        if isinstance(data, Encoded):
            identity["pairs"] = len(data.source.lengths)
            identity["text"] = zlib.crc32(data.target.ids.tobytes(), zlib.crc32(data.source.ids.tobytes()))
            length: int | None = len(self._plan(data, epoch=0, chunk=0))
        else:
            identity["bytes"], length = size, None
        super().__init__(self._read, length=length, identity=identity, report=self._report_text)

    def _plan(self, encoded: Encoded, epoch: int, chunk: int) -> list[np.ndarray]:
        random = np.random.default_rng([self._seed, epoch, chunk]) if self._shuffle else None
        lengths = encoded.source.lengths, encoded.target.lengths
        batches = bucket(lengths, self._tokens, random)
        self.filled = fill(lengths, batches)
        return batches

    def _read(self, epoch: int, first: int, start: Any) -> Iterator[Chunk]:
        position = Position() if not start else Position(start[0], tuple(start[1]))
        if isinstance(self._data, Encoded):
            parts = iter([] if first else [(self._data, position)])
        else:
            if position == Position():
                self.bad.counts.clear()  # the tally is of one reading of the files
                self.bad.first.clear()
            parts = self._data(self.bad, position)
        for number, (encoded, after) in enumerate(parts, first):
            batches = self._plan(encoded, epoch, number)
            yield Chunk(len(batches), partial(_make, encoded, batches), [after.line, list(after.offsets)])
            self._tally = self._bad_counts()

    def _bad_counts(self) -> dict[str, dict[str, Any]]:
        return {"counts": dict(self.bad.counts), "first": dict(self.bad.first)}

    def _report_text(self) -> str:
        """The size of the data, how much of the batches is padding, and which lines were left out."""
        if isinstance(self._data, Encoded):
            source, target = len(self._data.source.ids), len(self._data.target.ids)
            pairs = len(self._data.source.lengths)
            parts = [f"{pairs:,} pairs", f"{source:,} source and {target:,} target tokens", f"{len(self):,} batches"]
        else:
            parts = ["streamed from disk"]
        if self.filled == self.filled:  # a stream has not been looked at before the first batch
            parts.append(f"{100 * (1 - self.filled):.1f} % padding")
        report = ", ".join(parts) + (f"; {self.bad}" if self.bad.total else "")
        return f"{self.note}\n{report}" if self.note else report

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, and which lines of the chunks before were left out."""
        return {**super().state_dict(), "bad": self._tally}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if not isinstance(self._data, Encoded):
            self._tally = state["bad"]
            self.bad.counts, self.bad.first = dict(state["bad"]["counts"]), dict(state["bad"]["first"])


def _make(encoded: Encoded, batches: list[np.ndarray], number: int) -> Batch:
    return encoded.batch(batches[number])
