"""Dialogues of two people, turn by turn: DailyDialog's format, and a made help desk.

Li et al. 2017, *DailyDialog* (arXiv:1710.03957): a dialogue a line, its turns ended or separated by ``__eou__``; what
stands behind a tab is about the dialogue and is not read. Files end in ``.txt``, also ``.gz``.
"""

from __future__ import annotations

import random
from pathlib import Path

from regard.data import untrusted

END = "__eou__"


def read(path: Path) -> list[list[str]]:
    """The dialogues of a file, each a list of turns."""
    try:
        lines = untrusted.read(path).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 ({error})") from None
    dialogues = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        turns = [turn.strip() for turn in line.partition("\t")[0].split(END) if turn.strip()]
        if len(turns) < 2:
            raise ValueError(
                f"{path}, line {number}: a dialogue has two turns at least, with {END} between: {line[:50]!r}"
            )
        dialogues.append(turns)
    if not dialogues:
        raise ValueError(f"{path}: there is no dialogue in it")
    return dialogues


_PROBLEMS = {
    "the printer does not print": "turn the printer off and on again",
    "i forgot my password": "follow the link that i have sent to you",
    "my screen is black": "check the cable of the screen",
    "the network is slow": "move closer to the router",
    "i cannot read my mail": "remove old messages from your mailbox",
    "the sound is gone": "raise the volume in the settings",
    "my disk is full": "empty the bin and delete old files",
    "the browser crashes": "install the newest version of the browser",
}
_SYSTEMS = ("windows", "linux", "macos", "android")
_NAMES = (
    *("anna", "boris", "clara", "david", "emma", "frank", "grace", "hugo"),
    *("irene", "jonas", "karen", "lukas", "maria", "nils", "olga", "peter"),
)


def made(count: int, dice: random.Random) -> list[list[str]]:
    """Calls at a help desk: a problem, a name, a system and an error code, which the help desk repeats."""
    dialogues = []
    for _ in range(count):
        problem, advice = dice.choice(list(_PROBLEMS.items()))
        name, system, code = dice.choice(_NAMES), dice.choice(_SYSTEMS), f"e{dice.randrange(100)}"
        solved = dice.random() < 0.7
        dialogues.append(
            [
                dice.choice(("hello", "hi", "good morning")),
                "hello , this is the help desk . what is your name ?",
                dice.choice(("my name is {} .", "this is {} .", "i am {} .")).format(name),
                f"welcome {name} , what is the problem ?",
                f"{problem} .",
                "which system do you use ?",
                dice.choice(("i use {} .", "it is {} .")).format(system),
                f"does {system} show an error code ?",
                dice.choice(("yes , it says {} .", "the code is {} .")).format(code),
                f"for {code} please {advice} .",
                "thank you , now it works ." if solved else "that does not help .",
                f"you are welcome , {name} ." if solved else f"then i will send somebody , {name} .",
            ]
        )
    return dialogues
