"""What one may ask a system, described once: the server makes a JSON schema of it, and the explorer a form.

    Question = form("Ask", story=Lines(4000, title="Story"), seed=Number(0, 9999, default=0))
    Question(story="Mary moved to the bathroom.", seed=3)

A question is a frozen dataclass with these fields.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()
"""In place of a default: a value must be given."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A field of a question.

    Attributes:
        title: its label; its name if empty.
        about: a sentence below it.
        default: its value where none is given; without one, it must be.
        option: shown among the options that are closed at first.
        hidden: not shown; programs may set it.
        optional: may it be None?
    """

    title: str = ""
    about: str = ""
    default: Any = REQUIRED
    option: bool = False
    hidden: bool = False
    optional: bool = False

    python: ClassVar[Any] = str
    """The type of its values, as an option of the command line is parsed."""

    def received(self, value: Any) -> Any:
        """The value of what came over the wire; a ValueError says what is wrong with it."""
        return value

    def sent(self, value: Any) -> Any:
        """The value as JSON holds it."""
        return value


@dataclass(frozen=True)
class Text(Input):
    """A line of text, or several if ``rows`` is more than 2, of at most ``longest`` characters."""

    longest: int
    least: int = 0
    rows: int = 0
    pattern: str = ""


@dataclass(frozen=True)
class Number(Input):
    """A whole number between two others."""

    least: int
    most: int

    python: ClassVar[Any] = int


@dataclass(frozen=True)
class Flag(Input):
    """Yes or no."""

    python: ClassVar[Any] = bool


@dataclass(frozen=True)
class Choice(Input):
    """One of some names."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Vectors(Input):
    """Rows of numbers, all of one length: at most ``most`` rows of at most ``widest`` numbers."""

    most: int = 8
    widest: int = 16

    def received(self, value: list[list[float]]) -> list[list[float]]:
        if len({len(row) for row in value}) > 1:
            raise ValueError("all rows of numbers must have one length")
        return value


@dataclass(frozen=True)
class Strokes(Input):
    """Lines drawn by hand: each a list of points (x, y) between 0 and 1."""

    most: int = 20
    longest: int = 300


@dataclass(frozen=True)
class File(Input):
    """A file of at most ``longest`` bytes: its bytes in base64 over the wire; in Python bytes, or a path.

    Attributes:
        suffixes: of such files, as they are looked for in a folder.
        parts: suffixes of the files of a folder that is one question, as the frames of a clip are; empty if none is.
    """

    longest: int = 90_000
    suffixes: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    what: ClassVar[str] = "file"

    def received(self, value: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"the {self.what} is not the bytes of a file in base64") from None

    def sent(self, value: bytes) -> str:
        return base64.b64encode(value).decode()


@dataclass(frozen=True)
class Image(File):
    """A picture; a form makes it no larger than ``side`` pixels before it is sent."""

    side: int = 320
    suffixes: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg", ".png", ".webp")
    what: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Clip(File):
    """A clip of video: an .npz or .npy file of arrays; on the command line also a folder of pictures, its frames."""

    suffixes: ClassVar[tuple[str, ...]] = (".npz", ".npy")
    parts: ClassVar[tuple[str, ...]] = Image.suffixes
    what: ClassVar[str] = "clip"


@dataclass(frozen=True)
class Sound(File):
    """A recording; a form can also make one with a microphone. It sends at most ``seconds`` of one, at ``rate`` samples
    a second of 8 bits."""

    seconds: int = 10
    rate: int = 8000
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif")
    what: ClassVar[str] = "recording"


def form(verb: str, **inputs: Input) -> Any:
    """A type of question; ``verb`` is what the button of its form says."""
    fields: list[Any] = []
    for name, field in inputs.items():
        required = field.default is REQUIRED
        dataclass_field = (
            dataclasses.field() if required else dataclasses.field(default_factory=partial(copy, field.default))
        )
        fields.append((name, Any, dataclass_field))
    return dataclasses.make_dataclass(
        "Question", fields, frozen=True, kw_only=True, namespace={"verb": verb, "inputs": dict(inputs)}
    )


SEED = Number(0, 9999, default=0, title="Chance", about="Each number gives another one.")
