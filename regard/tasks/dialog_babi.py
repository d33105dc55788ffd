"""What does an agent that books tables say next? dialog-bAbI, read or generated.

Bordes, Boureau & Weston 2017, *Learning End-to-End Goal-Oriented Dialog* (arXiv:1605.07683). ``data`` is a folder in
the format of :mod:`regard.data.dialogs`, or empty to make dialogues of the tasks 1 and 5. The answer is one of the
candidates, all that an agent may say. Each task has a network of its own; a batch has rows of one task.

A batch has what :mod:`regard.systems.dialog_memory` reads. In the memory the newest sentence comes first; each has two
more words, its speaker and how many sentences ago it was.

When one talks to a system and it makes a call (``api_call italian paris two cheap``), the facts that answer the call
are looked up and added to its memory for the next turn.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from regard._settings import at_least
from regard.axes import Axis, Sentences
from regard.data import SPLITS, dialogs, turns
from regard.data.dialogs import Dialog, Fact, Folder
from regard.data.download import locate
from regard.data.tokens import UNKNOWN
from regard.questions import Choice, Input, Number, Text
from regard.tasks.task import MEMORY, AskedTask, Batch, Loader, check_split, loader_of

USER, AGENT, FACT = range(UNKNOWN + 1, UNKNOWN + 4)
"""The words for the speaker of a sentence."""
HISTORY = 20_000


@dataclass(frozen=True)
class Config:
    """Which dialogues, and how much of them is in memory."""

    data: str = ""
    """A folder; empty to generate dialogues."""
    tasks: str = "1,5"
    """Their numbers, with commas between."""
    memory: int = 150
    """The most sentences in memory, the last ones."""
    batch: int = 32
    train_size: int = 200
    valid_size: int = 50
    test_size: int = 50
    """Dialogues to generate for each task."""

    def __post_init__(self) -> None:
        if not numbers(self.tasks):
            raise ValueError(f"tasks = {self.tasks!r}: numbers from 1 to 6 with commas between, each once")
        at_least(self, "memory", "batch", "train_size", "valid_size", "test_size")


def numbers(text: str) -> list[int]:
    """``1,5`` → 1, 5; nothing if that is not what it says."""
    pieces = [piece.strip() for piece in text.split(",")]
    right = all(piece in map(str, range(1, 7)) for piece in pieces) and len(set(pieces)) == len(pieces)
    return [int(piece) for piece in pieces] if right else []


class Item(NamedTuple):
    """A moment of a dialogue.

    Attributes:
        task: which network is to answer.
        sentences: word ids of what was said and looked up before, the oldest first, the speaker among them.
        labels: the same as text.
        said: ids of the user's last sentence.
        label: the right candidate, −1 where it is not known.
    """

    task: int
    sentences: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]
    said: tuple[int, ...]
    label: int = -1


class Held(NamedTuple):
    """The moments of one task and split: ``lines`` (N, J) are the sentences of all dialogues one after the other; the
    memory of moment i is lines ``begin[i]`` to ``end[i]`` − 1; ``said`` (M, J)."""

    lines: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    said: np.ndarray
    label: np.ndarray
    dialog: np.ndarray
    texts: list[str]


class DialogBabi(AskedTask):
    """Dialogues with candidates; see the module's docstring. What is known without the data: ``words``, ``candidates``
    and ``facts``."""

    kind: ClassVar[str] = "classifier"
    family: ClassVar[str] = MEMORY
    unit: ClassVar[str] = "responses"
    settings: ClassVar[type] = Config
    items: ClassVar[str] = "responses"
    learned_from = ("tasks", "train_size")
    title = "Book a table"
    verb = "Say"
    config: Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        self.tasks = numbers(config.tasks)
        self.classes = self.known["candidates"]
        self._ids = {word: number for number, word in enumerate(self.known["words"], FACT + 1)}
        self._age = FACT + 1 + len(self._ids)
        self._facts = [Fact(*fact.split(" ")) for fact in self.known["facts"]]
        self._moments = lru_cache(maxsize=len(SPLITS) * len(self.tasks))(self._encoded)

    def learn(self) -> dict[str, Any]:
        words = {word for dialog in self._dialogs("train") for turn in dialog for word in _words(*turn[:2])}
        words |= {word for candidate in self._candidates for word in _words(candidate)}
        facts = self._folder.facts() if self._folder else dialogs.made_facts()
        return {"words": sorted(words), "candidates": self._candidates, "facts": [" ".join(fact) for fact in facts]}

    @classmethod
    def unpack(cls, facts: dict[str, Any], folder: Any) -> dict[str, Any]:
        return {name: [str(text) for text in facts[name]] for name in ("words", "candidates", "facts")}

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "vocab": self._age + self.config.memory,
            "types": len(self._shared["types"]) + 1,
            "tasks": len(numbers(self.config.tasks)),
        }

    @property
    def asks(self) -> Mapping[str, Input]:  # type: ignore[override]
        names = tuple(map(str, self.tasks))
        which = Choice(names, default=names[-1], option=True, title="Task", about="Which network answers.")
        return {
            "text": Text(300, title="You say", default="", about="Nothing, if you only wait."),
            "history": Text(
                *(HISTORY, 0, 6), default="", title="Said before", about="A turn a line, you: … or agent: …; facts."
            ),
            **({"task": which} if len(names) > 1 else {}),
            "example": Number(0, 99999, default=None, optional=True, hidden=True, about="A moment of the test split."),
        }

    # -----------------------------------------------------------------------------------------------------------------
    # Dialogues

    @cached_property
    def _folder(self) -> Folder | None:
        where = self.data or self.config.data
        return Folder(locate(where)) if where else None

    @cached_property
    def _candidates(self) -> list[str]:
        return self._folder.candidates() if self._folder else dialogs.made_candidates()

    def _dialogs(self, split: str, task: int | None = None) -> list[Dialog]:
        """Of one task, or of all."""
        all_dialogs: list[Dialog] = []
        for number in numbers(self.config.tasks) if task is None else [task]:
            if self._folder:
                all_dialogs += self._folder.dialogs(number, split)
            else:
                size = getattr(self.config, f"{split}_size")
                all_dialogs += dialogs.made(number, size, random.Random(f"dialogues {number}: {split}"))
        return all_dialogs

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._ids.get(word, UNKNOWN) for word in _words(text))

    def _encoded(self, split: str, task: int) -> Held:
        places = {candidate: number for number, candidate in enumerate(self.classes)}
        lines: list[tuple[int, ...]] = []
        texts: list[str] = []
        moments = []
        heard: list[tuple[int, ...]] = []
        for number, dialog in enumerate(self._dialogs(split, task)):
            first = len(lines)
            for turn in dialog:
                if not turn.agent:
                    lines.append((FACT, *self._encode(turn.user)))
                    texts.append(turn.user)
                    continue
                if turn.agent not in places:
                    raise ValueError(f"{turn.place}: {turn.agent[:60]!r} is none of the {len(places):,} candidates")
                moments.append((first, len(lines), places[turn.agent], number))
                heard.append((USER, *self._encode(turn.user)))
                lines += [heard[-1], (AGENT, *self._encode(turn.agent))]
                texts += [f"{turns.YOU}: {turn.user}", f"{turns.AGENT}: {turn.agent}"]
        begin, end, label, dialog_of = np.array(moments, np.int64).T
        return Held(_table(lines), begin, end, _table(heard), label, dialog_of, texts)

    @cached_property
    def _shared(self) -> dict[str, Any]:
        """What is the same for all batches: candidates, their entities, and the type of each word."""
        kinds = {fact.value: fact.relation for fact in self._facts}
        types = sorted(set(kinds.values()))
        ids = [self._encode(candidate) for candidate in self.classes]
        type_of = np.zeros(self._age + self.config.memory, np.int64)
        for value, relation in kinds.items():
            if value in self._ids:
                type_of[self._ids[value]] = types.index(relation) + 1
        entities = [tuple(word for word in words if type_of[word]) for words in ids]
        arrays = {"candidates": _table(ids), "entities": _table(entities), "kinds": type_of}
        return {"types": types, "batch": {name: torch.from_numpy(array) for name, array in arrays.items()}}

    def _place(self, split: str, number: int) -> tuple[int, int]:
        """The task, and the moment of it, of an item of a split."""
        for place, task in enumerate(self.tasks):
            count = len(self._moments(split, task).label)
            if number < count:
                return place, number
            number -= count
        raise ValueError(f"the {split} split has {self.count(split):,} responses, from 0")

    def count(self, split: str) -> int:
        check_split(split)
        return sum(len(self._moments(split, task).label) for task in self.tasks)

    def item(self, split: str, number: int) -> Item:
        task, row = self._place(check_split(split), number)
        moments = self._moments(split, self.tasks[task])
        lines = range(max(moments.begin[row], moments.end[row] - self.config.memory), moments.end[row])
        sentences = tuple(tuple(int(word) for word in moments.lines[line] if word) for line in lines)
        question = tuple(int(word) for word in moments.said[row] if word)
        return Item(task, sentences, tuple(moments.texts[line] for line in lines), question, int(moments.label[row]))

    def read(self, question: Any) -> Item:
        if question.example is not None:
            return self.item("test", question.example)
        before = turns.read(question.history)[-self.config.memory :]
        speakers = {turns.YOU: USER, turns.AGENT: AGENT, "": FACT}
        sentences = tuple((speakers[one.speaker], *self._encode(one.text)) for one in before)
        labels = tuple(f"{one.speaker}: {one.text}" if one.speaker else one.text for one in before)
        task = self.tasks.index(int(question.task)) if len(self.tasks) > 1 else 0
        return Item(task, sentences, labels, (USER, *self._encode(question.text.strip() or dialogs.SILENCE)))

    def follow(self, question: Any, answer: str) -> dict[str, Any]:
        """The next turn: its history has this turn too, and the facts that answer a call."""
        if question.example is not None:
            return {}
        matches = dialogs.options(self._facts, answer) if answer.startswith(dialogs.CALL) else []
        facts = [" ".join(fact) for fact in matches]
        message = question.text.strip() or dialogs.SILENCE
        return {"text": "", "history": turns.add(question.history, message, answer, *facts, longest=HISTORY)}

    def suggested(self) -> list[dict[str, Any]]:
        """Two turns of a dialogue; at its very beginning there would be nothing to look at."""
        opening = "you: hello\nagent: hello what can i help you with today"
        later = f"{opening}\nyou: can you book a table with italian food\nagent: i'm on it"
        return [{"text": "can you book a table", "history": opening}, {"text": "<silence>", "history": later}]

    def axes(self, item: Item) -> dict[str, Axis]:
        """The memory, the oldest sentence first as it was said; a system sees the newest first."""
        count = len(item.labels)
        return {"sentences": Sentences(item.labels, list(range(count - 1, -1, -1)))} if count else {}

    def measure(self, split: str, found: Sequence[Any]) -> dict[str, float]:
        """For each task the share of right responses, and of dialogues all of whose responses are right, in percent;
        and the means of both."""
        right = [int(answer.probabilities.argmax()) == self.item(split, row).label for row, answer in enumerate(found)]
        values: dict[str, float] = {}
        first = 0
        for task in self.tasks:
            moments = self._moments(split, task)
            hits = np.array(right[first : first + len(moments.label)])
            first += len(moments.label)
            if not len(hits):
                continue
            whole = [hits[moments.dialog[: len(hits)] == one].all() for one in np.unique(moments.dialog[: len(hits)])]
            values[f"response, task {task}"] = 100 * float(hits.mean())
            values[f"dialog, task {task}"] = 100 * float(np.mean(whole))
        for name in ("response", "dialog"):
            values[name] = float(np.mean([value for key, value in values.items() if key.startswith(f"{name},")]))
        return values

    # -----------------------------------------------------------------------------------------------------------------
    # Batches

    def _batch(self, task: int, moments: Held, rows: np.ndarray) -> Batch:
        begin, end = moments.begin[rows], moments.end[rows]
        longest = int(np.minimum(end - begin, self.config.memory).max(initial=0))
        ages = np.arange(max(longest, 1))
        index = end[:, None] - 1 - ages
        real = (index >= begin[:, None]) & (ages < self.config.memory)
        words = np.where(real[..., None], moments.lines[np.maximum(index, 0)], 0) if len(moments.lines) else None
        if words is None:
            words = np.zeros((*real.shape, 1), np.int64)
        aged = np.concatenate([words[..., :1], np.where(real, self._age + ages, 0)[..., None], words[..., 1:]], -1)
        arrays = {"memory": aged, "question": moments.said[rows], "label": moments.label[rows]}
        arrays["task"] = np.full(len(rows), task)
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(array.astype(np.int64))) for name, array in arrays.items()
        }
        return tensors | self._shared["batch"]

    def batches(self, items: Sequence[Item]) -> Iterator[tuple[np.ndarray, Batch]]:
        for task in sorted({item.task for item in items}):
            rows = np.array([row for row, item in enumerate(items) if item.task == task])
            chosen = [items[row] for row in rows]
            ends = np.cumsum([len(item.sentences) for item in chosen])
            begins = ends - [len(item.sentences) for item in chosen]
            lines = _table([line for item in chosen for line in item.sentences])
            label = np.array([item.label for item in chosen])
            moments = Held(lines, begins, ends, _table([item.said for item in chosen]), label, label, [])
            for first in range(0, len(rows), self.config.batch):
                part = np.arange(first, min(first + self.config.batch, len(rows)))
                yield rows[part], self._batch(task, moments, part)

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        by_task = [self._moments(split, task) for task in self.tasks]
        size = self.config.batch

        @lru_cache(maxsize=1)
        def plan(epoch: int) -> list[tuple[int, np.ndarray]]:
            batches = []
            for task, moments in enumerate(by_task):
                chance = np.random.default_rng([seed, epoch, task])
                order = chance.permutation(len(moments.label)) if shuffle else np.arange(len(moments.label))
                batches += [(task, order[first : first + size]) for first in range(0, len(order), size)]
            if not shuffle:
                return batches
            return [batches[place] for place in np.random.default_rng([seed, epoch]).permutation(len(batches))]

        content = 0
        for moments in by_task:
            content = zlib.crc32(moments.lines.tobytes() + moments.label.tobytes(), content)
        identity = {**self.identity(split, seed, shuffle), "content": content}
        count = sum(len(moments.label) for moments in by_task)
        report = (
            f"{count:,} responses in {len(by_task)} tasks, {len(self.classes):,} candidates, {len(plan(0)):,} batches"
        )

        def make(epoch: int, number: int) -> Batch:
            task, rows = plan(epoch)[number]
            return self._batch(task, by_task[task], rows)

        return loader_of(make, len(plan(0)), identity, report)


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in text.lower().split()]


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """(N, longest) with zeros behind; at least one column."""
    table = np.zeros((len(rows), max(1, *(len(row) for row in rows), 1)), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table
