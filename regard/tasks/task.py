"""What every task shares: settings, splits, a loader that can be stopped at any batch, saving and loading.

A task says what is read, how a batch is made and what is measured. It has a typed ``Config``; ``sizes``, what a system
must know of it; ``loader(split, seed=…)``; its metrics; and ``save``/``load`` for what a run needs later without the
data: its settings and :attr:`Task.known`, what was learned from the data, such as a vocabulary.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from regard import _files, _settings
from regard._lazy import nearest, snake
from regard.axes import Axis, Words
from regard.data import SPLITS
from regard.questions import Input

FORMAT = 1
LANGUAGE, VISION, SPEECH, MEMORY, GRAPHS, MORE = FAMILIES = (
    *("Translation and language", "Vision", "Speech and strokes", "Memory and questions", "Graphs", "More"),
)
"""The families of the lectures, in their order."""
Batch = dict[str, Any]


class Task:
    """Data in, metric out. A subclass gives ``settings``, ``kind``, ``unit``, :attr:`sizes` and :meth:`batches_of`.

    Args:
        config: its settings.
        data: where the data lies, instead of where ``config.data`` says.
        known: what :meth:`learn` gave when the task was first made; the data is then not read before it is needed.
    """

    kind: ClassVar[str]
    """What its answers are: the file of ``predictors/`` that gives them, such as ``writer`` or ``classifier``."""
    family: ClassVar[str] = MORE
    """Where the explorer lists its systems: one of :data:`FAMILIES`, or a name of its own."""
    unit: ClassVar[str]
    """What a system's ``count`` counts."""
    settings: ClassVar[type]
    """The class of ``config``."""
    reads_data: ClassVar[bool] = True
    """Whether there is any; otherwise all batches are generated."""
    items: ClassVar[str] = "items"
    """What :meth:`amount` counts."""
    learned_from: ClassVar[tuple[str, ...]] = ()
    """Settings that ``known`` depends on: where one of them changes, it is learned anew."""

    def __init__(self, config: Any, data: Any = None, *, known: Mapping[str, Any] | None = None):
        if data is not None and not self.reads_data:
            raise ValueError(f"{self.name()} generates its own data and reads none: leave --data {data} out")
        self.config, self.data = config, data
        self.known: dict[str, Any] = dict(self.learn() if known is None else known)

    @classmethod
    def name(cls) -> str:
        """As recipes write it."""
        return snake(cls.__name__)

    @classmethod
    def amount(cls, config: Any, data: Any = None) -> int | None:
        """How many items there are to train on, before the task is made; None if unknown."""
        return None

    def learn(self) -> dict[str, Any]:
        """What is learned from the training data and needed without it later, such as words and classes."""
        return {}

    @property
    def sizes(self) -> dict[str, Any]:
        """What a system must know to be built, by the names in its ``Config``."""
        raise NotImplementedError

    def loader(self, split: str, *, seed: int = 0, shuffle: bool | None = None) -> Loader:
        """Batches of a split; only ``train`` is shuffled unless ``shuffle`` says otherwise."""
        check_split(split)
        return self.batches_of(split, seed, split == "train" if shuffle is None else shuffle)

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        """The loader of a split that exists."""
        raise NotImplementedError

    elsewhere: ClassVar[tuple[str, ...]] = ("data", "store", "skip_bad")
    """Settings that do not change what a batch holds."""

    def identity(self, split: str, seed: int, shuffle: bool) -> dict[str, Any]:
        """What must be the same for a loader to go on where another stopped."""
        settings = dataclasses.asdict(self.config).items()
        relevant = {name: value for name, value in settings if name not in self.elsewhere}
        return {"split": split, "seed": seed, "shuffle": shuffle, **relevant}

    def save(self, folder: Path) -> None:
        """Write what is needed without the data. Each file is whole or not there, ``task.json`` comes last."""
        folder.mkdir(parents=True, exist_ok=True)
        facts, files = self.pack()
        about = {"format": FORMAT, "task": self.name(), "config": dataclasses.asdict(self.config), **facts}
        if (home := self._home()) is not None:
            about["data"] = home
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        for name, content in {**files, "task.json": text.encode()}.items():
            _files.replace(folder / name, content)

    def pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """``known`` as JSON holds it, and files for what JSON does not hold."""
        return self.known, {}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
        """``known`` again, from what :meth:`pack` gave; a KeyError if something is missing."""
        return facts

    def _home(self) -> str | None:
        """Where the data lies, for the next time; the name of a data set stays a name."""
        if self.data is None or not str(self.data):
            return None
        path = Path(self.data).expanduser()
        return str(path.absolute()) if path.exists() else str(self.data)

    def origin(self) -> str:
        """The training data in a few words; of one's own data the name, without the folders around it."""
        own = self.data if isinstance(self.data, str | Path) else ""
        if own and Path(own).is_absolute():
            return Path(own).name
        return str(own or getattr(self.config, "data", "")) or self.name().replace("_", " ")

    @classmethod
    def load(cls, folder: Path, data: Any = None, **changes: Any) -> Self:
        """The task that :meth:`save` wrote, with some settings changed; ``data`` says where its data lies now, if it
        is needed and has moved."""
        path, name = folder / "task.json", cls.name()
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            version, task = about.pop("format"), about.pop("task")
            values, home = about.pop("config"), about.pop("data", None)
        except FileNotFoundError:
            raise ValueError(f"{folder}: its task.json is missing") from None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ValueError(f"{path}: not the description of a task") from None
        if version != FORMAT or task != name:
            raise ValueError(f"{path}: the task {task!r} in format {version}; expected {name!r} in format {FORMAT}")
        if not isinstance(values, dict) or not isinstance(home, str | None):
            raise ValueError(f"{path}: not the description of a task")
        config = _settings.build(cls.settings, {**values, **changes}, f"{path}: {name}")
        if (wrong := _settings.mixed(about)) is not None:
            raise ValueError(f"{path}: damaged, a list holds several types: {str(wrong)[:80]}")
        try:
            known = cls.unpack(about, folder)
        except (AttributeError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path}: damaged, or written by another version ({error!r})") from None
        stale = changes.keys() & set(cls.learned_from)
        return cls(config, cls.found(folder) or home if data is None else data, known=None if stale else known)

    @classmethod
    def found(cls, folder: Path) -> Any:
        """The data that was saved with the task, if any was."""
        return None


