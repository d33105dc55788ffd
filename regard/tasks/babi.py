"""Questions about little stories: bAbI's twenty tasks, generated ones, or one's own.

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary?        bathroom        1

Weston et al. 2015, *Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks* (arXiv:1502.05698). The
data is the published folder (``tasks_1-20_v1-2``, found by itself inside a folder ``babi``), or files of JSON lines,
``{"story": […], "question": "…", "answer": "…"}``, called train, valid and test, or one file, of which a tenth is held
out for each. Without data the tasks 1, 2, 3, 6, 15 and 16 are generated in the same format.

A tenth of the training questions, the last ones, are for validation. Each task has its own words; questions are
not part of the stories of later questions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard._lazy import nearest
from regard._settings import at_least
from regard.data import stories, worlds
from regard.data.download import locate
from regard.data.stories import Question
from regard.tasks import _stories
from regard.tasks._stories import Batch, Table, Vocabulary
from regard.tasks.task import MEMORY, Loader, Task, check_split


@dataclass(frozen=True)
class Config:
    """Which stories, and how many of their questions go into a batch."""

    tasks: str = "1"
    """Numbers of bAbI's tasks: ``1``, ``1,2,16`` or ``1-20``. Not used with one's own stories."""
    data: str = ""
    """A folder, a file, or the name of a known data set such as ``babi``; empty to generate."""
    version: str = "en"
    """The folder of the published data: ``en``, ``en-10k``, ``shuffled`` …"""
    joint: bool = False
    """One model for all tasks, with all their words, instead of one for each."""
    memory: int = 50
    """The most sentences of a story in memory, the last ones."""
    batch: int = 32
    """Questions of each task in a batch."""
    valid: float = 0.1
    """Share of the training questions that validation takes, unless it has a file."""
    train_size: int = 1000
    """Questions to generate, validation included."""
    test_size: int = 1000

    def __post_init__(self) -> None:
        numbers(self.tasks)
        at_least(self, "memory", "batch", "train_size", "test_size")
        if not 0.0 < self.valid < 1.0:
            raise ValueError(f"valid = {self.valid}: it is a share between 0 and 1")


def numbers(text: str) -> list[int]:
    """``1,3-5`` → 1, 3, 4, 5."""
    tasks: list[int] = []
    for piece in text.split(","):
        ends = piece.strip().split("-")
        if not all(end.strip().isdigit() and 1 <= int(end) <= 20 for end in ends) or len(ends) > 2:
            raise ValueError(f'tasks = {text!r}: numbers from 1 to 20, such as "1", "1,2,16" or "1-20"')
        tasks += range(int(ends[0]), int(ends[-1]) + 1)
    if not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(f"tasks = {text!r} names a task twice, or none")
    return tasks


class Babi(Task):
    """Stories, questions and one-word answers; see the module's docstring.

    A batch has ``story`` (B, G, S, J), the newest sentence first, ``question`` (B, G, J), ``answer`` (B, G) and
    ``support`` (B, G, H), for G tasks side by side; see :mod:`regard.tasks._stories`. Joint training is G = 1.
    """

    kind: ClassVar[str] = "stories"
    family: ClassVar[str] = MEMORY
    unit: ClassVar[str] = "questions"
    settings: ClassVar[type] = Config

    def __init__(self, config: Config, data: Any = None, *, known: Mapping[str, Any] | None = None):
        super().__init__(config, data, known=known)
        learned = self.known["known"]
        self.names, self.memory = list(learned["names"]), list(learned["memory"])
        self.vocabularies = [Vocabulary(words["known"], words["asked"]) for words in learned["words"]]

    def learn(self) -> dict[str, Any]:
        """The names of the tasks, and for each model its words and the sentences of its memory."""
        train, valid = self.questions("train"), self.questions("valid")
        groups = [[*train[name], *valid[name]] for name in train]
        if self.config.joint:
            groups = [[question for group in groups for question in group]]
        vocabularies = [Vocabulary.of(group) for group in groups]
        memory = [min(max(len(question.story) for question in group), self.config.memory) for group in groups]
        words = [{"known": one.known, "asked": sorted(one.asked)} for one in vocabularies]
        return {"known": {"names": list(train), "memory": memory, "words": words}}

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """What a system must know: the words and the sentences of each task's memory."""
        return {"words": tuple(map(len, self.vocabularies)), "memory": tuple(self.memory)}

    def home(self, name: str) -> int:
        """The number of the model that answers a task."""
        if name not in self.names:
            raise ValueError(f"no task here is called {name!r}: {nearest(name, self.names)}")
        return 0 if self.config.joint else self.names.index(name)

    def questions(self, split: str) -> dict[str, list[Question]]:
        """The questions of a split by the name of their task."""
        check_split(split)
        return {name: splits[split] for name, splits in self._splits.items()}

    @cached_property
    def _splits(self) -> dict[str, dict[str, list[Question]]]:
        config = self.config
        where = self.data or config.data
        if not where:
            return {str(task): self._generated(task) for task in numbers(config.tasks)}
        path = locate(where)
        own = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
        if own:
            return {"stories": _own(path, own, config.valid)}
        files = {task: _published(path, config.version, task) for task in numbers(config.tasks)}
        splits = {}
        for task, (train, test) in files.items():
            valid, rest = _held_out(stories.read(train), config.valid, str(train))
            splits[str(task)] = {"train": rest, "valid": valid, "test": stories.read(test)}
        return splits

    def _generated(self, task: int) -> dict[str, list[Question]]:
        splits = {}
        for split, size in (("train", self.config.train_size), ("test", self.config.test_size)):
            lines = worlds.generate(task, size, random.Random(f"babi {task}: {split}"))
            splits[split] = list(stories.read_babi(lines, f"generated task {task}, {split}"))[:size]
        valid, rest = _held_out(splits["train"], self.config.valid, f"generated task {task}")
        return {"train": rest, "valid": valid, "test": splits["test"]}

    def table(self, questions: Sequence[Question], home: int = 0, *, strict: bool = False) -> Table:
        """Questions in the words of one model; ``strict``: an unknown word is an error that says where it stands."""
        return Table.of(questions, self.vocabularies[home], self.memory[home], strict=strict)

    def batches(self, questions: Sequence[Question], home: int = 0, *, size: int = 500) -> list[Batch]:
        """Questions for one model, in order, with G = 1."""
        table = self.table(questions, home)
        rows = np.arange(len(questions))
        return [_stories.batch([table], [rows[first : first + size]]) for first in range(0, len(rows), size)]

    def batches_of(self, split: str, seed: int, shuffle: bool) -> Loader:
        groups = list(self.questions(split).values())
        if self.config.joint:
            groups = [[question for group in groups for question in group]]
        tables = [self.table(group, home) for home, group in enumerate(groups)]
        size = self.config.batch if split == "train" else max(self.config.batch, 100)
        return _stories.story_loader(tables, size, seed=seed, shuffle=shuffle, validation=split == "valid")


