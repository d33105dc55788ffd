"""Stories with questions: how they are read, what words they have, and batches of them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard._lazy import nearest

Batch = dict[str, Tensor]


class Question(NamedTuple):
    """A question with all that was said before it.

    Attributes:
        story: sentences, the oldest first.
        question: ends with "?".
        answer: None if it is to be found.
        support: numbers of the sentences that lead to the answer, from 0, in the order of reasoning.
        places: where each sentence, and last the question, stands: ``file, line 3``.
    """

    story: tuple[str, ...]
    question: str
    answer: str | None
    support: tuple[int, ...]
    places: tuple[str, ...]


def words(text: str) -> list[str]:
    """Lower-case words; punctuation separates them and is left out."""
    return re.findall(r"\w+(?:['’-]\w+)*", text.lower())


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_babi(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions from text in bAbI's format: ``3 Where is Mary?⇥bathroom⇥1``; a line numbered 1 begins a new story."""
    story: list[str] = []
    places: list[str] = []
    numbers: dict[str, int] = {}  # line number within the story → sentence
    last = 0
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            continue
        number, _, text = line.rstrip("\n").partition(" ")
        if not number.isdigit() or not text.strip():
            raise ValueError(f"{place}: a line is a number, a blank and a sentence, not {line.rstrip()[:60]!r}")
        if int(number) == 1:
            story, places, numbers = [], [], {}
        elif int(number) != last + 1:
            raise ValueError(f"{place}: number {number} follows {last}; a story counts from 1 without gaps")
        last = int(number)
        if "\t" not in text:
            if text.rstrip().endswith("?"):
                raise ValueError(f"{place}: a question without an answer; they are separated by tabs")
            numbers[number] = len(story)
            story.append(text.strip())
            places.append(place)
            continue
        question, answer, *facts = (field.strip() for field in text.split("\t"))
        if not question or not answer or len(facts) > 1:
            raise ValueError(f"{place}: a question is question, tab, answer, tab, line numbers; not {text[:60]!r}")
        if not story:
            raise ValueError(f"{place}: a question before any sentence of its story")
        support = []
        for fact in facts[0].split() if facts else ():
            if fact not in numbers:
                raise ValueError(f"{place}: the supporting fact {fact!r} is no sentence before it in this story")
            support.append(numbers[fact])
        yield Question(tuple(story), question, answer, tuple(support), (*places, place))


