"""Which entity is missing? Stories with a question that has a hole in it.

    @entity4 sued @entity9 over a broken promise . later @entity9 hired @entity2 as an adviser .
    a judge hears @placeholder against @entity9        →  @entity4

Hermann et al. 2015, *Teaching Machines to Read and Comprehend* (arXiv:1506.03340). Entities are anonymous: markers
are assigned to them anew for every question in every epoch, so that an answer can come from the document alone and
not from knowledge of the world.

The data is the published one, a folder with ``training``, ``validation`` and ``test`` in it (or with ``questions``,
which holds them), full of ``.question`` files: address, document, question, answer and the names of the entities,
separated by empty lines. Without data, stories are generated: facts about two entities each, worded in one of two ways
and asked about in one of two others. One more fact has the same relation, one more the same entity, so that neither
alone gives the answer. Training also has shorter stories, down to one fact, without which a reader does not begin to
learn. In the generated world most things happen between the same two entities; with ``permute = false`` training shows
each entity under its own marker, and a reader learns these habits instead of reading. Validation and test always
permute.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard._lazy import nearest
from regard._settings import at_least
from regard.data.cloze import FOLDERS, HOLE, MARK, question, read_folder, stories
from regard.data.download import locate
from regard.data.passages import Question, Text, Typed
from regard.tasks._passages import UNKNOWN, Encoded, Passages


@dataclass(frozen=True)
class Config:
    """Which stories, and how they are read.

    Attributes:
        data: a folder, or the name of a known data set; empty to generate stories.
        entities: markers, and entities of the generated world.
        permute: assign markers anew for each question in training.
        facts: in a story; in training from one to this many.
        habit: how often a generated fact is the usual one.
        train_size, test_size: questions to generate; validation has as many as the test.
        batch: questions to a batch.
        longest: words of a document that are read; the rest is left out.
        words, least: size of the vocabulary, and how often a word must occur to be in it.
    """

    data: str = ""
    entities: int = 20
    permute: bool = True
    facts: int = 6
    habit: float = 0.8
    train_size: int = 40_000
    test_size: int = 1000
    batch: int = 32
    longest: int = 1000
    words: int = 50_000
    least: int = 1

    def __post_init__(self) -> None:
        at_least(self, "train_size", "test_size", "batch", "longest", "words", facts=3)
        if self.entities < 2 * self.facts:
            raise ValueError(f"entities = {self.entities}: {self.facts} facts need at least {2 * self.facts}")
        if not 0.0 <= self.habit <= 1.0:
            raise ValueError(f"habit = {self.habit}: it is a share between 0 and 1")


class Cloze(Passages):
    """Stories with questions that have a hole; see the module's docstring.

    A batch has ``document`` (B, S), ``question`` (B, Q), their lengths, and ``answer`` (B,), the number of a marker.
    """

    settings: ClassVar[type] = Config

    @property
    def markers(self) -> int:
        return self.config.entities

    def splits(self) -> dict[str, list[Question]]:
        config = self.config
        where = self.data or config.data
        if where:
            return read_folder(locate(where))
        splits = {}
        for split in FOLDERS:
            size, least = (config.train_size, 1) if split == "train" else (config.test_size, config.facts)
            dice = random.Random(f"cloze: {split}")
            questions = stories(size, least, config.facts, config.entities, config.habit, dice)
            splits[split] = [
                question(*one, f"made story {number} of {split}") for number, one in enumerate(questions, 1)
            ]
        return splits

    def typed(self, one: Typed) -> Question:
        """Entities are words that begin with @, and names: words with a capital letter outside the vocabulary."""
        story, query = (self._join_names(Text.of(re.sub(r"\b__+\b", HOLE, text))) for text in (one.story, one.question))
        self.readable(story, one.place)
        if query.words.count(HOLE) != 1:
            raise ValueError(f"{one.place}: the question must have one hole, {HOLE} or ___, where the answer goes")
        names = frozenset(
            word for word in (*story.words, *query.words) if word != HOLE and (word[0] == "@" or self._name(word))
        )
        if not names & set(story.words):
            raise ValueError(
                f"{one.place}: there is no entity in the story; those are words with a capital letter such as 'Mary' "
                f"that are not words of the data, or such as '{MARK}1'"
            )
        if self.closed:
            for word in (*story.words, *query.words):
                if word not in names and word.lower() not in self.numbers:
                    hint = nearest(word.lower(), self.numbers)[:300]
                    raise ValueError(f"{one.place}: the word {word!r} was in no story that the model learned: {hint} …")
        answers = () if one.answer is None else (one.answer,)
        return Question(story, query, answers, names=names, place=one.place)

    def _name(self, word: str) -> bool:
        return word[0].isupper() and word.lower() not in self.numbers

    def _join_names(self, text: Text) -> Text:
        """The text with names of several words, "Mary Ann", as one word each."""
        words: list[str] = []
        places: list[tuple[int, int]] = []
        for word, (start, end) in zip(text.words, text.places):
            if words and self._name(word) and self._name(words[-1]) and text.raw[places[-1][1] : start] == " ":
                places[-1] = (places[-1][0], end)
                words[-1] = text.raw[slice(*places[-1])]
            else:
                words.append(word)
                places.append((start, end))
        return Text(text.raw, tuple(words), tuple(places))

    def encode(self, questions: Sequence[Question]) -> Encoded:
        """Entities beyond the number of markers are unknown words. An answer that is one of them, or not among the
        words that are read of the document, counts as none."""
        documents: list[np.ndarray] = []
        question_ids: list[np.ndarray] = []
        answers, own = [], []
        for one in questions:
            local: dict[str, int] = {}
            for ids, text in (
                (documents, one.document.words[: self.config.longest]),
                (question_ids, one.question.words),
            ):
                ids.append(np.array([self._id(word, local, one.names) for word in text], np.int32))
            place = local.get(one.answers[0], -1) if one.answers else -1
            present = -1 < place < self.markers and bool((documents[-1] == -1 - place).any())
            answers.append([place if present else -1])
            own.append(np.array([_own(name) % self.markers for name in local], np.int32)[: self.markers])
        features = [np.zeros((len(ids), 0), np.float32) for ids in documents]
        return Encoded(documents, question_ids, np.array(answers, np.int64), features, own)

    def _id(self, word: str, local: dict[str, int], names: frozenset[str]) -> int:
        if word not in names:
            return self.numbers.get(word.lower(), UNKNOWN)
        number = local.setdefault(word, len(local))
        return -1 - number if number < self.markers else UNKNOWN

    def judge(self, question: Question, answer: str) -> dict[str, float]:
        return {"accuracy": float(answer in question.answers)}

    def baselines(self, questions: Sequence[Question]) -> dict[str, float]:
        """The paper's two: the most frequent entity of the document, and that of those not in the question."""
        right = Counter[str]()
        for one in questions:
            mentioned = [word for word in one.document.words if word in one.names]
            for name, words in (
                ("most_frequent", mentioned),
                ("exclusive_frequent", [word for word in mentioned if word not in one.question.words] or mentioned),
            ):
                right[name] += Counter(words).most_common(1)[0][0] in one.answers
        return {name: 100.0 * right[name] / max(len(questions), 1) for name in ("most_frequent", "exclusive_frequent")}


def _own(name: str) -> int:
    digits = name.removeprefix(MARK)
    return int(digits) if digits.isdigit() else 0
