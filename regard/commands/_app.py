"""The program, to which each file of this folder adds its commands."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

# The console script comes here first, so this is where a missing extra shows.
try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as error:
    print(f"regard: the command line needs {error.name}. Type: pip install 'regard[cli]'", file=sys.stderr)
    raise SystemExit(2) from None


def examples(*commands: str) -> str:
    """What stands below a command's help, a line each."""
    no_wrap = "\b"  # click would join the lines otherwise
    return "\n".join([no_wrap, "Examples:", *(f"  regard {command}" for command in commands)])


# Plain help and errors: they read the same in a terminal, a pipe and a log.
app = typer.Typer(
    help="Attention as three steps: score, normalize, sum.",
    epilog=examples(
        "predict translate-en-es                   translate what you type",
        "show translate-en-es 'I love coffee.'     where each word came from",
        "explore                                   all models in your browser",
        "train translate --data DIR src=en tgt=fr  your own translator",
    ),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from regard import __version__

        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error show where it arose; the same as REGARD_DEBUG=1.")
    ] = False,
) -> None:
    """Options that stand before every command; ``--traceback`` is read by :func:`regard.commands.main`."""
    if context.invoked_subcommand in ("train", "sweep", "evaluate", "explain", "predict", "chat", "serve"):
        from regard import _heap

        _heap.keep()


Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Where the data lies now.")]
Ensemble = Annotated[list[str] | None, typer.Option("--ensemble", metavar="RUN", help="More that vote.")]
Int8 = Annotated[bool, typer.Option("--int8", help="8-bit integers in linear layers: faster, a little less exact.")]
Rescore = Annotated[
    str | None,
    typer.Option("--rescore", metavar="RUN", help="A language model or nnjm, which ranks what the beam found again."),
]
RescoreWeight = Annotated[
    float | None,
    typer.Option("--rescore-weight", help="How much it counts: 0.008 of a language model, 0.5 of nnjm if not given."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Lift the limits on what the files of a run may ask for.")]
Weights = Annotated[str | None, typer.Option("--weights", help="average, best or last.")]
Where = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or a shipped model.")]


def rescored(model: Any, other: str | None, weight: float | None, trust: bool) -> Any:
    """The model, or the same with its hypotheses ranked again by the ``other``."""
    if other is None:
        if weight is not None:
            raise ValueError("--rescore-weight says how much the model of --rescore RUN counts, and there is none")
        return model
    from regard import runs

    return model.rescored(runs.load(other, trust=trust), weight)


def typed() -> str:
    """This program as one types it here."""
    path, folder = Path(sys.argv[0]).absolute(), Path.cwd()
    if path.name != "regard":
        return "regard"
    on_path = shutil.which("regard")
    if on_path and Path(on_path).absolute() == path:
        return "regard"
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