def read_json(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions from JSON lines: ``story`` (a text or a list of sentences), ``question``, ``answer`` and, if known,
    ``support``, the numbers of the sentences that lead to it, from 1."""
    keys = ("story", "question", "answer", "support")
    for count, line in enumerate(lines, 1):
        place = f"{name}, line {count}"
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{place}: not JSON: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{place}: an object with story, question and answer, not {line.strip()[:60]!r}")
        for key in found:
            if key not in keys:
                raise ValueError(f"{place}: no key is called {key!r}: {nearest(key, keys)}")
        for key in ("question", "answer"):
            if not isinstance(found.get(key), str) or not found[key].strip():
                raise ValueError(f"{place}: {key!r} must be a text")
        story = found.get("story")
        story = sentences(story) if isinstance(story, str) else story
        if not isinstance(story, list) or not story or not all(isinstance(one, str) and words(one) for one in story):
            raise ValueError(f"{place}: 'story' must be a text or a list of sentences, and not empty")
        support = found.get("support", [])
        if not isinstance(support, list) or not all(type(n) is int and 1 <= n <= len(story) for n in support):
            raise ValueError(f"{place}: 'support' must be numbers of sentences, from 1 to {len(story)}; not {support}")
        facts = tuple(number - 1 for number in support)
        yield Question(tuple(story), found["question"], found["answer"], facts, (place,) * (len(story) + 1))


def read_typed(lines: Iterable[str], name: str) -> Iterator[Question]:
    """Questions as one types them: sentences, then a question that ends with "?"; an empty line ends the story. Lines
    of bAbI's format are taken too, with or without answers."""
    story: list[str] = []
    places: list[str] = []
    asked = started = False
    for count, line in enumerate([*lines, ""], 1):
        place = f"{name}, line {count}"
        number, _, rest = line.strip().partition(" ")
        text = rest.strip() if number.isdigit() and rest.strip() else line.strip()
        ends = not text or (number == "1" and text != line.strip())  # a numbered line 1 begins a new story too
        if ends:
            if story and not asked:
                raise ValueError(f"{places[-1]}: {_unasked(story[-1])}")
            story, places, asked = [], [], False
        if not text:
            continue
        started = True
        text, tab, answer = text.partition("\t")
        answer = answer.partition("\t")[0].strip()
        for sentence in sentences(text):
            if not sentence.endswith("?"):
                if tab:
                    raise ValueError(f"{place}: an answer behind what is no question: it does not end with '?'")
                if words(sentence):
                    story.append(sentence)
                    places.append(place)
                continue
            if not story:
                raise ValueError(f"{place}: a question without a story: sentences come before it")
            yield Question(tuple(story), sentence, answer or None, (), (*places, place))
            asked = True
    if not started:
        raise ValueError(f"{name}: there is nothing in it; type sentences, and then a question that ends with '?'")


def _unasked(last: str) -> str:
    if words(last)[0] in ("where", "what", "who", "why", "how", "which", "when", "is", "are", "does", "do", "did"):
        return f"a story without a question; if {last!r} is meant as one, end it with '?'"
    return "a story without a question; end it with one, such as 'Where is Mary?'"


def sentences(text: str) -> list[str]:
    """A text cut after each full stop, question or exclamation mark, and at line ends."""
    return [piece.strip() for piece in re.split(r"(?<=[.?!])\s+|\n+", text) if piece.strip()]


def read(path: Path) -> list[Question]:
    """All questions of a file, bAbI's text or JSON lines."""
    reader = read_json if path.suffix in (".jsonl", ".json") else read_babi
    try:
        found = list(reader(path.read_text(encoding="utf-8").split("\n"), str(path)))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 ({error})") from None
    if not found:
        raise ValueError(f"{path}: there is no question in it")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Words and batches


class Vocabulary:
    """The words of a task; number 0 is the null word. Answers count as one word, however many things they list."""

    def __init__(self, known: Sequence[str], asked: Iterable[str] = ()):
        self.known = list(known)
        self.asked = set(asked)
        """Those that questions are made of."""
        self.numbers = {word: number for number, word in enumerate(self.known, 1)}

    @classmethod
    def of(cls, questions: Iterable[Question]) -> Vocabulary:
        """All words of stories, questions and answers."""
        told: set[str] = set()
        asked: set[str] = set()
        answers: set[str] = set()
        seen: set[str] = set()
        for question in questions:
            told.update(sentence for sentence in question.story)
            asked.update(words(question.question))
            if question.answer is not None:
                answers.add(question.answer.lower())
        for sentence in told:
            seen.update(words(sentence))
        return cls(sorted(seen | asked | answers), asked)

    def __len__(self) -> int:
        return len(self.known) + 1

    def ids(self, text: str, place: str | None = None) -> list[int]:
        """The numbers of the words of a sentence. A word that is not known is left out or, if ``place`` says where the
        sentence stands, an error."""
        found = words(text)
        for word in found if place is not None else ():
            if word not in self.numbers:
                raise ValueError(
                    f"{place}: the word {word!r} was in no story that the model learned from: {_like(word, self.known)}"
                )
        return [self.numbers[word] for word in found if word in self.numbers]


def _like(word: str, known: Sequence[str]) -> str:
    text = nearest(word, known)
    return text if len(text) < 400 else text[:400].rpartition(",")[0] + " …"


class Table(NamedTuple):
    """Encoded questions of one task.

    Attributes:
        story: (N, S, J) word ids, the newest sentence first, 0 for padding.
        question: (N, J).
        answer: (N,), 0 where the word is not known, −1 where none is given.
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

        told = [[ids(*said) for said in zip(one.story[::-1], one.places[-2::-1])][:memory] for one in questions]
        asked = [ids(one.question, one.places[-1]) for one in questions]
        deepest = max((len(story) for story in told), default=1)
        widest = max([1, *(len(one) for story in told for one in story), *map(len, asked)])
        facts = max([1, *(len(one.support) for one in questions)])
        kind = np.int16 if len(vocabulary) < 2**15 else np.int32
        story = np.zeros((len(questions), deepest, widest), kind)
        question = np.zeros((len(questions), widest), kind)
        support = np.full((len(questions), facts), -1, np.int16 if memory < 2**15 else np.int32)
        for row, one in enumerate(questions):
            for place, sentence in enumerate(told[row]):
                story[row, place, : len(sentence)] = sentence
            question[row, : len(asked[row])] = asked[row]
            back = [len(one.story) - 1 - fact for fact in one.support]
            support[row, : len(back)] = [place if place < len(told[row]) else -2 for place in back]
        given = [-1 if one.answer is None else vocabulary.numbers.get(one.answer.lower(), 0) for one in questions]
        return cls(story, question, np.array(given, np.int64), support)


def batch(tables: Sequence[Table], rows: Sequence[np.ndarray]) -> Batch:
    """The rows of each task, side by side: ``story`` (B, G, S, J), ``question`` (B, G, J), ``answer`` (B, G) and
    ``support`` (B, G, H). A row of −1 is empty, with the answer −1."""
    chosen = [table.story[index] for table, index in zip(tables, rows)]
    lengths = [(story.any(-1) & (index >= 0)[:, None]).any(0) for story, index in zip(chosen, rows)]
    deep = max(1, *(int(np.flatnonzero(one)[-1]) + 1 if one.any() else 1 for one in lengths))
    wide = max(table.question.shape[1] for table in tables)
    facts = max(table.support.shape[1] for table in tables)
    size = (len(rows[0]), len(tables))
    story = np.zeros((*size, deep, wide), np.int64)
    question, support = np.zeros((*size, wide), np.int64), np.full((*size, facts), -1, np.int64)
    answer = np.full(size, -1, np.int64)
    for g, (table, told, index) in enumerate(zip(tables, chosen, rows)):
        real = index >= 0
        part = told[:, :deep]
        story[:, g, : part.shape[1], : part.shape[2]] = np.where(real[:, None, None], part, 0)
        question[:, g, : table.question.shape[1]] = np.where(real[:, None], table.question[index], 0)
        answer[:, g] = np.where(real, table.answer[index], -1)
        support[:, g, : table.support.shape[1]] = np.where(real[:, None], table.support[index], -1)
    arrays = {"story": story, "question": question, "answer": answer, "support": support}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Loader:
    """Batches of one split; iterating gives the rest of the current epoch and then moves on to the next.

    Shuffled, every task has its own order, and each batch is full: an epoch is as long as the largest task has whole
    batches, and a smaller task starts again meanwhile. In order, every question comes once, and where a task has no
    more of them its rows are empty.
    """

    def __init__(
        self, tables: Sequence[Table], size: int, *, seed: int = 0, shuffle: bool = True, validation: bool = False
    ):
        self.tables, self.size, self.seed, self.shuffle, self.validation = list(tables), size, seed, shuffle, validation
        lengths = [len(table.answer) for table in tables]
        self._length = max(1, max(lengths) // size) if shuffle else -(-max(lengths) // size)
        text = 0
        for table in tables:
            for array in table:
                text = zlib.crc32(array.tobytes(), text)
        self._identity = {"seed": seed, "shuffle": shuffle, "batch": size, "questions": lengths, "text": text}
        self.epoch = self._batch = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        plan = [self._rows(task) for task in range(len(self.tables))]
        while self._batch < self._length:
            self._batch += 1
            here = slice((self._batch - 1) * self.size, self._batch * self.size)
            made = batch(self.tables, [rows[here] for rows in plan])
            if self.validation:
                made["validation"] = torch.tensor(True)
            yield made
        self.epoch, self._batch = self.epoch + 1, 0

    def _rows(self, task: int) -> np.ndarray:
        """The rows of a task for a whole epoch."""
        number, wanted = len(self.tables[task].answer), self._length * self.size
        if not self.shuffle:
            wanted = min(wanted, max(len(table.answer) for table in self.tables))
            return np.where(np.arange(wanted) < number, np.arange(wanted), -1)
        random = np.random.default_rng([self.seed, self.epoch, task])
        return np.concatenate([random.permutation(number) for _ in range(-(-wanted // number))])[:wanted]

    def report(self) -> str:
        """What there is."""
        questions = sum(len(table.answer) for table in self.tables)
        tasks = f" in {len(self.tables)} tasks" if len(self.tables) > 1 else ""
        longest = max(table.story.shape[1] for table in self.tables)
        return f"{questions:,} questions{tasks}, stories of up to {longest} sentences, {len(self):,} batches"

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as JSON can hold it."""
        return {"epoch": self.epoch, "batch": self._batch, "of": dict(self._identity)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the loader of ``state`` was."""
        if state["of"] != self._identity:
            changed = [
                f"{name} was {state['of'].get(name)!r} and is {value!r}"
                for name, value in self._identity.items()
                if state["of"].get(name) != value
            ]
            raise ValueError(f"the data cannot go on where it stopped: {', '.join(changed)}")
        self.epoch, self._batch = state["epoch"], state["batch"]