def _published(path: Path, version: str, task: int) -> tuple[Path, Path]:
    """The training and the test file of a task, wherever in the folder they lie."""
    places = [path, path / version, path / "tasks_1-20_v1-2" / version]
    for place in places:
        matches = [sorted(place.glob(f"qa{task}_*_{split}.txt")) for split in ("train", "test")]
        if all(matches):
            return matches[0][0], matches[1][0]
    present = sorted(
        {
            name[0]
            for place in places
            for file in place.glob("qa*_train.txt")
            if (name := re.findall(r"qa\d+", file.name))
        }
    )
    raise ValueError(
        f"{path}: no files qa{task}_…_train.txt and qa{task}_…_test.txt in it, in {version}/ or in "
        f"tasks_1-20_v1-2/{version}/; there are {', '.join(present) or 'none of any task'}"
    )


def _own(path: Path, files: Sequence[Path], share: float) -> dict[str, list[Question]]:
    """One's own stories: files that start with train, val or dev, and test; or one file of everything."""
    if path.is_file():
        rest = stories.read(path)
        test, rest = _held_out(rest, share, str(path))
        valid, rest = _held_out(rest, share, str(path))
        return {"train": rest, "valid": valid, "test": test}
    splits = {}
    for split, starts in {"train": ("train",), "valid": ("val", "dev"), "test": ("test",)}.items():
        match = [file for file in files if file.name.startswith(starts)]
        if len(match) > 1:
            raise ValueError(f"{path}: which is for {split}? {', '.join(file.name for file in match)}")
        if match:
            splits[split] = stories.read(match[0])
    if "train" not in splits:
        raise ValueError(f"{path}: there is no train.jsonl in it, only {', '.join(file.name for file in files)}")
    for split in ("test", "valid"):
        if split not in splits:
            splits[split], splits["train"] = _held_out(splits["train"], share, str(path))
    return splits


def _held_out(questions: list[Question], share: float, name: str) -> tuple[list[Question], list[Question]]:
    """The last questions, and the others."""
    number = max(1, round(share * len(questions)))
    if number >= len(questions):
        raise ValueError(f"{name}: {len(questions)} questions are too few to hold some out")
    return questions[-number:], questions[:-number]
