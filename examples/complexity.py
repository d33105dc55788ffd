"""What a layer costs as the sequence grows: the complexity table of the lectures, counted and timed.

    layer             operations    in sequence    longest path
    self-attention    n² d          1              1
    recurrent         n d²          n              n
    convolution       k n d²        1              log_k n if dilated, else n / k

(Vaswani et al. 2017, arXiv:1706.03762, table 1.) Self-attention pays for its short path with the square of the length.
Its projections included, it takes 8 n d² + 4 n² d operations where a GRU takes 12 n d²: fewer while n < d, more beyond.
But it does them all at once, and a recurrent layer waits for each step: on a clock, attention stays ahead for longer.

Operations are the multiplications and additions of matrix products in a forward pass. Time is forward and backward of
one layer of width 128, the best of several runs on one thread. The slope is the exponent of n at the long end.

    python examples/complexity.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from _common import BLUE, GREEN, GREY, ORANGE, canvas, save, start, table
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import regard

WIDTH, KERNEL, BATCH = 128, 3, 2
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
LONG = 512
"""From here on the square of the length outweighs the projections."""


def layers() -> dict[str, Callable[[Tensor], Tensor]]:
    """The three layers as functions (B, n, d) → (B, n, d)."""
    torch.manual_seed(0)
    attention = regard.MultiHead(WIDTH, heads=8)
    recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
    convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding="same")
    return {
        "self-attention": lambda x: attention(x, weights=False).context,
        "recurrent": lambda x: recurrent(x)[0],
        "convolution": lambda x: convolution(x.mT).mT,
    }


def count(lengths: Sequence[int] = LENGTHS) -> dict[str, list[int]]:
    """Operations of one forward pass of a single sequence."""
    counts: dict[str, list[int]] = {name: [] for name in layers()}
    for length in lengths:
        for name, layer in layers().items():
            # The counter knows products of matrices, which the plain path consists of.
            with FlopCounterMode(display=False) as counter, torch.no_grad(), regard.kernels.use("plain"):
                layer(torch.randn(1, length, WIDTH))
            counts[name].append(counter.get_total_flops())
    return counts


def measure(lengths: Sequence[int] = LENGTHS, rounds: int = 5) -> dict[str, list[float]]:
    """Seconds of a forward and a backward pass; the layers take turns, and the best of the rounds counts."""
    built = layers()
    inputs = [torch.randn(BATCH, length, WIDTH) for length in lengths]
    best = {name: [math.inf] * len(lengths) for name in built}
    for _ in range(rounds):
        for i, x in enumerate(inputs):
            for name, layer in built.items():
                before = time.perf_counter()
                layer(x).sum().backward()
                best[name][i] = min(best[name][i], time.perf_counter() - before)
    return best


def slope(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """The exponent of n at the long end: least squares through the logarithms from n = 512 on."""
    points = [(math.log(n), math.log(cost)) for n, cost in zip(lengths, costs, strict=True) if n >= LONG]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def draw(folder: Path, operations: dict[str, list[int]], seconds: dict[str, list[float]]) -> None:
    """Operations and time against the length, both axes logarithmic."""
    figure, axes = canvas(2, 11, 4.6)
    styles = {"self-attention": (BLUE, "o"), "recurrent": (ORANGE, "s"), "convolution": (GREEN, "^")}
    panels = (
        (axes[0], operations, 1e-6, "Counted: operations, forward", "million operations"),
        (axes[1], seconds, 1e3, "Timed: forward and backward", "milliseconds"),
    )
    for axis, costs, unit, title, label in panels:
        for name, (colour, marker) in styles.items():
            values = [unit * cost for cost in costs[name]]
            text = f"{name}, $n^{{{slope(LENGTHS, costs[name]):.1f}}}$"
            axis.plot(LENGTHS, values, color=colour, marker=marker, markersize=5, label=text)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(LENGTHS, LENGTHS)
        axis.set(title=title, xlabel=f"length n of the sequence (width d = {WIDTH})", ylabel=label)
        axis.axvline(WIDTH, ymax=0.7, color=GREY, linewidth=0.8, linestyle=":")
        axis.text(WIDTH * 1.05, axis.get_ylim()[0], "n = d", color=GREY, fontsize=8.5, va="bottom")
        axis.legend(loc="upper left")
    save(figure, folder / "complexity.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__)
    operations = count()
    print(f"Operations of one forward pass, in millions, d = {WIDTH}:\n")
    rows = [(n, *(f"{operations[name][i] / 1e6:.1f}" for name in operations)) for i, n in enumerate(LENGTHS)]
    table(["n", *operations], [*rows, ("slope", *(f"{slope(LENGTHS, costs):.2f}" for costs in operations.values()))])

    print(f"\nMilliseconds, forward and backward of {BATCH} sequences. Measuring …\n")
    seconds = measure()
    rows = [(n, *(f"{seconds[name][i] * 1e3:.2f}" for name in seconds)) for i, n in enumerate(LENGTHS)]
    table(["n", *seconds], [*rows, ("slope", *(f"{slope(LENGTHS, costs):.2f}" for costs in seconds.values()))])
    draw(options.out, operations, seconds)


if __name__ == "__main__":
    main()
