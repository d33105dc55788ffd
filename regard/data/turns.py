"""What was said before, as one types it: a line for each turn, ``you: …`` or ``agent: …``; any other line is a fact."""

from __future__ import annotations

from typing import NamedTuple

YOU, AGENT = "you", "agent"


class Said(NamedTuple):
    """A line of a history; the speaker of a fact is empty."""

    speaker: str
    text: str


def read(history: str) -> list[Said]:
    """The lines of a history, the oldest first."""
    found = []
    for line in filter(None, map(str.strip, history.split("\n"))):
        speaker, colon, text = line.partition(":")
        known = colon and speaker.strip().lower() in (YOU, AGENT)
        found.append(Said(speaker.strip().lower(), text.strip()) if known else Said("", line))
    return found


def write(said: list[Said]) -> str:
    """A history as text."""
    return "\n".join(f"{one.speaker}: {one.text}" if one.speaker else one.text for one in said)


def add(history: str, you: str, agent: str, *facts: str, longest: int) -> str:
    """A history with one more turn, and the facts that it brought; the oldest lines are dropped where it would be
    longer than ``longest`` characters."""
    said = [*read(history), Said(YOU, you), Said(AGENT, agent), *(Said("", fact) for fact in facts)]
    while len(text := write(said)) > longest and len(said) > 1:
        said = said[1:]
    return text[-longest:]


def pairs(said: list[Said]) -> list[tuple[str, str]]:
    """What you said and the agent's answer to it, turn by turn."""
    found, last = [], ""
    for one in said:
        if one.speaker == YOU:
            last = one.text
        elif one.speaker == AGENT:
            found.append((last, one.text))
            last = ""
    return found
