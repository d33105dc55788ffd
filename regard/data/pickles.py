"""What is in a pickle, read without unpickling it.

Unpickling runs a program: a file can call whatever it can name, and numpy's own functions are enough to run any code.
Here the opcodes that plain data needs are interpreted, and all others refused. A name becomes a :class:`Global`, which
is never imported or called; an object becomes a :class:`Record` with its state. Python 2 and 3, protocols 0 to 5.
"""

from __future__ import annotations

import io
import pickletools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import IO, Any

DEEPEST = 10_000  # values on the stack; Python writes lists and dicts a thousand items at a time


class Refused(ValueError):
    """The pickle asks for something that its reader does not admit."""


@dataclass(frozen=True)
class Global:
    """A name, without its module."""

    name: str


@dataclass(eq=False)
class Record:
    """An object: what it is called, and the state that the pickle gave it."""

    name: str
    state: Any = None


@dataclass
class _Machine:
    names: Collection[str]
    call: Callable[[Any, Any], Any]
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, number: int | None = None) -> list[Any]:
        """The last ``number`` values, or those above the last mark."""
        start = self.marks.pop() if number is None else len(self.stack) - number
        if start < 0:
            raise IndexError
        values = self.stack[start:]
        del self.stack[start:]
        return values


def load(data: bytes, names: Collection[str], call: Callable[[Any, Any], Any]) -> Any:
    """The value of a pickle: numbers, texts, tuples, lists of whole numbers, dicts, and the records above.

    ``names`` are admitted, such as ``numpy.dtype``. ``call`` is given a :class:`Global` and the arguments that it would
    be called with, either of which may be anything, and returns a plain value or a :class:`Record`.
    """
    file, machine = io.BytesIO(data), _Machine(names, call)
    try:
        while (opcode := _CODES[file.read(1)]).name != "STOP":
            if opcode.name not in _OPCODES:
                raise Refused(f"the pickle's {opcode.name} was refused: plain data does not need it")
            reader = _READERS.get(opcode.name) or (opcode.arg and opcode.arg.reader)
            argument: Any = reader(file) if reader else None
            if isinstance(argument, int) and argument.bit_length() > 64:
                raise ValueError("an integer of more than 64 bits")
            _OPCODES[opcode.name](machine, argument)
            if len(machine.stack) + len(machine.marks) > DEEPEST or 3 * len(machine.memo) > len(data):
                raise ValueError("it is nested too deeply, or remembers more than it holds")
        return machine.stack[-1]
    except LookupError:
        raise ValueError("an opcode is unknown, or a value is missing on the stack or in the memo") from None


def _global(machine: _Machine, parts: list[Any]) -> None:
    name = ".".join(part for part in parts if isinstance(part, str))
    if name not in machine.names:
        raise Refused(
            f"the pickle asks for {name[:80]} and was refused: such data needs numbers, lists, dicts and arrays only, "
            "and anything else could run a program on this machine"
        )
    machine.push(Global(name.rpartition(".")[2]))


def _build(machine: _Machine, _: None) -> None:
    (state,) = machine.pop(1)
    if not isinstance(machine.stack[-1], Record):
        raise Refused("a state in the pickle was refused: it is given to something that has none")
    machine.stack[-1].state = state


def _fill(machine: _Machine, values: list[Any], *fresh: Any) -> None:
    machine.stack.extend(fresh)
    container = machine.stack[-1]
    if isinstance(container, list) and all(isinstance(value, int) for value in values):
        container.extend(values)
    elif isinstance(container, dict) and all(isinstance(key, int | str) for key in values[::2]):
        container.update(zip(values[::2], values[1::2]))
    else:
        raise Refused("a list of other things than whole numbers, or a dict of unusual keys, was refused")


def _quoted(file: IO[bytes]) -> str:
    """The bytes that Python 2 wrote between quotes, as a text of latin-1; pickletools reads ASCII only."""
    match = _QUOTED.fullmatch(file.readline())
    if match is None:
        raise ValueError("a text that is not as Python writes it")
    return match[2].decode("unicode_escape")


_QUOTED = re.compile(rb"(['\"])((?:[^\\'\"]++|['\"](?!\n)|\\(?:[\\'\"nrt]|x[0-9a-f]{2}))*+)\1\n")
_CODES = {opcode.code.encode("latin1"): opcode for opcode in pickletools.opcodes}
_READERS = {"STRING": _quoted, "GLOBAL": lambda file: [file.readline()[:-1].decode("latin1") for _ in range(2)]}
_LITERALS = """INT LONG BININT BININT1 BININT2 LONG1 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE
SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"""
_OPCODES: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    **dict.fromkeys(_LITERALS.split(), _Machine.push),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.pop(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.pop(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.pop(3))),
    "LIST": lambda machine, _: _fill(machine, machine.pop(), []),
    "DICT": lambda machine, _: _fill(machine, machine.pop(), {}),
    "APPEND": lambda machine, _: _fill(machine, machine.pop(1)),
    "SETITEM": lambda machine, _: _fill(machine, machine.pop(2)),
    **dict.fromkeys(("APPENDS", "SETITEMS"), lambda machine, _: _fill(machine, machine.pop())),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, at: machine.memo.update({at: machine.stack[-1]})),
    "MEMOIZE": lambda machine, _: machine.memo.update({len(machine.memo): machine.stack[-1]}),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, at: machine.push(machine.memo[at])),
    "GLOBAL": _global,
    "STACK_GLOBAL": lambda machine, _: _global(machine, machine.pop(2)),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda machine, _: machine.push(machine.call(*machine.pop(2)))),
    "BUILD": _build,
}
