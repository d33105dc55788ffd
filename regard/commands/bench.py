"""``regard bench``: speed and memory beside other libraries."""

from __future__ import annotations

import importlib
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


@bench.command("attention")
def bench_attention(
    json_file: JsonFile = None,
    compile: Annotated[bool, typer.Option("--compile", help="Add torch.compile as an opponent.")] = False,
    quick: Quick = False,
    only: Only = "",
) -> None:
    """Time attention against PyTorch and peers."""
    _bench("attention", json_file, quick, only, compile=compile)


@bench.command("graphs")
def bench_graphs(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time attention along edges against PyTorch Geometric."""
    _bench("graphs", json_file, quick, only)


@bench.command("handwriting")
def bench_handwriting(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time writing and its training against plain PyTorch."""
    _bench("handwriting", json_file, quick, only)


@bench.command("memory")
def bench_memory(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time the systems with a memory against plain PyTorch."""
    _bench("memory", json_file, quick, only)


@bench.command("record")
def bench_record(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time what seeing the attention of another library's model costs."""
    _bench("record", json_file, quick, only)


@bench.command("serve")
def bench_serve(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time the server: 32 clients, with and without batching."""
    _bench("serve", json_file, quick, only)


@bench.command("speech")
def bench_speech(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time features, location-aware attention and recognition."""
    _bench("speech", json_file, quick, only)


@bench.command("threads")
def bench_threads(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time training on idle and on busy cores, by how threads wait."""
    _bench("threads", json_file, quick, only)


@bench.command("translate")
def bench_translate(
    json_file: JsonFile = None,
    quick: Quick = False,
    only: Only = "",
    lines: Annotated[int, typer.Option("--lines", help="Of the file for predict.", min=10)] = 100_000,
) -> None:
    """Time our translators as the work grows, and in other engines."""
    _bench("translate", json_file, quick, only, lines=lines)


@bench.command("vision")
def bench_vision(json_file: JsonFile = None, quick: Quick = False, only: Only = "") -> None:
    """Time glimpses against plain PyTorch."""
    _bench("vision", json_file, quick, only)


def _bench(name: str, json_file: Path | None, quick: bool, only: str, **more: Any) -> None:
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ValueError(f"--json {json_file}: the folder {json_file.absolute().parent} does not exist")
    importlib.import_module(f"regard.bench.{name}").run(json_file=json_file, quick=quick, only=only, **more)
