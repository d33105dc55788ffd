"""Stories as numbers: the words of a task, tables of questions, and batches of several tasks side by side."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest
from regard.data.stories import Question, words
from regard.tasks.task import Loader, loader_of

Batch = dict[str, Tensor]


class Vocabulary:
    """The words of a task; number 0 is the null word. Answers count as one word, however many things they list."""

    def __init__(self, known: Sequence[str], asked: Iterable[str] = ()):
        self.known = list(known)
        self.asked = set(asked)
        """The words that occur in questions."""
        self.numbers = {word: number for number, word in enumerate(self.known, 1)}

    @classmethod
    def of(cls, questions: Iterable[Question]) -> Vocabulary:
        """All words of stories, questions and answers."""
        sentences: set[str] = set()
        question_words: set[str] = set()
        answers: set[str] = set()
        story_words: set[str] = set()
        for question in questions:
            sentences.update(sentence for sentence in question.story)
            question_words.update(words(question.question))
            if question.answer is not None:
                answers.add(question.answer.lower())
        for sentence in sentences:
            story_words.update(words(sentence))
        return cls(sorted(story_words | question_words | answers), question_words)

    def __len__(self) -> int:
        return len(self.known) + 1

    def ids(self, text: str, place: str | None = None) -> list[int]:
        """The numbers of the words of a sentence. An unknown word is left out or, if ``place`` is given, the place of
        the sentence, an error."""
        tokens = words(text)
        for word in tokens if place is not None else ():
            if word not in self.numbers:
                raise ValueError(
                    f"{place}: the word {word!r} was in no story that the model learned from: {_like(word, self.known)}"
                )
        return [self.numbers[word] for word in tokens if word in self.numbers]


def _like(word: str, known: Sequence[str]) -> str:
    text = nearest(word, known)
    return text if len(text) < 400 else text[:400].rpartition(",")[0] + " …"


class Table(NamedTuple):
    """Encoded questions of one task.

    Attributes:
        story: (N, S, J) word ids, the newest sentence first, 0 for padding.
        question: (N, J).
        answer: (N,), 0 where the word is unknown, −1 where there is no answer.
        support: (N, H), places in ``story``; −1 for no more of them, −2 for one that the memory no longer holds.
    """

    story: np.ndarray
    question: np.ndarray
    answer: np.ndarray
    support: np.ndarray

    @classmethod
    def of(cls, questions: Sequence[Question], vocabulary: Vocabulary, memory: int, *, strict: bool = False) -> Table:
        """Questions with the last ``memory`` sentences of their stories; ``strict``: an unknown word is an error."""
        cache: dict[str, list[int]] = {}

        def ids(text: str, place: str) -> list[int]:
            if strict:
                return vocabulary.ids(text, place)
            if text not in cache:
                cache[text] = vocabulary.ids(text)
            return cache[text]

        # In the order of reading, so that an error names the first unknown word; then the newest first.
        stories = [[ids(*line) for line in zip(one.story, one.places)][::-1][:memory] for one in questions]
        question_ids = [ids(one.question, one.places[-1]) for one in questions]
        deepest = max((len(story) for story in stories), default=1)
        widest = max([1, *(len(sentence) for story in stories for sentence in story), *map(len, question_ids)])
        facts = max([1, *(len(one.support) for one in questions)])
        kind = np.int16 if len(vocabulary) < 2**15 else np.int32
        story = np.zeros((len(questions), deepest, widest), kind)
        question = np.zeros((len(questions), widest), kind)
        support = np.full((len(questions), facts), -1, np.int16 if memory < 2**15 else np.int32)
        for row, one in enumerate(questions):
            for place, sentence in enumerate(stories[row]):
                story[row, place, : len(sentence)] = sentence
            question[row, : len(question_ids[row])] = question_ids[row]
            back = [len(one.story) - 1 - fact for fact in one.support]
            support[row, : len(back)] = [place if place < len(stories[row]) else -2 for place in back]
        answers = [-1 if one.answer is None else vocabulary.numbers.get(one.answer.lower(), 0) for one in questions]
        return cls(story, question, np.array(answers, np.int64), support)


def batch(tables: Sequence[Table], rows: Sequence[np.ndarray]) -> Batch:
    """The rows of each task, side by side: ``story`` (B, G, S, J), ``question`` (B, G, J), ``answer`` (B, G) and
    ``support`` (B, G, H). A row of −1 is empty, with the answer −1."""
    chosen = [table.story[index] for table, index in zip(tables, rows)]
    lengths = [(story.any(-1) & (index >= 0)[:, None]).any(0) for story, index in zip(chosen, rows)]
    deep = max(1, *(int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else 1 for filled in lengths))
    wide = max(table.question.shape[1] for table in tables)
    facts = max(table.support.shape[1] for table in tables)
    size = (len(rows[0]), len(tables))
    story = np.zeros((*size, deep, wide), np.int64)
    question, support = np.zeros((*size, wide), np.int64), np.full((*size, facts), -1, np.int64)
    answer = np.full(size, -1, np.int64)
    for g, (table, sentences, index) in enumerate(zip(tables, chosen, rows)):
        real = index >= 0
        part = sentences[:, :deep]
        story[:, g, : part.shape[1], : part.shape[2]] = np.where(real[:, None, None], part, 0)
        question[:, g, : table.question.shape[1]] = np.where(real[:, None], table.question[index], 0)
        answer[:, g] = np.where(real, table.answer[index], -1)
        support[:, g, : table.support.shape[1]] = np.where(real[:, None], table.support[index], -1)
    arrays = {"story": story, "question": question, "answer": answer, "support": support}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def story_loader(
    tables: Sequence[Table], size: int, *, seed: int = 0, shuffle: bool = True, validation: bool = False
) -> Loader:
    """Batches of one split.

    Shuffled, every task has its own order, and each batch is full: an epoch is as long as the largest task has whole
    batches, and a smaller task starts again meanwhile. In order, every question comes once, and where a task has no
    more of them its rows are empty.
    """
    lengths = [len(table.answer) for table in tables]
    batches = max(1, max(lengths) // size) if shuffle else -(-max(lengths) // size)

    def rows(epoch: int, task: int) -> np.ndarray:
        """The rows of a task for a whole epoch."""
        number, needed = lengths[task], batches * size
        if not shuffle:
            order = np.arange(min(needed, max(lengths)))
            return np.where(order < number, order, -1)
        random = np.random.default_rng([seed, epoch, task])
        return np.concatenate([random.permutation(number) for _ in range(-(-needed // number))])[:needed]

    @lru_cache(maxsize=1)
    def plan(epoch: int) -> list[np.ndarray]:
        return [rows(epoch, task) for task in range(len(tables))]

    def make(epoch: int, number: int) -> Batch:
        here = slice(number * size, (number + 1) * size)
        content = batch(tables, [task_rows[here] for task_rows in plan(epoch)])
        return content | {"validation": torch.tensor(True)} if validation else content

    text = 0
    for table in tables:
        for array in table:
            text = zlib.crc32(array.tobytes(), text)
    identity = {"seed": seed, "shuffle": shuffle, "batch": size, "questions": lengths, "text": text}
    tasks = f" in {len(tables)} tasks" if len(tables) > 1 else ""
    longest = max(table.story.shape[1] for table in tables)
    report = f"{sum(lengths):,} questions{tasks}, stories of up to {longest} sentences, {batches:,} batches"
    return loader_of(make, batches, identity, report)
