"""Why the dot product is divided by √d.

Two words of the lecture: q·k₁ = 112, q·k₂ = 96, and d = 64. Divided by √64 the scores are 14 and 12, and their softmax
is 0.88 and 0.12. Undivided, the softmax of 112 and 96 is 1 and 0 to six digits: the attention has made up its mind, and
the gradient α(1 − α) that could change it is gone.

This is the rule, not an accident. With entries of variance 1 a dot product has variance d, so scores spread as √d and
the softmax saturates as vectors grow wide; divided by √d they spread by 1 at every width.

All queries at once are a product of matrices: softmax(Q Kᵀ / √d) V, with one query, key or value in each row.
(One slide writes QᵀK, which is d × d; and a softmax over a single key, which is always 1.)

    python examples/scaled_dot.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from _common import BLUE, GREY, INK, ORANGE, canvas, save, start, table
from torch import Tensor

import regard

WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
KEYS = 10


def lecture() -> tuple[Tensor, Tensor]:
    """A query (1, 64) and two keys (2, 64) whose dot products are 112 and 96."""
    return torch.ones(1, 64), torch.tensor([[1.75], [1.5]]).expand(2, 64)


def saturation(width: int, score: str, count: int = 4000) -> tuple[float, float]:
    """The mean of the largest weight, and of the gradient's size ‖∂α/∂e‖, over random queries with ten keys each."""
    generator = torch.Generator().manual_seed(width)
    query = torch.randn(count, 1, width, generator=generator)
    key = torch.randn(count, KEYS, width, generator=generator)
    weights = regard.attend(query, key, score=score).weights.squeeze(-2)  # (count, J)
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return weights.amax(-1).mean().item(), torch.linalg.matrix_norm(jacobian).mean().item()


def one_by_one(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The matrix form spelled out: each query, each key, each value, (T, D), (S, D), (S, E) → (T, E)."""
    rows = []
    for q in query:
        e = torch.stack([q @ k for k in key]) / math.sqrt(key.shape[-1])
        rows.append(sum(a * v for a, v in zip(torch.softmax(e, dim=0), value, strict=True)))
    return torch.stack(rows)


def matrix_form(queries: int = 32, keys: int = 32, width: int = 64) -> tuple[float, float]:
    """How far the loops and the matrices are apart at most, and how many times faster the matrices are."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(n, width, generator=generator) for n in (queries, keys, keys))
    expected, slow = _timed(lambda: one_by_one(query, key, value), 3)
    product, fast = _timed(lambda: regard.attend(query, key, value, weights=False).context, 30)
    return (expected - product).abs().max().item(), slow / fast


def _timed(work: Callable[[], Tensor], repeats: int) -> tuple[Tensor, float]:
    seconds = []
    for _ in range(repeats):
        before = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - before)
    return result, min(seconds)


def draw(folder: Path, largest: dict[str, list[float]], gradient: dict[str, list[float]]) -> None:
    """The two weights of the lecture, and what the width does to ten keys."""
    figure, axes = canvas(3, 13, 4)
    query, key = lecture()
    styles = {"dot": (ORANGE, "o", "q·k"), "scaled_dot": (BLUE, "s", "q·k / √d")}
    for i, (name, (colour, _, label)) in enumerate(styles.items()):
        weights = regard.attend(query, key, score=name).weights[0].tolist()
        places = [x + 0.38 * (i - 0.5) for x in (0, 1)]
        bars = axes[0].bar(places, weights, width=0.34, color=colour, label=label)
        axes[0].bar_label(bars, fmt="%.2f", padding=2)
    axes[0].set_xticks([0, 1], ["key 1\n112 → 14", "key 2\n96 → 12"])
    axes[0].set(title="The lecture's two keys", ylabel="weight α", ylim=(0, 1.12))
    axes[0].legend(loc="upper right")

    for axis, series in ((axes[1], largest), (axes[2], gradient)):
        for name, (colour, marker, label) in styles.items():
            axis.plot(WIDTHS, series[name], color=colour, marker=marker, markersize=5, label=label)
            last = series[name][-1]
            axis.annotate(f"{last:.3f}", (WIDTHS[-1], last), xytext=(7, 0), textcoords="offset points",
                          va="center", color=INK)  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_xticks(WIDTHS, WIDTHS)
        axis.set(xlabel="width d of query and key", ylim=(0, None), xlim=(1.7, 1100))
    axes[1].axhline(1 / KEYS, color=GREY, linewidth=0.8, linestyle=":")
    axes[1].text(1.8, 1 / KEYS - 0.015, "all ten keys alike", color=GREY, fontsize=8.5, va="top")
    axes[1].set(title="Undivided, one key takes all", ylabel="mean of the largest weight", ylim=(0, 1.05))
    axes[2].set(title="… and the gradient fades", ylabel="mean of ‖∂α/∂e‖")
    axes[1].legend(loc="upper left")
    save(figure, folder / "scaled_dot.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__)
    query, key = lecture()
    print("One query, two keys, d = 64:\n")
    rows = []
    for name in ("dot", "scaled_dot"):
        out = regard.attend(query, key, score=name)
        rows.append((name, *(f"{e:g}" for e in out.scores[0].tolist()), *(f"{a:.4f}" for a in out.weights[0].tolist())))
    table(["score", "e₁", "e₂", "α₁", "α₂"], rows)

    difference, faster = matrix_form()
    print(f"\nMatrix form against loops over 32 queries and 32 keys: differ by {difference:.0e}, {faster:.0f}× faster.")

    print("\nTen random keys: mean of the largest weight, and of the gradient ‖∂α/∂e‖:\n")
    gradients = {name: [saturation(width, name) for width in WIDTHS] for name in ("dot", "scaled_dot")}
    rows = [
        (width, *(f"{number:.3f}" for name in gradients for number in gradients[name][i]))
        for i, width in enumerate(WIDTHS)
    ]
    table(["d", "dot", "gradient", "scaled", "gradient"], rows)
    largest, gradient = ({name: [pair[i] for pair in pairs] for name, pairs in gradients.items()} for i in (0, 1))
    draw(options.out, largest, gradient)


if __name__ == "__main__":
    main()
