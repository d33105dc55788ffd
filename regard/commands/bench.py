"""``regard bench``: speed and memory beside other libraries.

Every file of :mod:`regard.bench` whose docstring begins with ``regard bench NAME`` is a command.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands._app import app

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench, name="bench", help="Measure speed and memory beside other libraries.")

JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Also write the table here.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Few repetitions: a look only.")]
Only = Annotated[str, typer.Option("--only", metavar="TEXT", help="Only rows with this in their name.")]


def bench_attention(
    json_file: JsonFile = None,
    compile: Annotated[bool, typer.Option("--compile", help="Add torch.compile as an opponent.")] = False,
    quick: Quick = False,
    only: Only = "",
) -> None:
    """``regard bench attention``."""
    _bench("attention", json_file, quick, only, compile=compile)


def bench_translate(
    json_file: JsonFile = None,
    quick: Quick = False,
    only: Only = "",
    lines: Annotated[int, typer.Option("--lines", help="Of the file for predict.", min=10)] = 100_000,
) -> None:
    """``regard bench translate``."""
    _bench("translate", json_file, quick, only, lines=lines)


def _plain(name: str) -> Callable[..., None]:
    """A command without options of its own."""

    def command(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
        _bench(name, json_file, quick, only)

    return command


def _bench(name: str, json_file: Path | None, quick: bool, only: str, **more: Any) -> None:
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ValueError(f"--json {json_file}: the folder {json_file.absolute().parent} does not exist")
    importlib.import_module(f"regard.bench.{name}").run(json_file=json_file, quick=quick, only=only, **more)


def _commands() -> Iterator[tuple[str, str]]:
    """Each command and what it measures, without importing torch."""
    for file in sorted(Path(__file__).parents[1].joinpath("bench").glob("*.py")):
        begins = f'"""``regard bench {file.stem}``: '
        if (text := file.read_text(encoding="utf-8")).startswith(begins):
            about = re.split(r'(?<=\.)\s|"""', text[len(begins) :], maxsplit=1)[0]
            yield file.stem, about[:1].upper() + " ".join(about[1:].split())


_own: dict[str, Callable[..., None]] = {"attention": bench_attention, "translate": bench_translate}
for _name, _about in _commands():
    bench.command(_name, help=_about)(_own.get(_name) or _plain(_name))
