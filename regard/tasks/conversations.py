"""Which words of a text answer this question, given the turns before it? CoQA, QuAC, FriendsQA, or generated.

The data is a file or folder in one of the formats of :mod:`regard.data.conversations`; files are told apart by their
names as in :mod:`regard.data.parts`, and where one is missing, whole conversations are held out. Without data,
conversations about three people are generated, most of whose questions (*How old is she?*, *And Anna?*, *Who?*) need
the turns before them.

The question as a system reads it begins with the last ``turns`` turns, <q> before each question and <a> before each
answer. A word of the text has, beside what SQuAD's have, one feature that says whether it is in the question
itself, and one for each turn before that says whether it stood in its answer. In training and when a split is measured
the answers before are the right ones, as usual.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard._settings import at_least
from regard.data import conversations, parts
from regard.data.conversations import JESSICA, TALK, document
from regard.data.download import locate
from regard.data.passages import Question, Text, Typed
from regard.tasks._passages import UNKNOWN, Encoded
from regard.tasks.squad import FEATURES, Squad, _Marks

ASKED, ANSWERED = "<q>", "<a>"


@dataclass(frozen=True)
class Config:
    """Which conversations, and how much of them is read.

    Attributes:
        data: a folder or file; empty to generate conversations.
        files: how the names of the files begin, where a folder holds several sets.
        turns: earlier questions and answers that are read with a question.
        stories: conversations to generate; a tenth is for validation, another for the test.
        batch: questions to a batch.
        longest: words of a text that are read, with the yes, no and unknown behind it.
        words, least: size of the vocabulary, and how often a word must occur to be in it.
    """

    data: str = ""
    files: str = ""
    turns: int = 2
    stories: int = 2000
    batch: int = 32
    longest: int = 600
    words: int = 20_000
    least: int = 2

    def __post_init__(self) -> None:
        at_least(self, "batch", "words", "least", longest=len(conversations.TAIL) + 1, stories=3, turns=0)


class Conversations(Squad):
    """Texts with questions that follow each other; see the module's docstring.

    A batch has what SQuAD's has; ``features`` (B, S, 8 + turns).
    """

    settings: ClassVar[type] = Config
    prompts = TALK[1:]
    suggested = tuple({"story": JESSICA, "question": question} for question in TALK[:1])
    config: Any

    @property
    def turns(self) -> int:  # type: ignore[override]
        return self.config.turns

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "features": FEATURES + 1 + self.config.turns}

    def splits(self) -> dict[str, list[Question]]:
        where = self.data or self.config.data
        if where:
            files = parts.find(locate(where), self.config.files, (".json",))
            splits = parts.split(files, conversations.read, mixed=False)
        else:
            generated = conversations.make(self.config.stories, random.Random("conversations"))
            talks = conversations.parse(generated, "made conversations")
            tenth = max(1, len(talks) // 10)
            splits = {"valid": talks[:tenth], "test": talks[tenth : 2 * tenth], "train": talks[2 * tenth :]}
        return {split: [question for talk in talks for question in self._read(talk)] for split, talks in splits.items()}

    def _read(self, talk: list[Question]) -> list[Question]:
        return conversations.shorten(talk, self.config.longest)

    def learn(self) -> dict[str, Any]:
        facts = super().learn()
        facts["known"]["words"] += [ASKED, ANSWERED]
        return facts

    def typed(self, one: Typed) -> Question:
        for what, typed in (("text", one.story), ("question", one.question)):
            if not Text.of(typed).words:
                raise ValueError(f"there is no {what}")
        answers = () if one.answer is None else (one.answer,)
        text = self.readable(document(one.story), one.place)
        return Question(text, Text.of(one.question), answers, place=one.place, history=one.history)

    def asked(self, question: Question) -> Sequence[str]:
        words: list[str] = []
        for earlier, answer in question.history[-self.turns :] if self.turns else ():
            words += [ASKED, *Text.of(earlier).words, ANSWERED, *Text.of(answer).words]
        return [*words, ASKED, *question.question.words]

    def encode(self, questions: Sequence[Question]) -> Encoded:
        longest = self.config.longest
        cache: dict[int, tuple[np.ndarray, _Marks]] = {}
        documents, question_ids, answers, features = [], [], [], []
        for one in questions:
            if id(one.document) not in cache:
                words = one.document.words[:longest]
                cache[id(one.document)] = self._ids(words), _Marks(words)
            ids, marks = cache[id(one.document)]
            words_read = self.asked(one)
            documents.append(ids)
            question_ids.append(self._ids(words_read))
            answers.append(one.span if one.span[1] < longest else (-1, -1))
            before = one.history[-self.turns :] if self.turns else ()
            marked = np.zeros((len(ids), self.turns), np.float16)
            for back, (_, answer) in enumerate(reversed(before)):
                marked[_places(marks.words, [word.lower() for word in Text.of(answer).words]), back] = 1
            alone = marks.against(one.question.words)[:, :1]
            unknown = ids[:, None] == UNKNOWN
            features.append(np.concatenate([marks.against(words_read), unknown, alone, marked], 1, dtype=np.float16))
        own = [np.zeros(0, np.int32)] * len(questions)
        return Encoded(documents, question_ids, np.array(answers, np.int64), features, own)

    def judge(self, question: Question, answer: str) -> dict[str, float]:
        """As SQuAD's; ``f1_first`` and ``f1_later`` are of the first turn and of the others."""
        scores = super().judge(question, answer)
        return {**scores, "f1_later" if question.history else "f1_first": scores["f1"]}

    def baselines(self, questions: Sequence[Question]) -> dict[str, float]:
        scores = super().baselines(questions)
        later = Counter(bool(question.history) for question in questions)
        return {**scores, "later": 100.0 * later[True] / max(len(questions), 1)}


def _places(words: Sequence[str], run: Sequence[str]) -> list[int]:
    """The places of all words of every occurrence of ``run`` in ``words``."""
    count = len(run)
    starts = [place for place in range(len(words) - count + 1) if list(words[place : place + count]) == list(run)]
    return [place for start in starts for place in range(start, start + count)] if count else []
