"""The history of a dialogue, as one types it: a line for each turn, ``you: …`` or ``agent: …``, and for each fact."""

from __future__ import annotations

from typing import NamedTuple

YOU, AGENT = "you", "agent"


class Said(NamedTuple):
    """A line of a history; the speaker of a fact is empty."""

    speaker: str
    text: str


def read(history: str) -> list[Said]:
    """The lines of a history, the oldest first."""
    lines = []
    for line in filter(None, map(str.strip, history.split("\n"))):
        speaker, colon, text = line.partition(":")
        spoken = colon and speaker.strip().lower() in (YOU, AGENT)
        lines.append(Said(speaker.strip().lower(), text.strip()) if spoken else Said("", line))
    return lines


def write(lines: list[Said]) -> str:
    """A history as text."""
    return "\n".join(f"{line.speaker}: {line.text}" if line.speaker else line.text for line in lines)


def add(history: str, you: str, agent: str, *facts: str, longest: int) -> str:
    """A history with one more turn, and the facts that it brought; the oldest lines are dropped where it would be
    longer than ``longest`` characters."""
    lines = [*read(history), Said(YOU, you), Said(AGENT, agent), *(Said("", fact) for fact in facts)]
    while len(text := write(lines)) > longest and len(lines) > 1:
        lines = lines[1:]
    return text[-longest:]


def pairs(lines: list[Said]) -> list[tuple[str, str]]:
    """What you said and the agent's answer to it, turn by turn."""
    exchanges, last = [], ""
    for line in lines:
        if line.speaker == YOU:
            last = line.text
        elif line.speaker == AGENT:
            exchanges.append((last, line.text))
            last = ""
    return exchanges
