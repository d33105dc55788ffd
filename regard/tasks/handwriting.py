"""Text in, strokes of a pen out; or strokes in, the strokes that follow out.

``data`` is a file or folder of :mod:`regard.data.strokes` (IAM-OnDB, drawings, one's own JSON lines) or ``letters``:
lines generated in a stroke font of our own (:mod:`regard.data.letters`). With ``text = false`` the texts are left out,
and systems predict points from points alone; ``join`` puts drawings beside each other.

A batch has ``points`` (B, T + 1, 3), offsets with mean 0 and variance 1 over the training data and whether the pen is
lifted, from zeros where the line begins; ``lengths`` (B,), the points that follow; and with texts ``text`` (B, U),
numbers of characters (0 for unknown ones), ``text_lengths`` (B,), and ``rests``: each line then ends with a
point where the pen rests, so that systems learn when a line is finished.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import torch

from regard._settings import at_least
from regard.axes import Axis, Words
from regard.data import SPLITS, letters, strokes
from regard.data.download import locate
from regard.data.lines import BadLines, clean
from regard.data.strokes import Line
from regard.metrics import strokes as metrics
from regard.questions import SEED, Choice, Input, Number, Text
from regard.tasks._words import plan
from regard.tasks.task import SPEECH, AskedTask, Batch, Loader, check_split, loader_of

LETTERS = "letters"
FURTHEST = 10.0
"""The largest offset after normalization; longer ones, such as from the end of a page, are shortened."""
REST = np.array([0.0, 0.0, 1.0], np.float32)
"""The point after the last: the pen stays where it is, lifted."""
SLOWEST, SPARE = 2.5, 40
"""A line ends at the latest after SLOWEST times the usual number of points for its text, and SPARE more."""
LONGEST = 100
"""Characters of a line that is asked for."""
BIASES = ("0", "0.15", "0.25", "0.5", "0.75", "1", "1.5", "2", "3", "5", "10")
SUGGESTED = ("more of national temperament", "the quick brown fox", "jumps over", "a lazy dog")
_PLACES = ("data", "skip_bad")


@dataclass(frozen=True)
class Config:
    """Which lines, and what becomes of them."""

    data: str = LETTERS
    """A file, a folder, the name of a known data set, or ``letters``: lines that are generated."""
    file: str = ""
    """Which file of a folder."""
    text: bool = True
    """Whether systems read the text."""
    batch: int = 32
    """Lines."""
    every: int = 1
    """Keep every N-th point of a stroke, and its ends."""
    join: int = 1
    """Drawings beside each other in a line."""
    max_points: int = 1200
    """Longer lines are left out."""
    min_count: int = 10
    """How often a character must occur to be known."""
    longest: int = 20
    """The most characters of a generated line."""
    train_size: int = 6000
    """Generated lines."""
    valid_size: int = 200
    test_size: int = 200
    skip_bad: bool = False
    """Count and leave out lines of a file that cannot be read."""
    data_seed: int = 0
    """Seed of generated lines."""

    def __post_init__(self) -> None:
        at_least(self, "batch", "every", "join", "min_count", longest=2, max_points=2)
        at_least(self, "train_size", "valid_size", "test_size")
        if self.join > 1 and self.text:
            raise ValueError(f"join = {self.join} is for drawings, which have no text: say text=false")


@dataclass(frozen=True, eq=False)
class Item:
    """What to write, or what was written.

    Attributes:
        text: the text; empty where there is none.
        points: (N, 3) offsets as the data has them, from where the line begins; of a question those that it is primed
            with, at least the first.
        primed: the text of those points, which comes before ``text``.
        letters: (N,), the number of the character that each point belongs to, where it is known.
        bias, seed: how to draw it.
        most: the most points to draw.
    """

    text: str
    points: np.ndarray
    primed: str = ""
    letters: np.ndarray | None = None
    bias: float = 0.0
    seed: int = 0
    most: int = 0

    @property
    def told(self) -> str:
        """All the text that the system reads, that of the primed points first."""
        return f"{self.primed} {self.text}" if self.primed else self.text


class Handwriting(AskedTask):
    """Strokes; see the module's docstring. What is known without the data: ``characters``, ``mean`` and ``deviation``
    of the offsets, ``pace``, the points to a character, a ``sample`` of the texts, and ``alone``, a mixture of
    Gaussians without context."""

    kind: ClassVar[str] = "handwriting"
    family: ClassVar[str] = SPEECH
    unit: ClassVar[str] = "points"
    settings: ClassVar[type] = Config
    learned_from = ("every", "join", "min_count", "text")
    verb = "Write"
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        self.bad = BadLines(config.skip_bad)
        self.left_out: dict[str, int] = {}
        self._lines = lru_cache(maxsize=len(SPLITS))(self._prepared)
        super().__init__(config, data, known=known)
        self.codes = {character: number for number, character in enumerate(self.known["characters"], 1)}
        self.mean = np.array(self.known["mean"], np.float32)
        self.deviation = np.array(self.known["deviation"], np.float32)

    @property
    def title(self) -> str:  # type: ignore[override]
        return "Write a line by hand" if self.config.text else "Let a pen go on"

    @property
    def asks(self) -> Mapping[str, Input]:  # type: ignore[override]
        """A text, or how many points; bias, style, chance."""
        bias = Choice(
            BIASES,
            default="1" if self.config.text else "0.5",
            title="Bias",
            about="0 as varied as the data; larger is tidier.",
        )
        about = "Go on from this line of the test data, in its style."
        style = Number(0, 9999, default=None, optional=True, option=True, title="Style of line", about=about)
        seed = dataclasses.replace(SEED, default=1)
        if self.config.text:
            text = Text(LONGEST, 1, title="Text", about=f"It knows {self.alphabet}")
            return {"text": text, "bias": bias, "style": style, "seed": seed}
        points = Number(10, 2000, default=300, title="Points", about="Where to stop.")
        return {"points": points, "bias": bias, "style": style, "seed": seed}

    @property
    def alphabet(self) -> str:
        """The known characters, without the blank, as one text."""
        return "".join(character for character in self.known["characters"] if character != " ")

    def learn(self) -> dict[str, Any]:
        lines = self.lines("train")
        counts = Counter(character for line in lines for character in line.text)
        moves = np.concatenate([line.points[1:] for line in lines])
        deviation = moves[:, :2].std(0)
        if not (deviation > 0).all():
            raise ValueError(f"{self.place}: all strokes lie on a line")
        if self.config.text and not counts:
            raise ValueError(f"{self.place}: there are no texts; say text=false to predict strokes from strokes")
        self.mean, self.deviation = moves[:, :2].mean(0), deviation
        pace = len(moves) / max(1, counts.total())
        return {
            "characters": sorted(c for c, count in counts.items() if count >= self.config.min_count),
            "mean": [float(value) for value in self.mean],
            "deviation": [float(value) for value in deviation],
            "pace": pace if counts else 1.0,
            "sample": [line.text for line in lines[:5] if line.text],
            "alone": metrics.fit_mixture(self.normalized(moves)),
        }

    @property
    def sizes(self) -> dict[str, Any]:
        """What a system must know: the number of characters, with one for unknown ones, and points to a character."""
        return {"characters": len(self.codes) + 1 if self.config.text else 0, "pace": float(self.known["pace"])}

    # -----------------------------------------------------------------------------------------------------------------
    # Lines

    @property
    def place(self) -> str:
        """Where the data lies."""
        return str(self.data or self.config.data)

    @property
    def made(self) -> bool:
        """Are the lines made?"""
        return self.place == LETTERS

    @cached_property
    def _read(self) -> strokes.Splits:
        try:
            place = locate(self.place)
        except ValueError as error:
            raise ValueError(f"{error}; lines can also be made: data={LETTERS}") from None
        return strokes.read(place, self.bad, self.config.file)

    def lines(self, split: str) -> list[Line]:
        """The lines of a split."""
        return self._lines(check_split(split))

    def _prepared(self, split: str) -> list[Line]:
        config = self.config
        if self.made:
            size, key = getattr(config, f"{split}_size"), (config.data_seed, SPLITS.index(split))
            lines = [self._drawn(np.random.default_rng([*key, row]), f"{split} {row}") for row in range(size)]
        elif split in self._read:
            lines = self._read[split]
        else:
            raise ValueError(f"{self.place}: there are no lines for {split!r}, only for {', '.join(self._read)}")
        if config.join > 1:
            lines = strokes.joined(lines, config.join, np.random.default_rng(config.data_seed).permutation)
        if config.every > 1:
            lines = [line._replace(points=strokes.thinned(line.points, config.every), letters=None) for line in lines]
        usable = [line for line in lines if 2 <= len(line.points) <= config.max_points + 1]
        usable = [line for line in usable if line.text] if config.text else usable
        if not usable:
            if not lines:
                raise ValueError(f"{self.place}: too few drawings for {split!r} to join {config.join}; say join=1")
            condition = "a text and at most" if config.text else "at most"
            condition = f"{condition} {config.max_points} points"
            raise ValueError(f"{self.place}: none of {len(lines)} lines for {split!r} has {condition}")
        self.left_out[split] = len(lines) - len(usable)
        return usable

    def _drawn(self, random: np.random.Generator, name: str) -> Line:
        return letters.draw(letters.words(random, self.config.longest), random, name)

    def normalized(self, points: np.ndarray) -> np.ndarray:
        """Offsets (…, 3) with mean 0 and variance 1."""
        moves = ((points[..., :2] - self.mean) / self.deviation).clip(-FURTHEST, FURTHEST)
        return np.concatenate([moves, points[..., 2:]], -1).astype(np.float32)

    def restored(self, points: np.ndarray) -> np.ndarray:
        """The opposite of :meth:`normalized`."""
        return np.concatenate([points[..., :2] * self.deviation + self.mean, points[..., 2:]], -1)

    def encode(self, text: str) -> list[int]:
        """Numbers of characters; 0 for unknown ones."""
        return [self.codes.get(character, 0) for character in text]

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that are not known."""
        return sorted(set(text) - set(self.codes))

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        """Lines of like length together."""
        lines, config = self.lines(split), self.config
        lengths = np.array([len(line.points) for line in lines])

        @lru_cache(maxsize=1)
        def rows(epoch: int) -> list[np.ndarray]:
            return plan(lengths, config.batch, (seed, epoch) if shuffle else None)

        def make(epoch: int, number: int) -> Batch:
            return self._batch([self._item(lines[row]) for row in rows(epoch)[number]], rests=config.text)

        settings = {name: value for name, value in dataclasses.asdict(config).items() if name not in _PLACES}
        identity = {"split": split, "seed": seed, "shuffle": shuffle, "config": settings, "lines": len(lines)}
        identity["strokes"] = zlib.crc32(b"".join(line.points.tobytes() for line in lines))
        report = f"{len(lines):,} lines, {int(lengths.sum()):,} points"
        if dropped := self.left_out[split]:
            report += f"; {dropped:,} left out, of more than {config.max_points:,} points"
            report += " or without a text" if config.text else ""
        report += f"; {self.bad}" if self.bad.total else ""
        return loader_of(make, len(rows(0)), identity, report)

    def _batch(self, items: Sequence[Item], *, rests: bool = False) -> Batch:
        lengths = np.array([len(item.points) - 1 + rests for item in items])
        points = np.zeros((len(items), int(lengths.max(initial=0)) + 1, 3), np.float32)
        for row, item in zip(points, items):
            row[1 : len(item.points)] = self.normalized(item.points[1:])
            if rests:
                row[len(item.points)] = self.normalized(REST)
        batch = {"points": torch.from_numpy(points), "lengths": torch.from_numpy(lengths)}
        batch |= {"rests": torch.ones(())} if rests else {}
        if self.config.text:
            texts = [self.encode(item.told) for item in items]
            sizes = torch.tensor([len(text) for text in texts])
            codes = torch.zeros(len(items), int(sizes.max()), dtype=torch.long)
            for codes_row, text in zip(codes, texts):
                codes_row[: len(text)] = torch.tensor(text)
            batch |= {"text": codes, "text_lengths": sizes}
        return batch

    # -----------------------------------------------------------------------------------------------------------------
    # Questions

    def _item(self, line: Line) -> Item:
        return Item(line.text, line.points, letters=line.letters)

    def count(self, split: str) -> int:
        return len(self.lines(split))

    def item(self, split: str, number: int) -> Item:
        if not 0 <= number < self.count(split):
            raise ValueError(f"there is no line {number} in {split}: they are 0 to {self.count(split) - 1}")
        return self._item(self.lines(split)[number])

    def asked(self, text: str, *, bias: float = 0.0, seed: int = 0, points: int = 0, style: int | None = None) -> Item:
        """What to write: a text, or ``points`` in number without one; in the style of a test line."""
        start, primed = np.zeros((1, 3), np.float32), ""
        if style is not None:
            line = self.item("test", style)
            start, primed = line.points, line.text
        if not self.config.text:
            return Item("", start, bias=bias, seed=seed, most=points)
        text = clean(text)
        if not text:
            raise ValueError("there is nothing to write")
        if len(text) > LONGEST:
            raise ValueError(f"a line has at most {LONGEST} characters, not {len(text)}")
        if unknown := self.unknown(text):
            listed = ", ".join(map(repr, unknown[:5])) + (" …" if len(unknown) > 5 else "")
            raise ValueError(f"it cannot write {listed}: it knows {self.alphabet}")
        most = int(SLOWEST * self.known["pace"] * len(text)) + SPARE
        return Item(text, start, primed, bias=bias, seed=seed, most=most)

    def read(self, question: Any) -> Item:
        options = {"bias": float(question.bias), "seed": question.seed, "style": question.style}
        if not self.config.text:
            return self.asked("", points=question.points, **options)
        return self.asked(question.text, **options)

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[Sequence[int], Batch]]:
        """Lines of like length together, as in training."""
        order = np.argsort([len(item.points) + item.most for item in items], kind="stable")
        for first in range(0, len(items), max(self.config.batch, 32)):
            rows = order[first : first + max(self.config.batch, 32)].tolist()
            yield rows, self._batch([items[row] for row in rows])

    def axes(self, item: Item) -> dict[str, Axis]:
        return {"characters": Words(list(item.told), text=item.told)} if self.config.text else {}

    def suggested(self) -> list[dict[str, Any]]:
        if not self.config.text:
            return [{"points": 300, "seed": seed} for seed in (1, 2, 3)]
        texts = [text for text in (*SUGGESTED, *self.known["sample"]) if set(text) <= set(self.codes)]
        return [{"text": text} for text in texts[:4]] or [{"text": self.known["characters"][0] * 3}]

    def origin(self) -> str:
        return "made letters" if self.made else super().origin()

    # -----------------------------------------------------------------------------------------------------------------
    # Metrics

    def alone(self, split: str, count: int | None = None) -> float:
        """Nats per point of the first lines of a split under a mixture of 20 Gaussians without context."""
        moves = np.concatenate([line.points[1:] for line in self.lines(split)[:count]])
        return float(metrics.mixture_nats(self.known["alone"], self.normalized(moves)).mean())

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Of pairs of an item of a split and what was written for its text, in percent: how often it ``stopped`` by
        itself, and with a number of points within a fifth of the item's (``length``). Of made letters how many a reader
        by templates reads (``read``), and how many of the data itself (``read_data``)."""
        if not found:
            return {}
        close = [abs(len(written.points) / (len(item.points) - 1) - 1) <= 0.2 for item, written in found]
        values = {
            "stopped": 100 * float(np.mean([written.stopped for _, written in found])),
            "length": 100 * float(np.mean([written.stopped and near for near, (_, written) in zip(close, found)])),
        }
        if self.made:
            reader, texts = metrics.Reader(letters.templates()), [item.text for item, _ in found]
            values["read"] = _share_read(reader, [written.points for _, written in found], texts)
            values["read_data"] = _share_read(reader, [item.points for item, _ in found], texts)
        return values


def _share_read(reader: metrics.Reader, lines: Sequence[np.ndarray], texts: Sequence[str]) -> float:
    """Letters that are read right, in percent: less those that are inserted, left out or replaced."""
    wrong = total = 0
    for points, text in zip(lines, texts):
        text = text.replace(" ", "")
        wrong += min(len(text), metrics.distance(reader.read(strokes.strokes(points)), text))
        total += len(text)
    return 100 * (1 - wrong / max(total, 1))
