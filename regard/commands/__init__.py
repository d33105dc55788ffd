"""The command line, ``regard --help``. One command, one file.

Commands import what they need when they run: ``--help`` must answer before torch could even be loaded.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
import warnings
from pathlib import Path

from regard import _threads
from regard.commands import _options
from regard.commands._app import app

_COMMANDS = "list bench data train sweep afterwards evaluate explain predict chat show serve"
for _name in _COMMANDS.split():
    importlib.import_module(f"regard.commands.{_name}")  # in the order of the help


def _explain(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("regard"):
        return f"this command needs {error.name}. Type: pip install 'regard[all]'"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ValueError | OSError | FloatingPointError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    if not Path(place.filename).is_relative_to(HOME) and (user_frame := _frame_of_user_code(error)):
        return f"{user_frame.filename}, line {user_frame.lineno}: {type(error).__name__}: {error}"
    return f"a fault of regard's own, {type(error).__name__}: {error}. Please report what --traceback shows"


HOME = Path(__file__).parents[1]


def _frame_of_user_code(error: Exception) -> traceback.FrameSummary | None:
    """Where code that is neither ours nor a library's, such as a system of the user's own, called what failed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        place = Path(frame.filename)
        if place.is_relative_to(HOME):
            return None
        if place.exists() and "site-packages" not in place.parts and not place.is_relative_to(sys.base_prefix):
            return frame
    return None


def _replace_closed_streams() -> None:
    """Python has None for a stream that is closed, and the next file to be opened would take its place: whatever else
    prints would write into it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
        print("regard: standard output is closed, so nothing is printed there", file=sys.stderr)


def _warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning in one line; the line of our code that it came from is nothing to a user of the command line."""
    place = "" if Path(filename).is_relative_to(HOME) else f"{filename}, line {lineno}: "
    return f"regard: {place}{message}\n"


def main() -> None:
    """Run the command line. An error is one line on stderr and exit code 2, never a bare traceback."""
    _threads.spin_briefly()
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _warning
    # Wherever it stands: people add --traceback at the end of the line that has just failed.
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    try:
        for module in filter(None, os.environ.get("REGARD_IMPORT", "").split(",")):
            importlib.import_module(module.strip())  # systems and tasks of one's own
        if not _options.print_help(arguments):
            app(arguments, prog_name="regard")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        if len(arguments) < len(sys.argv) - 1 or os.environ.get("REGARD_DEBUG", "") not in ("", "0"):
            raise
        print(f"regard: {_explain(error)}", file=sys.stderr)
        raise SystemExit(2) from None
