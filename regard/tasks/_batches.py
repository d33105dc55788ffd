"""Batches of pairs: sentences of like length together, so that little of a batch is padding.

The order is a pure function of (seed, epoch), and a loader's state is a few numbers, so that a run that was stopped
goes on with the very next batch, also in the middle of a file that is larger than memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.tasks._text import BadLines, Position
from regard.tasks._tokens import PAD, Ragged

Batch = dict[str, Tensor]


class Encoded(NamedTuple):
    """Pairs as ids: sources end with eos, targets run from bos to eos."""

    source: Ragged
    target: Ragged

    def batch(self, rows: np.ndarray) -> Batch:
        """The chosen pairs, padded."""
        source, source_lengths = pad(self.source, rows)
        target, target_lengths = pad(self.target, rows)
        return {
            "source": source,
            "source_lengths": source_lengths,
            "target": target,
            "target_lengths": target_lengths - 1,
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


Chunks = Callable[[BadLines, Position], Iterator[tuple[Encoded, Position]]]
"""Encoded pairs from a position on, each chunk with the position after it."""


class Loader:
    """Batches of one split. Iterating gives the rest of the current epoch and then moves on to the next.

    ``state_dict()`` after batch k, put into a loader of the same data and settings, makes it go on with batch k + 1.
    ``bad`` counts the lines left out; ``filled`` is the share of slots that held tokens in the chunk last planned.
    ``len()`` is the number of batches of an epoch; of a stream it is unknown, a TypeError.
    """

    def __init__(
        self,
        data: Encoded | Chunks,
        *,
        tokens: int,
        seed: int = 0,
        shuffle: bool = True,
        bad: BadLines | None = None,
        identity: Mapping[str, Any] | None = None,
    ):
        self._data = data
        self._tokens = tokens
        self._shuffle = shuffle
        self._seed = seed
        self._identity = {"seed": seed, "shuffle": shuffle, "batch_tokens": tokens, **(identity or {})}
        if isinstance(data, Encoded):
            self._identity["pairs"] = len(data.source.lengths)
            self._identity["text"] = zlib.crc32(data.target.ids.tobytes(), zlib.crc32(data.source.ids.tobytes()))
        self.bad = bad or BadLines()
        self.filled = float("nan")
        self.epoch = 0
        self._chunk = 0
        self._start = Position()
        self._batch = 0
        self._tally: dict[str, dict[str, Any]] = {"counts": {}, "first": {}}
        if isinstance(data, Encoded):
            self._plan(data, epoch=0, chunk=0)

    def __len__(self) -> int:
        if not isinstance(self._data, Encoded):
            raise TypeError("a stream does not know how many batches it will give")
        return self._batches

    def _plan(self, encoded: Encoded, epoch: int, chunk: int) -> list[np.ndarray]:
        random = np.random.default_rng([self._seed, epoch, chunk]) if self._shuffle else None
        lengths = encoded.source.lengths, encoded.target.lengths
        batches = bucket(lengths, self._tokens, random)
        self.filled = fill(lengths, batches)
        self._batches = len(batches)
        return batches

    def __iter__(self) -> Iterator[Batch]:
        for encoded, after in self._chunks():
            batches = self._plan(encoded, self.epoch, self._chunk)
            while self._batch < len(batches):
                self._batch += 1
                yield encoded.batch(batches[self._batch - 1])
            self._chunk, self._start, self._batch = self._chunk + 1, after, 0
            self._tally = {"counts": dict(self.bad.counts), "first": dict(self.bad.first)}
        self.epoch += 1
        self._chunk, self._start, self._batch = 0, Position(), 0

    def _chunks(self) -> Iterator[tuple[Encoded, Position]]:
        if isinstance(self._data, Encoded):
            return iter([] if self._chunk else [(self._data, Position())])
        if self._start == Position():
            self.bad.counts.clear()  # the tally is of one reading of the files
            self.bad.first.clear()
        return self._data(self.bad, self._start)

    def report(self) -> str:
        """What there is, how much of the batches is padding, and what was left out."""
        if isinstance(self._data, Encoded):
            source, target = (len(side.ids) for side in self._data)
            pairs = len(self._data.source.lengths)
            found = [f"{pairs:,} pairs", f"{source:,} source and {target:,} target tokens", f"{len(self):,} batches"]
        else:
            found = ["streamed from disk"]
        if self.filled == self.filled:  # a stream has not been looked at before the first batch
            found.append(f"{100 * (1 - self.filled):.1f} % padding")
        return ", ".join(found) + (f"; {self.bad}" if self.bad.total else "")

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as JSON can hold it."""
        return {
            "epoch": self.epoch,
            "chunk": self._chunk,
            "start": [self._start.line, list(self._start.offsets)],
            "batch": self._batch,
            "bad": self._tally,
            "of": dict(self._identity),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loader of ``state`` was."""
        if state["of"] != self._identity:
            changed = [
                f"{name} was {state['of'].get(name)!r} and is {self._identity.get(name)!r}"
                for name in {**state["of"], **self._identity}
                if state["of"].get(name) != self._identity.get(name)
            ]
            raise ValueError(f"the data cannot go on where it stopped: {', '.join(changed)}")
        self.epoch, self._chunk, self._batch = state["epoch"], state["chunk"], state["batch"]
        line, offsets = state["start"]
        self._start = Position(line, tuple(offsets))
        if not isinstance(self._data, Encoded):
            self._tally = state["bad"]
            self.bad.counts, self.bad.first = dict(state["bad"]["counts"]), dict(state["bad"]["first"])
