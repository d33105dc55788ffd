"""Which entity is missing? Stories with a question that has a hole in it.

    @entity4 sued @entity9 over a broken promise . later @entity9 hired @entity2 as an adviser .
    a judge hears @placeholder against @entity9        →  @entity4

Hermann et al. 2015, *Teaching Machines to Read and Comprehend* (arXiv:1506.03340). Entities are anonymous, and which
marker stands for which of them is dealt anew for every question in every epoch, so that an answer can come from the
document alone and not from what is known of the world.

The data is the published one, a folder with ``training``, ``validation`` and ``test`` in it (or with ``questions``,
which holds them), full of ``.question`` files: address, document, question, answer and the names of the entities,
separated by empty lines. Without data, stories are made: facts of two entities each, told in one of two ways and asked
in one of two others. One more fact has the same relation, one more the same entity, so that neither alone finds the
answer. In training there are shorter stories too, down to one fact, without which a reader finds nothing to begin
with. In the made world most things happen between the same two entities each time; with ``permute = false`` training
shows entities under markers of their own, and a reader learns that instead of reading. Validation and test always deal.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from regard._lazy import nearest
from regard.tasks._download import locate
from regard.tasks._passages import UNKNOWN, Encoded, Passages, Question, Text, Typed

HOLE = "@placeholder"
MARK = "@entity"
FOLDERS = {"train": "training", "valid": "validation", "test": "test"}


@dataclass(frozen=True)
class Config:
    """Which stories, and how they are read.

    Attributes:
        data: a folder, or the name of a known data set; empty to make stories.
        entities: markers, and entities of the made world.
        permute: deal markers anew for each question in training.
        facts: told in a story; in training from one to so many.
        habit: how often a made fact is the usual one.
        train_size, test_size: questions to make; validation has as many as the test.
        batch: questions to a batch.
        longest: words of a document that are read; what is behind them is left out.
        words, least: at most so many words are known, and only those that occur so often.
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
        for name, least in {"facts": 3, "train_size": 1, "test_size": 1, "batch": 1, "longest": 1, "words": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)}: it must be at least {least}")
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
        found = {}
        for split in FOLDERS:
            size, least = (config.train_size, 1) if split == "train" else (config.test_size, config.facts)
            made = stories(config, size, least, random.Random(f"cloze: {split}"))
            found[split] = [question(*one, f"made story {number} of {split}") for number, one in enumerate(made, 1)]
        return found

    def typed(self, one: Typed) -> Question:
        """Entities are words that begin with @, and names: words with a capital letter that are not known otherwise."""
        story, asked = (self._named(Text.of(re.sub(r"\b__+\b", HOLE, text))) for text in (one.story, one.question))
        if asked.words.count(HOLE) != 1:
            raise ValueError(f"{one.place}: the question must have one hole, {HOLE} or ___, where the answer goes")
        names = frozenset(
            word for word in (*story.words, *asked.words) if word != HOLE and (word[0] == "@" or self._name(word))
        )
        if not names & set(story.words):
            raise ValueError(
                f"{one.place}: there is no entity in the story; those are words with a capital letter such as 'Mary' "
                f"that are not words of the data, or such as '{MARK}1'"
            )
        if self.known["closed"]:
            for word in (*story.words, *asked.words):
                if word not in names and word.lower() not in self.numbers:
                    hint = nearest(word.lower(), self.numbers)[:300]
                    raise ValueError(f"{one.place}: the word {word!r} was in no story that the model learned: {hint} …")
        answers = () if one.answer is None else (one.answer,)
        return Question(story, asked, answers, names=names, place=one.place)

    def _name(self, word: str) -> bool:
        return word[0].isupper() and word.lower() not in self.numbers

    def _named(self, text: Text) -> Text:
        """The same, with names of several words, "Mary Ann", as one."""
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
        """Entities beyond the number of markers are unknown words. An answer that is one of them, or not in what is
        read of the document, is none."""
        documents: list[np.ndarray] = []
        asked: list[np.ndarray] = []
        answers, own = [], []
        for one in questions:
            local: dict[str, int] = {}
            for ids, text in ((documents, one.document.words[: self.config.longest]), (asked, one.question.words)):
                ids.append(np.array([self._id(word, local, one.names) for word in text], np.int32))
            place = local.get(one.answers[0], -1) if one.answers else -1
            found = -1 < place < self.markers and bool((documents[-1] == -1 - place).any())
            answers.append([place if found else -1])
            own.append(np.array([_own(name) % self.markers for name in local], np.int32)[: self.markers])
        features = [np.zeros((len(ids), 0), np.float32) for ids in documents]
        return Encoded(documents, asked, np.array(answers, np.int64), features, own)

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


def question(story: str, asked: str, answer: str, place: str) -> Question:
    """A question whose entities are marked."""
    document, query = Text.of(story), Text.of(asked)
    names = frozenset(word for word in (*document.words, *query.words) if word.startswith(MARK))
    return Question(document, query, (answer,), names=names, place=place)


def _own(name: str) -> int:
    digits = name.removeprefix(MARK)
    return int(digits) if digits.isdigit() else 0


# ---------------------------------------------------------------------------------------------------------------------
# The published files


