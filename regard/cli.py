"""The command line, ``regard --help``.

Commands import what they need when they run: ``--help`` must answer before torch could even be loaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

# The console script imports this module first, so this is where a missing extra shows.
try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as error:
    print(f"regard: the command line needs {error.name}. Type: pip install 'regard[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

QUESTIONS = {
    "scores": "how well does this key fit this query?",
    "normalizers": "how do scores become weights?",
    "windows": "which keys are candidates at all?",
    "refiners": "weights in, weights out",
    "glimpses": "attention by position",
}

# Plain help and errors: they read the same in a terminal, a pipe and a log.
app = typer.Typer(
    help="Attention as three steps: score, normalize, sum.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench, name="bench", help="Measure speed and memory beside other libraries.")


def _version(wanted: bool) -> None:
    if wanted:
        from regard import __version__

        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error show where it arose; the same as REGARD_DEBUG=1.")
    ] = False,
) -> None:
    """Options that stand before every command; ``--traceback`` is read by :func:`main`."""


@app.command("list")
def list_parts(
    kind: Annotated[
        str | None, typer.Argument(metavar="|".join(QUESTIONS), help="Only this kind; all if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print every mechanism with its equation and paper."""
    from regard import parts

    found = {
        group: {name: parts.find(group, name) for name in parts.names(group)}
        for group in ([kind] if kind else parts.KINDS)
    }
    if as_json:
        import json

        rows = [
            {
                "kind": group,
                "name": name,
                "class": f"regard.{group}.{cls.__name__}",
                "arguments": parts.arguments(cls),
                "equation": cls.equation,
                "paper": cls.paper,
                "needs": list(cls.needs),
                "positional": cls.positional,
            }
            for group, members in found.items()
            for name, cls in members.items()
        ]
        print(json.dumps(rows, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", indent=2))
        return
    for number, (group, members) in enumerate(found.items()):
        rows_of_text = [(name, cls.equation, cls.paper) for name, cls in members.items()]
        _print_table(("\n" if number else "") + f"{group}: {QUESTIONS[group]}", rows_of_text)


def _print_table(title: str, rows: list[tuple[str, str, str]]) -> None:
    """Name, equation, paper. A terminal folds what is too wide for it; a pipe gets each row on one line."""
    from rich.console import Console
    from rich.table import Table

    # Equations hold brackets, which rich would take for markup.
    console = Console(markup=False, highlight=False, emoji=False)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if console.is_terminal:
        console.print(title, style="bold underline")
        console.print(table)
        return
    console.width = 10_000
    with console.capture() as captured:
        console.print(table)
    print(title)
    for line in captured.get().splitlines():
        print(line.rstrip())


@bench.callback()
def bench_options() -> None:
    """Keeps ``attention`` a command of its own while it is the only one."""


@bench.command("attention")
def bench_attention(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Also write the table here.")
    ] = None,
    compile: Annotated[bool, typer.Option("--compile", help="Add torch.compile as an opponent.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: a look only.")] = False,
) -> None:
    """Time attention against PyTorch and peers."""
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ValueError(f"--json {json_file}: the folder {json_file.absolute().parent} does not exist")
    from regard.bench.attention import run

    run(json_file=json_file, compile=compile, quick=quick)


def _explain(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("regard"):
        return f"this command needs {error.name}. Type: pip install 'regard[all]'"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ValueError | OSError):
        return str(error)
    return f"a fault of regard's own, {type(error).__name__}: {error}. Please report what --traceback shows"


def main() -> None:
    """Run the command line. An error is one line on stderr and exit code 2, never a bare traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # Wherever it stands: people add --traceback at the end of the line that has just failed.
    arguments = [argument for argument in sys.argv[1:] if argument != "--traceback"]
    try:
        app(arguments, prog_name="regard")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if len(arguments) < len(sys.argv) - 1 or os.environ.get("REGARD_DEBUG", "") not in ("", "0"):
            raise
        print(f"regard: {_explain(error)}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