class AskedTask(Task):
    """A task whose systems any predictor can ask. It defines the fields of a question, how an item is read from one,
    and how answers are shown.

    An item is whatever the task makes of a question, or holds in a split. A system that writes (``kind = "writer"``)
    needs also :meth:`write` and :meth:`tokens`, one that chooses (``"classifier"``) ``classes``, and both
    :meth:`measure`.
    """

    title: str = ""
    """What a trained system does, in a few words."""
    verb: str = "Ask"
    """The label of a form's button."""
    asks: Mapping[str, Input] = {}
    """The fields of a question, the most important first."""
    without_data: Sequence[Mapping[str, Any]] = ()
    """Questions to start from where the test split is not at hand: values of their fields."""

    def read(self, question: Any) -> Any:
        """The item that a question asks about; a ValueError says what is wrong with it."""
        raise NotImplementedError

    def item(self, split: str, number: int) -> Any:
        """An item of a split, from 0."""
        raise NotImplementedError

    def count(self, split: str) -> int:
        """The items of a split."""
        raise NotImplementedError

    def batches(self, items: Any) -> Iterator[tuple[Any, Batch]]:
        """Items without their answers, as a system takes them: the numbers of those in a batch, and the batch."""
        raise NotImplementedError

    def axes(self, item: Any) -> dict[str, Axis]:
        """The axes of an item along which attention weights can be shown, by the names that systems declare."""
        return {}

    @cached_property
    def shown(self) -> str:
        """The split that examples are of: test, or validation where the data have no test split, as COCO's."""
        for split in ("test", "valid"):
            with suppress(ValueError, OSError):
                if self.count(split):
                    return split
        return "test"

    def suggested(self) -> list[dict[str, Any]]:
        """A few questions to start from: values of their fields. Those of the split that is :attr:`shown`, where
        it is at hand and questions have a field ``example``."""
        try:
            return [{"example": number} for number in range(min(5, self.count(self.shown)))]
        except (ValueError, OSError):
            return [dict(values) for values in self.without_data]

    def follow(self, question: Any, answer: str) -> Mapping[str, Any]:
        """Of a conversation: the fields of the next question that change with this one and its answer, such as what
        was said before. Nothing, if questions do not follow each other."""
        return {}

    def tokens(self) -> dict[str, Any]:
        """The vocabularies, ``target`` for one: systems for which they are equal can vote together."""
        raise NotImplementedError

    def completed(self, items: Sequence[Any], model: Any) -> Sequence[Any]:
        """Items with what a system must predict before it writes, such as the ingredients of a dish."""
        return items

    def write(self, tokens: Sequence[int], item: Any) -> Words:
        """What was written, in words."""
        raise NotImplementedError

    def looked(self, written: Any) -> Any:
        """An answer (:class:`regard.decode.written.Written`), once the weights of its words are known; a task can add
        what follows from them."""
        return written

    def remarks(self, item: Any) -> list[str]:
        """Sentences about an item that are shown beside an answer."""
        return []

    def heading(self, item: Any, answer: str) -> str:
        """The title of a picture of the weights of an answer."""
        return answer

    def fields(self, item: Any, words: Words) -> dict[str, Any]:
        """The parts of a written answer for programs, as JSON holds them."""
        return {}

    perplexities: Mapping[str, Callable[[Batch], Batch]] = {}
    """Perplexities to measure of a system that writes: the name of each, and how a batch of a split is changed before
    it is measured."""

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """Metrics of the answers to the first items of a split."""
        raise NotImplementedError

    classes: Sequence[str] = ()
    """The answers to choose from."""

    def classes_of(self, item: Any) -> Sequence[str]:
        """The answers to choose from for an item, where items have choices of their own; else :attr:`classes`."""
        return self.classes

    signatures: Mapping[str, str] = {}
    """How the metrics of the last :meth:`measure` were computed, where there is a standard way to say it."""


