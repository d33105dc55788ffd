"""Running text with holes: some tokens of a window are hidden, to be predicted from all others.

A batch has ``source`` (B, S) from bos to eos, ``source_lengths`` (B,), ``segments`` (B, S) and ``wanted`` (B, S): the
token at a hidden place, 0 elsewhere. Of the tokens, ``hidden`` of 1 are chosen; of these 80 % are replaced by the token
of unknown words, which subwords never need, 10 % by a random one, and 10 % stay. With ``pairs`` a window has two parts,
and half of the second parts are from elsewhere in the text: ``follows`` (B,) is 1 where the second part follows.

To fill a text, it is written with ``___`` for each hidden token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard.axes import Axis, Words
from regard.data.lines import clean
from regard.data.tokens import BOS, EOS, SPECIAL, UNKNOWN, Ragged
from regard.questions import Input, Text
from regard.tasks._batches import pad
from regard.tasks._running import RunningConfig, RunningTask
from regard.tasks.task import Batch, check_split

HOLE = "___"
SHOWN = 8
"""Texts with a hole of a split, to start from."""


@dataclass(frozen=True)
class Config(RunningConfig):
    """Which text, and how much of it is hidden."""

    hidden: float = 0.15
    """The share of tokens that are to be restored."""
    pairs: bool = False
    """Whether windows have two parts, to learn if one follows the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.hidden < 1:
            raise ValueError(f"hidden = {self.hidden}: a share between 0 and 1")


class Holes(NamedTuple):
    """A text as ids, from bos to eos, with the token of unknown words at the hidden ``places``."""

    ids: tuple[int, ...]
    places: tuple[int, ...]


class MaskedText(RunningTask):
    """Text with holes; see the module's docstring."""

    kind: ClassVar[str] = "filler"
    settings: ClassVar[type] = Config
    title = "Fill the holes of a text"
    verb = "Fill"
    asks: Mapping[str, Input] = {
        "text": Text(2000, 1, title="Text", about=f"With {HOLE} in place of each word that is to be found.")
    }
    without_data = ({"text": f"He was born in the {HOLE} of London ."},)
    config: Config

    @property
    def sizes(self) -> dict[str, Any]:
        return {"vocab": len(self.tokenizer), "longest": self.config.length + 3, "pairs": self.config.pairs}

    def rows(self, windows: list[np.ndarray], ids: np.ndarray, random: np.random.Generator) -> Batch:
        framed, segments, follows = [], [], []
        for window in windows:
            parts, after = self._parts(window, ids, random)
            framed.append(np.concatenate([[BOS], *(piece for part in parts for piece in (part, [EOS]))]))
            segments.append([0] * (len(parts[0]) + 2) + [1] * (len(framed[-1]) - len(parts[0]) - 2))
            follows.append(after)
        source, lengths = pad(Ragged.of(framed), np.arange(len(framed)))
        targets, shown = self._hide(source.numpy(), random)
        kinds, _ = pad(Ragged.of(segments), np.arange(len(framed)))
        batch = {"source": torch.from_numpy(shown), "source_lengths": lengths, "segments": kinds}
        batch["wanted"] = torch.from_numpy(targets)
        return {**batch, "follows": torch.tensor(follows)} if self.config.pairs else batch

    def _parts(self, window: np.ndarray, ids: np.ndarray, random: np.random.Generator) -> tuple[list[np.ndarray], int]:
        """The parts of a window, and whether the second follows the first."""
        window = window[: self.config.length]
        half = len(window) // 2
        if not self.config.pairs or not half:
            return [window], 1
        follows = int(random.random() < 0.5)
        place = int(random.integers(max(len(ids) - (len(window) - half), 1)))
        return [window[:half], window[half:] if follows else ids[place : place + len(window) - half]], follows

    def _hide(self, source: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The tokens to predict, (B, S), 0 elsewhere, and the text with holes."""
        real = source > UNKNOWN
        drawn = np.where(real, random.random(source.shape), 2.0)
        chosen = drawn < self.config.hidden
        chosen |= (drawn == drawn.min(1, keepdims=True)) & real  # at least one of each
        targets = np.where(chosen, source, 0)
        fate = random.random(source.shape)
        random_tokens = random.integers(len(SPECIAL), len(self.tokenizer), source.shape)
        shown = np.where(chosen & (fate < 0.8), UNKNOWN, np.where(chosen & (fate >= 0.9), random_tokens, source))
        return targets, shown

    # -----------------------------------------------------------------------------------------------------------------
    # Questions

    def read(self, question: Any) -> Holes:
        parts = question.text.split(HOLE)
        if len(parts) == 1:
            raise ValueError(f"nothing is hidden: write {HOLE} for each word that is to be found")
        ids, places = [BOS, *self._part(parts[0], behind=False)], []
        for part in parts[1:]:
            places.append(len(ids))
            ids += [UNKNOWN, *self._part(part, behind=True)]
        most = self.config.length + 3
        if len(ids) >= most:
            raise ValueError(f"the text has {len(ids) + 1:,} tokens, and the model reads at most {most:,}")
        return Holes((*ids, EOS), tuple(places))

    def _part(self, part: str, *, behind: bool) -> list[int]:
        """The ids of what stands before, between or ``behind`` holes."""
        if self.config.level == "char":
            return self.tokenizer.encode(re.sub(r"\s+", " ", part))
        text = clean(part)
        if not text:
            return []
        if not behind or part[0].isspace():
            return self.tokenizer.encode(text)
        # A token that begins a word has the space before it, and a full stop right behind a hole has none: so it is
        # cut behind something that never is one token with it.
        carrier = "." if self.config.level == "word" else "0"
        return self.tokenizer.encode(carrier + text)[len(self.tokenizer.encode(carrier)) :]

    def item(self, split: str, number: int) -> Holes:
        """A line of a split of which one token is hidden."""
        ids = self.tokenizer.encode(self._lines(split)[number])[: min(40, self.config.length)]
        middle = len(ids) // 2
        ids[middle] = UNKNOWN
        return Holes((BOS, *ids, EOS), (middle + 1,))

    def _lines(self, split: str) -> list[str]:
        return [line for line in self.text(check_split(split)).splitlines() if 4 <= len(line.split()) <= 30][:SHOWN]

    def count(self, split: str) -> int:
        return len(self._lines(split))

    def suggested(self) -> list[dict[str, Any]]:
        try:
            return [{"text": self._with_hole(line)} for line in self._lines("test")[:3]]
        except (ValueError, OSError):
            return [dict(values) for values in self.without_data]

    @staticmethod
    def _with_hole(line: str) -> str:
        words = line.split()
        words[len(words) // 2] = HOLE
        return " ".join(words)

    def batches(self, items: Sequence[Holes]) -> Iterator[tuple[Sequence[int], Batch]]:
        for first in range(0, len(items), self.config.batch):
            rows = range(first, min(first + self.config.batch, len(items)))
            source, lengths = pad(Ragged.of([items[row].ids for row in rows]), np.arange(len(rows)))
            yield rows, {"source": source, "source_lengths": lengths}

    def axes(self, item: Holes) -> dict[str, Axis]:
        pieces = [piece.strip() or piece for piece in self.tokenizer.pieces(item.ids)]
        return {"words": Words([HOLE if place in item.places else piece for place, piece in enumerate(pieces)])}

    def measures(self, split: str, means: Mapping[str, float]) -> dict[str, float]:
        """A system's own means over a split, and the perplexity of a hidden token."""
        return {**means, "perplexity": float(np.exp(means["nll"]))}
