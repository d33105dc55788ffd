"""Stories with a question that has a hole in it: the published files of CNN and the Daily Mail, and generated ones.

Hermann et al. 2015, *Teaching Machines to Read and Comprehend* (arXiv:1506.03340).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from regard.data.passages import Question, Text

HOLE = "@placeholder"
MARK = "@entity"
FOLDERS = {"train": "training", "valid": "validation", "test": "test"}


def question(story: str, cloze: str, answer: str, place: str) -> Question:
    """A question whose entities are marked."""
    document, query = Text.of(story), Text.of(cloze)
    names = frozenset(word for word in (*document.words, *query.words) if word.startswith(MARK))
    return Question(document, query, (answer,), names=names, place=place)


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
    (_, story), (cloze_line, cloze), (answer_line, answer) = lines[1:4]
    parsed = question(story, cloze, answer.strip(), str(path))
    if parsed.question.words.count(HOLE) != 1:
        raise ValueError(f"{path}, line {cloze_line}: the question must have one {HOLE}, not {cloze.strip()[:60]!r}")
    if answer.strip() not in parsed.names & set(parsed.document.words):
        raise ValueError(f"{path}, line {answer_line}: the answer {answer.strip()[:60]!r} is no entity of the document")
    return parsed


# ---------------------------------------------------------------------------------------------------------------------
# A generated world

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
"""Sentences for a fact between a and b, and questions about it."""

OPENINGS = ("", "", "on monday ", "later ", "in the end ", "officials said that ", "as expected ", "this year ")


def stories(
    size: int, least: int, most: int, entities: int, habit: float, dice: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Made stories of ``least`` facts or more, each with a question and its answer."""
    world = random.Random("cloze: world")
    usual = [world.sample(range(entities), entities) for _ in RELATIONS]
    for _ in range(size):
        hole = dice.randrange(2)
        facts = _facts(usual, habit, hole, dice.randint(least, most), dice)
        relation, *pair = facts[0]
        sentences = [_sentence(fact, dice) for fact in dice.sample(facts, len(facts))]
        names = [f"{MARK}{number}" for number in pair]
        answer, names[hole] = names[hole], HOLE
        cloze = dice.choice(RELATIONS[relation][1]).format(a=names[0], b=names[1])
        yield " ".join(sentences), cloze, answer


def _facts(
    usual: list[list[int]], habit: float, hole: int, size: int, dice: random.Random
) -> list[tuple[int, int, int]]:
    """Relations between two entities. The first is asked for; the second is the same between others; the third has the
    entity that the question will name. None has the same relation twice."""
    asked_relation, entities = dice.randrange(len(RELATIONS)), len(usual[0])
    facts: list[tuple[int, int, int]] = []
    while len(facts) < size:
        relation = asked_relation if len(facts) < 2 else dice.randrange(len(RELATIONS))
        mentioned = [entity for fact in facts for entity in fact[1:]]
        one = dice.choice(mentioned) if mentioned and dice.random() < 0.5 else dice.randrange(entities)
        if len(facts) == 2:
            one = facts[0][2 - hole]
        other = usual[relation][one] if dice.random() < habit else dice.randrange(entities)
        if dice.random() < 0.5 and len(facts) > 1:
            one, other = other, one
        if one == other or any(fact[0] == relation and {one, other} & set(fact[1:]) for fact in facts):
            continue
        facts.append((relation, one, other))
    return facts


def _sentence(fact: tuple[int, int, int], dice: random.Random) -> str:
    relation, one, other = fact
    text = dice.choice(RELATIONS[relation][0]).format(a=f"{MARK}{one}", b=f"{MARK}{other}")
    return dice.choice(OPENINGS) + text