def check_split(split: str) -> str:
    """The split, if there is one of that name."""
    if split not in SPLITS:
        raise ValueError(f"no split is called {split!r}: {nearest(split, SPLITS)}")
    return split


# ---------------------------------------------------------------------------------------------------------------------
# Batches


class Chunk(NamedTuple):
    """A part of an epoch that is in memory at once.

    Attributes:
        batches: how many there are in it.
        make: number of a batch → the batch, always the same.
        after: where the next chunk begins, as JSON holds it.
    """

    batches: int
    make: Callable[[int], Batch]
    after: Any = None


Chunks = Callable[[int, int, Any], Iterator[Chunk]]
"""The epoch, the number of the first chunk that is wanted, and where it begins → chunks from there on."""


class Loader:
    """Batches of one split. Iterating gives the rest of the current epoch and then moves on to the next.

    ``state_dict()`` after batch k, put into a loader of the same data and settings, makes it go on with batch k + 1.
    ``len()`` is the number of batches of an epoch; where it is not known, as of a stream, a TypeError.

    Args:
        chunks: see :data:`Chunks`. Data that fits into memory is one chunk.
        length: batches of an epoch.
        identity: what must be the same for a loader to go on where another stopped.
        report: one line about the data, for people.
    """

    def __init__(
        self,
        chunks: Chunks,
        *,
        length: int | None,
        identity: Mapping[str, Any],
        report: str | Callable[[], str] = "",
    ):
        self._chunks, self._length, self._identity, self._report = chunks, length, dict(identity), report
        self.epoch = 0
        self._chunk, self._start, self._batch = 0, None, 0

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("a stream does not know how many batches it will give")
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        for chunk in self._chunks(self.epoch, self._chunk, self._start):
            while self._batch < chunk.batches:
                self._batch += 1
                yield chunk.make(self._batch - 1)
            self._chunk, self._start, self._batch = self._chunk + 1, chunk.after, 0
        self.epoch += 1
        self._chunk, self._start, self._batch = 0, None, 0

    def report(self) -> str:
        """One line about the data."""
        return self._report if isinstance(self._report, str) else self._report()

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as JSON holds it."""
        place = {"epoch": self.epoch, "chunk": self._chunk, "start": self._start, "batch": self._batch}
        return {**place, "of": dict(self._identity)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loader of ``state`` was."""
        before, now = state["of"], self._identity
        if before != now:
            changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            changes = ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in changed)
            raise ValueError(f"the data cannot go on where it stopped: {changes}")
        self.epoch, self._batch = state["epoch"], state["batch"]
        self._chunk, self._start = state.get("chunk", 0), state.get("start")