def read_folder(path: Path) -> dict[str, list[Question]]:
    """The three splits of CNN's or the Daily Mail's questions."""
    for place in (path, path / "questions"):
        if all((place / folder).is_dir() for folder in FOLDERS.values()):
            return {split: read_files(place / folder) for split, folder in FOLDERS.items()}
    raise ValueError(f"{path}: there must be folders {', '.join(FOLDERS.values())} in it, with .question files")


def read_files(folder: Path) -> list[Question]:
    """All ``.question`` files of a folder, in the order of their names."""
    files = sorted(folder.glob("*.question"))
    if not files:
        raise ValueError(f"{folder}: there are no .question files in it")
    return [read_file(file) for file in files]


def read_file(path: Path) -> Question:
    """One ``.question`` file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 ({error})") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 4:
        raise ValueError(
            f"{path}: it ends after line {lines[-1][0] if lines else 0}; address, document, question, answer and names "
            "are separated by empty lines"
        )
    (_, story), (asked_at, asked), (answer_at, answer) = lines[1:4]
    found = question(story, asked, answer.strip(), str(path))
    if found.question.words.count(HOLE) != 1:
        raise ValueError(f"{path}, line {asked_at}: the question must have one {HOLE}, not {asked.strip()[:60]!r}")
    if answer.strip() not in found.names & set(found.document.words):
        raise ValueError(f"{path}, line {answer_at}: the answer {answer.strip()[:60]!r} is no entity of the document")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# A made world

RELATIONS: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (
    (
        ("{a} bought {b} for a small fortune .", "{b} was sold to {a} after long talks ."),
        ("the new owner of {b} is {a}", "{b} now belongs to {a}"),
    ),
    (
        ("{a} sued {b} over a broken promise .", "{b} was taken to court by {a} ."),
        ("a judge hears {a} against {b}", "{b} must answer the claims of {a}"),
    ),
    (
        ("{a} hired {b} as an adviser .", "{b} took a job in the office of {a} ."),
        ("{b} now works for {a}", "{a} is the employer of {b}"),
    ),
    (
        ("{a} beat {b} in the final .", "{b} lost the last match to {a} ."),
        ("{a} celebrates a victory over {b}", "{b} mourns a defeat by {a}"),
    ),
    (
        ("{a} wrote a book about {b} .", "{b} is the hero of a novel by {a} ."),
        ("the author {a} portrays {b}", "readers know {b} from {a}"),
    ),
    (
        ("{a} rescued {b} from the river .", "{b} was pulled out of the water by {a} ."),
        ("{b} owes a life to {a}", "{a} saved {b}"),
    ),
    (
        ("{a} taught {b} to paint .", "{b} learned drawing from {a} ."),
        ("{a} was the teacher of {b}", "{b} was a pupil of {a}"),
    ),
    (
        ("{a} came to {b} for dinner .", "{b} cooked a meal for {a} ."),
        ("{b} was the host of {a}", "{a} was the guest of {b}"),
    ),
)
"""How a fact between a and b is told, and how it is asked for."""

OPENINGS = ("", "", "on monday ", "later ", "in the end ", "officials said that ", "as expected ", "this year ")


def stories(config: Config, size: int, least: int, dice: random.Random) -> Iterator[tuple[str, str, str]]:
    """Made stories of ``least`` facts or more, each with a question and its answer."""
    world = random.Random("cloze: world")
    usual = [world.sample(range(config.entities), config.entities) for _ in RELATIONS]
    for _ in range(size):
        hole = dice.randrange(2)
        facts = _facts(config, usual, hole, dice.randint(least, config.facts), dice)
        relation, *pair = facts[0]
        told = [_told(fact, dice) for fact in dice.sample(facts, len(facts))]
        names = [f"{MARK}{number}" for number in pair]
        answer, names[hole] = names[hole], HOLE
        asked = dice.choice(RELATIONS[relation][1]).format(a=names[0], b=names[1])
        yield " ".join(told), asked, answer


def _facts(
    config: Config, usual: list[list[int]], hole: int, size: int, dice: random.Random
) -> list[tuple[int, int, int]]:
    """Relations between two entities. The first is asked for; the second is the same between others; the third has the
    entity that the question will name. None has the same relation twice."""
    asked = dice.randrange(len(RELATIONS))
    facts: list[tuple[int, int, int]] = []
    while len(facts) < size:
        relation = asked if len(facts) < 2 else dice.randrange(len(RELATIONS))
        told = [entity for fact in facts for entity in fact[1:]]
        one = dice.choice(told) if told and dice.random() < 0.5 else dice.randrange(config.entities)
        if len(facts) == 2:
            one = facts[0][2 - hole]
        other = usual[relation][one] if dice.random() < config.habit else dice.randrange(config.entities)
        if dice.random() < 0.5 and len(facts) > 1:
            one, other = other, one
        if one == other or any(fact[0] == relation and {one, other} & set(fact[1:]) for fact in facts):
            continue
        facts.append((relation, one, other))
    return facts


def _told(fact: tuple[int, int, int], dice: random.Random) -> str:
    relation, one, other = fact
    text = dice.choice(RELATIONS[relation][0]).format(a=f"{MARK}{one}", b=f"{MARK}{other}")
    return dice.choice(OPENINGS) + text
