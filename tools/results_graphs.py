"""Train the graph recipes with several seeds, each beside its controls, and print the rows of docs/results.md.

    .venv/bin/python tools/results_graphs.py                    # all rows, 10 seeds each; Cora must be at hand
    .venv/bin/python tools/results_graphs.py --only gat-cora --seeds 3

A row is the test metric of the weights with the best validation: mean ± standard deviation over the seeds, the
smallest and the largest, and the wall minutes of one training.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console

import regard

ROWS = {
    "gat-cora": ("gat", "gatv2", "constant", "none"),
    "gat-sbm": ("gat", "constant", "none"),
    "gatv2-lookup": ("gatv2", "gat"),
    "gat-inductive": ("gat", "constant", "none"),
}


def once(name: str, attention: str, seed: int, changes: list[str], folder: Path) -> tuple[str, float]:
    """Train with one seed; the metric of the test split and its value."""
    changes = ["train.tensorboard=false", *changes, f"system.attention={attention}", f"train.seed={seed}"]
    run = regard.train(name, *changes, out=folder, console=Console(file=io.StringIO()))
    ((metric, value),) = regard.load(run).evaluate("test").items()
    return metric, value


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS, action="append", help="this recipe; may be repeated")
    parser.add_argument("--attention", action="append", help="only this attention; may be repeated")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="as for regard train")
    arguments = parser.parse_args()
    print("| recipe | attention | metric | mean ± deviation | smallest to largest | seeds | minutes each |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.only or ROWS:
        for attention in ROWS[name]:
            if arguments.attention and attention not in arguments.attention:
                continue
            began, values = time.monotonic(), []
            for seed in range(arguments.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    metric, value = once(name, attention, seed, arguments.changes, Path(folder) / "run")
                values.append(value)
            minutes = (time.monotonic() - began) / 60 / arguments.seeds
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            row = f"{statistics.mean(values):.1f} ± {spread:.1f} | {min(values):.1f} to {max(values):.1f}"
            print(f"| {name} | {attention} | {metric} | {row} | {arguments.seeds} | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