def loader_of(
    make: Callable[[int, int], Batch], batches: int, identity: Mapping[str, Any], report: str | Callable[[], str] = ""
) -> Loader:
    """A loader whose batch k of an epoch is ``make(epoch, k)``."""

    def chunks(epoch: int, chunk: int, start: Any) -> Iterator[Chunk]:
        if chunk == 0:
            yield Chunk(batches, lambda number: make(epoch, number))

    return Loader(chunks, length=batches, identity=identity, report=report)


def generated(
    make: Callable[[np.random.Generator, int, int], Batch],
    batches: int,
    *,
    seed: tuple[int, ...],
    fresh: bool,
    identity: Mapping[str, Any],
    report: str | Callable[[], str] = "",
) -> Loader:
    """A loader whose batch k of an epoch is ``make(random, epoch, k)``, where ``random`` depends on seed, epoch and k
    alone. Unless ``fresh``, every epoch is like the first."""

    def one(epoch: int, number: int) -> Batch:
        epoch = epoch if fresh else 0
        return make(np.random.default_rng([*seed, epoch, number + 1]), epoch, number)

    same = {"seed": list(seed), "fresh": fresh, "batches": batches, **identity}
    return loader_of(one, batches, same, report)


def drawn(
    make: Callable[[range, int, int], Batch],
    number: int,
    size: int,
    identity: Mapping[str, Any],
    report: str | Callable[[], str] = "",
) -> Loader:
    """A loader of ``number`` generated items an epoch, ``size`` at a time: batch k of an epoch is ``make(rows, epoch,
    k)``."""

    def one(epoch: int, k: int) -> Batch:
        return make(range(k * size, min((k + 1) * size, number)), epoch, k)

    return loader_of(one, -(-number // size), identity, report)


class Rows:
    """Which items are in a batch: all in their order or, if shuffled, in one that depends on seed and epoch alone."""

    def __init__(self, items: int, size: int, seed: int, shuffle: bool):
        self.items, self.size, self.seed, self.shuffle = items, size, seed, shuffle
        self._order = lru_cache(maxsize=1)(self._permute)

    def _permute(self, epoch: int) -> np.ndarray:
        if not self.shuffle:
            return np.arange(self.items)
        return np.random.default_rng([self.seed, epoch]).permutation(self.items)

    def __len__(self) -> int:
        return -(-self.items // self.size)

    def __call__(self, epoch: int, number: int) -> np.ndarray:
        return self._order(epoch)[number * self.size : (number + 1) * self.size]


class GeneratedTask(Task):
    """A task without data. A subclass makes a batch, :meth:`make`, and says how many there are, :meth:`length`."""

    reads_data = False

    def make(self, split: str, random: np.random.Generator, epoch: int, number: int) -> Batch:
        """Batch ``number`` of an epoch of a split."""
        raise NotImplementedError

    def length(self, split: str) -> int:
        """The number of batches of an epoch of a split."""
        raise NotImplementedError

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        """New ones in every epoch if ``shuffle``."""

        def make(random: np.random.Generator, epoch: int, number: int) -> Batch:
            return self.make(split, random, epoch, number)

        identity = {"split": split, "config": dataclasses.asdict(self.config)}
        key = (SPLITS.index(split), seed)
        return generated(make, self.length(split), seed=key, fresh=shuffle, identity=identity)
