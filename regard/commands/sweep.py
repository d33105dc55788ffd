"""``regard sweep``: one recipe with every combination of some settings, as Britz et al. 2017 (arXiv:1703.03906)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands._app import app, examples

if TYPE_CHECKING:
    from regard.lab import Cell, Measured
    from regard.registry import Recipe

SEED = "train.seed"


class Sweep(NamedTuple):
    """A grid of trainings.

    Attributes:
        keys: the settings that differ, but for the seed.
        rows: the values of the keys in each combination.
        cells: the trainings of each row, one a seed.
    """

    keys: list[str]
    rows: list[tuple[str, ...]]
    cells: list[list[Cell]]


@app.command(
    "sweep",
    epilog=examples(
        "sweep translate-toy-luong score=dot,additive system.hidden=64,128 seed=1-3",
        "sweep translate-toy-luong attention=true,false seed=1-3 epochs=4 --metric exact_match --out sweep.png",
    ),
)
def sweep_command(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `regard list recipes`, or a .toml file.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=A,B,…", help="Values to try, such as score=dot,additive or seed=1-3."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="Your own data.")] = None,
    runs: Annotated[Path | None, typer.Option("--runs", metavar="DIR", help="Where the runs are kept.")] = None,
    split: Annotated[str, typer.Option("--split", help="What is measured: train, valid or test.")] = "valid",
    metric: Annotated[str, typer.Option("--metric", metavar="A,B,…", help="Columns; all by default.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", help="Trainings side by side.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Draw the first metric.")] = None,
) -> None:
    """Train every combination of settings. One table: means over seeds with 95 % intervals.

    A key with several values, A,B,C or 1-3, is swept; one value changes every training. Ctrl-C stops in good order, and
    the same command goes on; what is trained and measured is not done again.
    """
    from regard import lab, registry
    from regard.tasks.task import check_split

    grid = sweep(registry.recipe(name), name, changes or [])
    place = runs or Path("runs") / f"sweep-{Path(name).stem}"
    laboratory = _laboratory(place, jobs, data, check_split(split))
    lab.stop_on_signals()
    try:
        laboratory.train(list(itertools.chain.from_iterable(grid.cells)))
        values = [[laboratory.measure(cell) for cell in cells] for cells in grid.cells]
    except KeyboardInterrupt:
        lab.say("stopped; the same command goes on")
        raise SystemExit(130) from None
    metrics = {name: value for cells in values for measures in cells for name, value in measures.items()}
    columns = _columns(metrics, [column.strip() for column in metric.split(",") if column.strip()])
    print(f"{name}, {split}, {len(grid.cells[0])} seed{'s' if len(grid.cells[0]) > 1 else ''}\n")
    print("\n".join(table(grid, values, columns)))
    if out is not None:
        draw(grid, values, columns[0], out)
        print(f"\n{out}")


def sweep(recipe: Recipe, name: str, changes: Sequence[str]) -> Sweep:
    """The grid that ``key=values`` describe; every combination is checked before anything is trained."""
    from regard.lab import Cell

    axes: dict[str, list[str]] = {}
    fixed: list[str] = []
    seeds = [str(recipe.build("train").seed)]
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise ValueError(f"{change!r} is not key=value or key=A,B, for example score=dot,additive")
        full_key = ".".join(recipe.parsed([f"{key}={_values(text)[0]}"])[0][:2])
        values = _values(text)
        if len(set(values)) < len(values):
            raise ValueError(f"{change}: a value stands there twice")
        if full_key == SEED:
            seeds = values
        elif full_key in axes or any(pair.startswith(f"{full_key}=") for pair in fixed):
            raise ValueError(f"{key} is given twice")
        elif len(values) > 1:
            axes[full_key] = values
        else:
            fixed.append(f"{full_key}={values[0]}")
    keys, rows, cells = list(axes), list(itertools.product(*axes.values())), []
    for row in rows:
        cell_changes = (*fixed, *(f"{key}={value}" for key, value in zip(keys, row)))
        recipe.change(cell_changes)
        folder = "_".join(f"{key.partition('.')[2]}-{value}" for key, value in zip(keys, row)) or recipe.name
        folder = re.sub(r"[^\w.+=-]", "-", folder)
        cells.append([Cell(folder, name, 1.0, cell_changes, _whole(seed)) for seed in seeds])
    return Sweep(keys, rows, cells)


def _values(text: str) -> list[str]:
    """``a,b`` or ``1-3``; a value in brackets, a list of its own, is one value."""
    if text.startswith(("[", "(")):
        return [text]
    values = []
    for part in text.split(","):
        if bounds := re.fullmatch(r"(\d+)-(\d+)", part.strip()):
            first, last = int(bounds[1]), int(bounds[2])
            if last < first:
                raise ValueError(f"{part}: the first of a range is not larger than the last")
            values += [str(number) for number in range(first, last + 1)]
        else:
            values.append(part.strip())
    return values


def _whole(seed: str) -> int:
    if not seed.isdigit():
        raise ValueError(f"seed={seed}: seeds are whole numbers, such as seed=1-3")
    return int(seed)


def _laboratory(place: Path, jobs: int, data: str | None, split: str) -> Measured:
    from regard.lab import Measured

    class Grid(Measured):
        def data(self, cell: Cell) -> list[str]:
            return ["--data", data] if data else []

        def split(self, cell: Cell) -> str:
            return split

    return Grid(place, jobs=jobs)


def _columns(metrics: dict[str, Any], selected: list[str]) -> list[str]:
    from regard._lazy import nearest

    measured = [name for name, value in metrics.items() if isinstance(value, int | float) and name != "minutes"]
    for name in selected:
        if name not in measured:
            raise ValueError(f"--metric {name}: nothing of that name was measured; {nearest(name, measured)}")
    return selected or measured


def table(grid: Sweep, values: Sequence[Sequence[dict[str, Any]]], columns: Sequence[str]) -> list[str]:
    """Lines of Markdown: a row for each combination, a column for each metric, and minutes."""
    table_rows = [[*grid.keys, *columns, "minutes"]]
    for row, seeds in zip(grid.rows, values):
        texts = [_formatted([seed[column] for seed in seeds if column in seed]) for column in columns]
        table_rows.append([*row, *texts, f"{interval([seed['minutes'] for seed in seeds])[0]:.1f}"])
    widths = [max(map(len, column)) for column in zip(*table_rows)]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |" for row in table_rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _formatted(values: Sequence[float]) -> str:
    """A cell; some metrics are measured with some settings alone, such as how much was copied."""
    if not values:
        return "–"
    mean, half = interval(values)
    return f"{mean:.2f}" + (f" ± {half:.2f}" if len(values) > 1 else "")


STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % quantile of Student's t for 1 to 9 degrees of freedom."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % interval by Student's t; NaN of a single value."""
    import statistics

    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return mean, math.nan
    t = STUDENT[count - 2] if count - 2 < len(STUDENT) else 1.96 + 2.5 / (count - 1)
    return mean, t * statistics.stdev(values) / math.sqrt(count)


def draw(grid: Sweep, values: Sequence[Sequence[dict[str, Any]]], metric: str, path: Path) -> None:
    """The last key along the horizontal axis, and a curve for each combination of the others."""
    from regard.views import curves

    points: dict[str, list[tuple[float, float]]] = {}
    names: dict[str, None] = {}
    for row, seeds in zip(grid.rows, values):
        title = ", ".join(f"{key.partition('.')[2]} {value}" for key, value in zip(grid.keys[:-1], row))
        numbers = [seed[metric] for seed in seeds if metric in seed]
        points.setdefault(title, []).append(interval(numbers) if numbers else (math.nan, math.nan))
        names[row[-1] if row else ""] = None
    axis_name = grid.keys[-1].partition(".")[2] if grid.keys else ""
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    curves.draw(points, list(names), path, along=axis_name, metric=metric)
