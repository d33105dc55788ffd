"""Questions about dialogues with several choices, one of which is right: DREAM's format, and generated ones.

Sun, Yu, Chen, Yu, Choi & Cardie 2019, *DREAM: A Challenge Dataset and Models for Dialogue-Based Reading Comprehension*
(arXiv:1902.00164): a JSON list of ``[turns, questions, id]``; a turn is ``"W: What did she say?"``, a question has
``question``, ``choice``, a list, and ``answer``, which is one of them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import untrusted
from regard.data.passages import Text
from regard.data.squad import list_in, text_in

MOST = 8
"""Choices that a question may have."""


class Turn(NamedTuple):
    """Who speaks, empty if unknown, and the words from ``first`` to before ``end`` of the dialogue, the
    speaker's name not among them."""

    speaker: str
    first: int
    end: int


class Choosing(NamedTuple):
    """A question about a dialogue.

    Attributes:
        dialogue: a turn a line.
        turns: of the dialogue.
        question, choices: as they are written.
        right: the number of the right choice; −1 if it is not known.
        place: where it stands, for messages.
    """

    dialogue: Text
    turns: tuple[Turn, ...]
    question: Text
    choices: tuple[Text, ...]
    right: int = -1
    place: str = ""


def spoken(raw: str) -> tuple[Text, tuple[Turn, ...]]:
    """A dialogue, a turn a line: ``W: Hello.``"""
    text = Text.of(raw)
    turns, at, begin = [], 0, 0
    for line in raw.split("\n"):
        end = begin + len(line)
        name, colon, _ = line.partition(":")
        speech = begin + len(name) + 1 if colon and len(name) <= 40 else begin
        first = at
        while at < len(text.words) and text.places[at][0] < end:
            first += text.places[at][0] < speech
            at += 1
        if at > first:
            turns.append(Turn(name.strip() if speech > begin else "", first, at))
        begin = end + 1
    return text, tuple(turns)


def read(path: Path) -> list[list[Choosing]]:
    """The dialogues of a file, each a list of questions."""
    return parse(untrusted.parse_json(untrusted.read(path), path), str(path))


def parse(entries: Any, name: str) -> list[list[Choosing]]:
    """The questions of each dialogue. An error says which dialogue and question it is in."""
    if not isinstance(entries, list):
        raise ValueError(f"{name}: a list of dialogues was expected, [[turns, questions, id], …]")
    dialogues = []
    for number, entry in enumerate(entries, 1):
        place = f"{name}, dialogue {number}"
        if not isinstance(entry, list) or len(entry) < 2:
            raise ValueError(f"{place}: a dialogue is [turns, questions, id]")
        lines, questions = entry[:2]
        if not isinstance(lines, list) or not lines or not all(isinstance(turn, str) for turn in lines):
            raise ValueError(f"{place}: its turns must be a list of texts, and not empty")
        if not isinstance(questions, list):
            raise ValueError(f"{place}: its questions must be a list")
        text, turns = spoken("\n".join(" ".join(turn.split()) for turn in lines))
        if not turns:
            raise ValueError(f"{place}: nobody says a word")
        dialogues.append(
            [_choosing(question, text, turns, f"{place}, question {k}") for k, question in enumerate(questions, 1)]
        )
    if not any(dialogues):
        raise ValueError(f"{name}: there is no question in it")
    return [dialogue for dialogue in dialogues if dialogue]


def _choosing(entry: Any, dialogue: Text, turns: tuple[Turn, ...], place: str) -> Choosing:
    question, answer = text_in(entry, "question", place), text_in(entry, "answer", place)
    choices = list_in(entry, "choice", place)
    if not 2 <= len(choices) <= MOST or not all(isinstance(choice, str) for choice in choices):
        raise ValueError(f"{place}: 'choice' must be a list of 2 to {MOST} texts")
    if answer not in choices:
        raise ValueError(f"{place}: the answer {answer[:40]!r} is none of the choices")
    return of(dialogue, turns, question, choices, place, choices.index(answer))


def of(
    dialogue: Text, turns: tuple[Turn, ...], question: str, choices: list[str], place: str = "", right: int = -1
) -> Choosing:
    """A question with its words; an error if there are none in it, or in a choice."""
    choosing = Choosing(dialogue, turns, Text.of(question), tuple(map(Text.of, choices)), right, place)
    for what, text in (("question", choosing.question), *(("choice", choice) for choice in choosing.choices)):
        if not text.words:
            raise ValueError(f"{place}: a {what} has no word in it" if place else f"the {what} has no word in it")
    return choosing


# ---------------------------------------------------------------------------------------------------------------------
# Generated dialogues

_PLANS = {
    "buy": ("a bicycle", "a lamp", "a blue coat", "two tickets", "a new phone", "some flowers", "an old map"),
    "visit": ("the museum", "the zoo", "an aunt", "the harbour", "the old castle", "a friend", "the market"),
    "cook": ("fish soup", "an apple pie", "rice with beans", "pancakes", "a large salad", "noodles", "potatoes"),
}
_PEOPLE = {"M": "man", "W": "woman"}


def make(count: int, dice: random.Random) -> list[Any]:
    """Dialogues of a man and a woman with plans of their own, in DREAM's format. Two of the three choices are
    mentioned; which is right depends on whose plan the question is about."""
    dialogues: list[Any] = []
    for number in range(count):
        plans = {verb: dict(zip(_PEOPLE, dice.sample(things, 2))) for verb, things in _PLANS.items()}
        turns = [f"M: {dice.choice(('Hello', 'Good morning', 'Hi'))}. What are your plans?"]
        verbs = dice.sample(list(_PLANS), 2)
        for verb in verbs:
            for who in dice.sample(list(_PEOPLE), 2):
                begin = dice.choice(("I want to", "I am going to", "I will"))
                turns.append(f"{who}: {begin} {verb} {plans[verb][who]}.")
        questions = []
        for verb in dice.sample(verbs, dice.randint(1, 2)):
            who = dice.choice(list(_PEOPLE))
            other = dice.choice([thing for thing in _PLANS[verb] if thing not in plans[verb].values()])
            choices = dice.sample([*plans[verb].values(), other], 3)
            question = f"What does the {_PEOPLE[who]} want to {verb}?"
            questions.append({"question": question, "choice": choices, "answer": plans[verb][who]})
        dialogues.append([turns, questions, f"made-{number}"])
    return dialogues
