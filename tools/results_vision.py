"""Train and measure the tables of docs/results.md on vision. What is done is not done again.

    .venv/bin/python tools/results_vision.py                       # all; MNIST and cluttered-mnist must be at hand
    .venv/bin/python tools/results_vision.py ram draw              # these
    .venv/bin/python tools/results_vision.py --list                # what is done, and how many minutes are left
    .venv/bin/python tools/results_vision.py --jobs 2              # two trainings side by side, of one thread each

Every training is a run of its own under --runs, made by `regard train` and taken up where it stopped. Errors are those
of the test split in percent, of the weights with the best validation; minutes are those of a training on one core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import HERE, Cell, Measured, Table, print_tables


@dataclass
class Sights(Measured):
    """Trainings on pictures, and how they end."""

    figure: Path = HERE / "docs" / "images" / "error_by_cost.png"


RAM = {  # title: the training, and what the paper has
    "six glimpses of 8 × 8, MNIST": (Cell("ram-mnist", "ram-mnist", 30), "1.12"),
    "the same, looking anywhere": (Cell("ram-random", "ram-mnist", 30, ("policy=random",)), ""),
    "six of 12 × 12 at three scales, 60 × 60": (Cell("ram-translated", "ram-translated", 60), "1.22"),
    "eight, among clutter": (Cell("ram-cluttered", "ram-cluttered", 60), "4.0"),
    "a CNN, among clutter": (Cell("cnn-cluttered", "cnn-cluttered", 20), "8.1"),
}


def ram(lab: Sights) -> Iterator[str]:
    """RAM and its controls."""
    yield "| | error | published | multiplications | minutes |\n|---|---|---|---|---|"
    for title, (cell, paper) in RAM.items():
        measured = lab.measure(cell)
        cost = f"{measured['multiplications']:,.0f}"
        yield f"| {title} | {measured['error']:.2f} | {paper} | {cost} | {measured['minutes']:.0f} |"


CATCH = Cell("ram-catch", "ram-catch", 20)


def catch(lab: Sights) -> Iterator[str]:
    """The game of Catch: balls caught."""
    measured = lab.measure(CATCH)
    shown = {name: value for name, value in measured.items() if name not in ("made", "minutes")}
    yield "| " + " | ".join([*shown, "minutes"]) + " |\n|" + "---|" * (len(shown) + 1)
    yield "| " + " | ".join([*(f"{value:,.2f}" for value in shown.values()), f"{measured['minutes']:.0f}"]) + " |"


SEEDS = 3
STN: dict[str, tuple[str, tuple[str, ...], float, int, str]] = {
    # title: recipe, changes, minutes on one core, seeds, what the paper has
    "clutter (the npz), ST-CNN": ("stn-cluttered", (), 6, SEEDS, "5.7"),
    "clutter, a CNN of equal size": ("stn-cluttered", ("variant=cnn",), 6, SEEDS, "14.2"),
    "turned, scaled, moved: ST-CNN": ("stn-distorted", (), 12, SEEDS, "0.5"),
    "turned, scaled, moved: CNN": ("stn-distorted", ("variant=cnn",), 10, SEEDS, "0.8"),
    "sum of two digits, two transformers": ("stn-addition", (), 37, 1, "5.8 to 9.0"),
    "sum of two digits, one": ("stn-addition", ("transformers=1",), 30, 1, ""),
}


def stn_row(title: str) -> list[Cell]:
    """Its trainings."""
    recipe, changes, minutes, seeds, _ = STN[title]
    name = "-".join([recipe, *(change.replace("=", "") for change in changes)])
    return [Cell(name, recipe, minutes, changes, seed) for seed in range(seeds)]


def stn(lab: Sights) -> Iterator[str]:
    """Spatial transformers and networks without."""
    yield "| | error, mean of the seeds | published | parameters | minutes each |\n|---|---|---|---|---|"
    for title, (*_, paper) in STN.items():
        error, minutes = lab.mean(stn_row(title), "error")
        parameters = lab.measure(stn_row(title)[0])["parameters"]
        yield f"| {title} | {error} | {paper} | {parameters:,.0f} | {minutes} |"


DRAW = {
    "MNIST in ten strokes, bound in nats": (Cell("draw-mnist", "draw-mnist", 60), "bound", "80.97 in 64"),
    "the same without attention, 15 epochs": (
        Cell("draw-blind", "draw-mnist", 40, ("variant=blind", "epochs=15")),
        "bound",
        "87.40 in 64",
    ),
    "eight looks of 12 × 12 among clutter, error": (Cell("draw-cluttered", "draw-cluttered", 45), "error", "3.36"),
}


def draw(lab: Sights) -> Iterator[str]:
    """DRAW: pictures and classes."""
    yield "| | got | published | parameters | minutes |\n|---|---|---|---|---|"
    for title, (cell, metric, paper) in DRAW.items():
        bound, minutes = lab.mean([cell], metric)
        yield f"| {title} | {bound} | {paper} | {lab.measure(cell)['parameters']:,.0f} | {minutes} |"


FEWER = "epochs=50"  # a third of what clutter gets
POOLED = "system.widths=[4,8,16,32]"
KINDS = {28: ("kind=plain",), 60: ("kind=translated",), 100: ("kind=translated", "task.size=100")}
COST = {  # title: for each size of picture
    "RAM": {
        28: RAM["six glimpses of 8 × 8, MNIST"][0],
        60: RAM["six of 12 × 12 at three scales, 60 × 60"][0],
        100: Cell("ram-100", "ram-translated", 35, ("task.size=100", "scales=4", "epochs=75", "precision=auto")),
    },
    "CNN of the paper": {
        pixels: Cell(f"cnn-{pixels}", "cnn-cluttered", minutes, (*KINDS[pixels], FEWER))
        for pixels, minutes in {28: 3, 60: 5, 100: 12}.items()
    },
    "CNN of 3 × 3": {
        pixels: Cell(f"cnn-pooled-{pixels}", "cnn-cluttered", minutes, (*KINDS[pixels], "epochs=15", POOLED))
        for pixels, minutes in {28: 2, 60: 5, 100: 12}.items()
    },
}


def cost(lab: Sights) -> Iterator[str]:
    """Error against multiplications for one picture, as it grows."""
    yield "| pixels | " + " | ".join(f"{title}: error | multiplications" for title in COST) + " |"
    yield "|---|" + "---|---|" * len(COST)
    curves: dict[str, list[tuple[int, float, float]]] = {title: [] for title in COST}
    for pixels in KINDS:
        for title, curve in curves.items():
            measured = lab.measure(COST[title][pixels])
            curve.append((pixels, measured["multiplications"], measured["error"]))
        shown = " | ".join(f"{curve[-1][2]:.2f} | {curve[-1][1]:,.0f}" for curve in curves.values())
        yield f"| {pixels} × {pixels} | {shown} |"
    lab.figure.parent.mkdir(parents=True, exist_ok=True)
    picture(curves, lab.figure)
    yield f"\nFigure: {lab.figure}"


def picture(curves: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """A point for each size of picture, (pixels, multiplications, error)."""
    from matplotlib.figure import Figure

    from regard.views._shared import INK, MUTED, save

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    styles = ("#0b4f8a", "o"), ("#c0392b", "s"), ("#b9770e", "^")
    for (title, points), (colour, marker) in zip(curves.items(), styles):
        sizes, prices, errors = zip(*points)
        axes.plot(prices, errors, color=colour, marker=marker, markersize=6, linewidth=1.4, label=title)
        for size, price, error in zip(sizes, prices, errors):
            place: dict[str, Any] = {"xytext": (-7, 3), "textcoords": "offset points", "ha": "right"}
            axes.annotate(f"{size} px", (price, error), **place, fontsize=8, color=INK)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.12, y=0.18)
    axes.set_xlabel("multiplications for one picture", color=MUTED)
    axes.set_ylabel("test error, %", color=MUTED)
    axes.tick_params(length=2, labelsize=9, colors=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c9ced6")
    axes.grid(color="#e8ebef", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    save(figure, path)


DRAM = {  # title: the training, and what the paper has
    "two digits, three glimpses each": (Cell("dram-two", "dram-two", 15), "5"),
    "the same without the context network": (Cell("dram-two-context0", "dram-two", 15, ("context=0",)), "7"),
    "the sum of two digits, six glimpses": (Cell("dram-addition", "dram-addition", 20), "2.5"),
    "house numbers, three glimpses a digit": (Cell("dram-house", "dram-house", 60), "3.9 on SVHN"),
    "the same by a CNN of as many multiplications": (
        Cell("dram-house-cnn", "dram-house", 60, ("system.name=cnn", "system.widths=[18,36,72]")),
        "",
    ),
}
FOVEAL = {
    "four learned fixations": Cell("foveal-mnist", "foveal-mnist", 15),
    "four fixations anywhere": Cell("foveal-mnist-policyrandom", "foveal-mnist", 15, ("policy=random",)),
}
TRACKER = {
    f"gazes by {title}": Cell(f"gaze-track-{policy}", "gaze-track", 1, (f"policy={policy}",))
    for policy, title in {"ucb": "UCB", "exp3": "EXP3", "hedge": "Hedge", "random": "chance"}.items()
}


def gazes(lab: Sights) -> Iterator[str]:
    """DRAM, foveal glimpses and the gaze tracker."""
    heads = ("error", "published", "first object looked for first", "multiplications", "minutes")
    yield f"| | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}"
    for title, (cell, paper) in DRAM.items():
        measured = lab.measure(cell)
        ordered = f"{100 * measured['ordered']:.1f} %" if "ordered" in measured else ""
        cost = f"{measured['multiplications']:,.0f}"
        yield f"| {title} | {measured['error']:.2f} | {paper} | {ordered} | {cost} | {measured['minutes']:.0f} |"
    yield "\n| | error after each fixation | minutes |\n|---|---|---|"
    for title, cell in FOVEAL.items():
        measured = lab.measure(cell)
        errors = ", ".join(f"{measured[name]:.2f}" for name in sorted(measured) if name.startswith("error_"))
        yield f"| {title} | {errors or format(measured['error'], '.2f')} | {measured['minutes']:.0f} |"
    yield "\n| | centre error, median pixels | overlap | minutes |\n|---|---|---|---|"
    for title, cell in TRACKER.items():
        measured = lab.measure(cell)
        yield f"| {title} | {measured['centre_error']:.2f} | {measured['overlap']:.2f} | {measured['minutes']:.1f} |"


TABLES = {
    "ram": Table(lambda: [cell for cell, _ in RAM.values()], ram),
    "catch": Table(lambda: [CATCH], catch),
    "stn": Table(lambda: [cell for title in STN for cell in stn_row(title)], stn),
    "draw": Table(lambda: [cell for cell, *_ in DRAW.values()], draw),
    "gazes": Table(lambda: [*(cell for cell, _ in DRAM.values()), *FOVEAL.values(), *TRACKER.values()], gazes),
    "cost": Table(lambda: [cell for curve in COST.values() for cell in curve.values()], cost),
}


def main() -> None:
    """Train what is missing, and print Markdown tables."""
    print_tables(__doc__, TABLES, Sights)


if __name__ == "__main__":
    main()
