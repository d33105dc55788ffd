"""Tables of results: which trainings of :mod:`regard.lab` each needs, and the Markdown that it becomes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.lab import Cell, Lab, Measured, facts, say, stop_on_signals

__all__ = ["HERE", "Cell", "Lab", "Measured", "Table", "cells", "facts", "lines", "print_tables", "row", "say", "write"]
HERE = Path(__file__).parents[1]
Rows = Mapping[str, Sequence[Cell]]
"""A title, and its trainings: one for each seed."""


@dataclass(frozen=True)
class Table:
    """The trainings that it needs, and the lines of Markdown that it becomes."""

    cells: Callable[[], list[Cell]]
    lines: Callable[[Any], Iterator[str]]


def cells(rows: Rows) -> list[Cell]:
    """All of some rows."""
    return [cell for row_cells in rows.values() for cell in row_cells]


def lines(lab: Measured, rows: Rows, metrics: Mapping[str, str]) -> Iterator[str]:
    """A line for each row: the heading of each metric, and its name."""
    yield "| | " + " | ".join([*metrics, "minutes"]) + " |\n|---|" + "---|" * (len(metrics) + 1)
    for title, row_cells in rows.items():
        if not any(map(lab.wants, row_cells)):
            continue
        measured = lab.measure(row_cells[0])
        values = [lab.mean(row_cells, name)[0] if name in measured else "" for name in metrics.values()]
        yield "| " + " | ".join([title, *values, lab.mean(row_cells, "minutes")[1]]) + " |"


def row(recipe: str, minutes: float, *changes: str, seeds: int = 1) -> list[Cell]:
    """A recipe with changes, for some seeds."""
    pairs = (change.partition("=") for change in changes)
    name = "-".join([recipe, *(key.rpartition(".")[2] + value for key, _, value in pairs)])
    return [Cell(name, recipe, minutes, changes, seed) for seed in range(seeds)]


def print_tables(description: str | None, tables: Mapping[str, Table], make: Callable[..., Lab]) -> None:
    """Train what is missing, and print Markdown tables. ``make`` is a :class:`Lab` or a kind of it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE or KEY=VALUE", help=", ".join(tables))
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), metavar="DIR", help="where the runs are")
    parser.add_argument("--figure", type=Path, default=make.figure, metavar="FILE", help="where the figure goes")
    parser.add_argument("--only", default="", metavar="TEXT", help="trainings with this in their name")
    parser.add_argument("--list", action="store_true", help="say what is done and what is left")
    arguments = parser.parse_intermixed_args()
    changes = tuple(word for word in arguments.tables if "=" in word)
    chosen = [word for word in arguments.tables if "=" not in word] or list(tables)
    if unknown := [name for name in chosen if name not in tables]:
        parser.error(f"no table is called {', '.join(unknown)}: they are {', '.join(tables)}")
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: at least 1")
    lab = make(arguments.runs, changes, arguments.jobs, arguments.figure, arguments.only)
    if arguments.list:
        print("\n".join(list_cells(lab, {name: tables[name] for name in chosen})))
        return
    stop_on_signals()
    try:
        for name in chosen:
            lab.train(tables[name].cells())
            print(f"\n### {name}: {tables[name].lines.__doc__}\n")
            for line in tables[name].lines(lab):
                print(line, flush=True)
    except KeyboardInterrupt:
        say("stopped; the same command goes on")
        raise SystemExit(130) from None
    except ValueError as error:
        raise SystemExit(f"{Path(sys.argv[0]).stem}: {error}") from None


def list_cells(lab: Lab, tables: Mapping[str, Table]) -> Iterator[str]:
    """A line for each training, the sum for each table, and for all; one that two tables need counts once."""
    minutes_left: dict[Cell, float] = {}
    for name, table in tables.items():
        cells = [cell for cell in table.cells() if lab.wants(cell)]
        estimates = {cell: lab.left(cell) for cell in cells if cell not in minutes_left}
        minutes_left |= estimates
        done = sum(lab.share(cell) == 1 for cell in cells)
        left = f"{done} of {len(cells)} trainings done, about {sum(estimates.values()) / lab.jobs:.0f} minutes left"
        yield f"{name}: {left if cells else 'nothing to train'}"
        for cell, minutes in estimates.items():
            share = lab.share(cell)
            state = "done" if share == 1 else f"{100 * share:.0f} %" if share else "to do"
            yield f"  {state:5}  {cell}" + ("" if share == 1 else f", about {minutes:.0f} minutes left")
    yield f"in all about {sum(minutes_left.values()) / lab.jobs:.0f} minutes with --jobs {lab.jobs}"


def write(path: Path, text: str) -> None:
    """All of it or nothing."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
