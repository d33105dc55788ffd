"""What the examples share: colours, a table, and a figure that says where it was saved. Nothing about attention."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.views import colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, _, RED, *_ = colours.HUES
INK, GREY = "#222222", "#8A8A8A"

STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.12,
}


def start(doc: str, argument: str | None = None, about: str = "") -> argparse.Namespace:
    """Read ``--out`` and at most one optional argument; ``--help`` prints the example's own docstring."""
    doc = doc.replace("%", "%%")
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="folder for the figure")
    if argument:
        parser.add_argument(argument, nargs="?", type=Path, help=about)
    torch.set_num_threads(1)  # tensors this small lose more to waiting threads than they gain
    sys.stdout.reconfigure(errors="replace")  # a terminal without Greek letters shows ? for them
    return parser.parse_args()


def canvas(layout: int | str, width: float, height: float, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure of width × height inches and its axes: N columns, or a mosaic such as "ab;cb". Needs no display."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        sys.exit("The figure needs matplotlib. Type: pip install 'regard[plot]'")
    matplotlib.use("Agg")
    colours.register()
    matplotlib.rcParams.update(STYLE)
    from matplotlib import pyplot

    if isinstance(layout, str):
        return pyplot.subplot_mosaic(layout, figsize=(width, height), **options)
    return pyplot.subplots(rows, layout, figsize=(width, height), **options)


def save(figure: Figure, path: Path) -> None:
    """Write the figure and say where."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        sys.exit(f"Cannot write {path}: {error.strerror}. Choose another folder with --out DIR")
    print(f"\nSaved {path}")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns, the first flush left and the others flush right."""
    lines = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first, *rest = (cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths)))
        print("  ".join(["", first, *rest]).rstrip())
