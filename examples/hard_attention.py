"""Soft attention blends, hard attention chooses; and what a choice costs when it has to be learned.

An image of four cells a, b, c, d, and weights p over them. Soft attention reads z = Σ pᵢ zᵢ, and dz/dpᵢ = zᵢ: ordinary
gradients. Hard attention draws one cell, i ~ p, and reads z = zᵢ. A draw has no derivative, and that of an argmax is
zero. REINFORCE turns the gradient of the expected reward into a mean over draws,

    ∇ E[R] = E[(R − b) ∇ log pᵢ],        b any number that does not depend on i,

which is right on average and noisy in each draw. A baseline b near the mean reward changes nothing on average and takes
most of the noise away. For four cells the exact gradient Σᵢ Rᵢ ∇pᵢ is at hand (it is that of soft attention over the
rewards themselves), so every estimator can be judged. Gumbel-softmax buys its calm with a bias; the straight-through
gradient is exact here only because the reward is linear in the weights.

Then a task: each cell shows a shape, a dot in its corner marks one cell, name the shape in that cell. One image per
step, as a bandit meets the world. REINFORCE as the slide has it takes several times the steps of soft attention; a
moving average as a baseline gives most of them back.

    python examples/hard_attention.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import torch
from _common import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, canvas, save, start, table
from torch import Tensor, nn

import regard
from regard.normalizers import Gumbel, Hard
from regard.parts import Normalizer
from regard.scores import Additive

LOGITS = (0.4, 0.0, -0.6, 0.8)
REWARDS = torch.tensor([[4.0], [6.0], [9.0], [5.0]])

EVERY = 20
"""Steps between two looks at the accuracy."""

DRAWINGS = (
    "..#.. ..#.. ##### ..#.. ..#..", "#...# .#.#. ..#.. .#.#. #...#", "##### #...# #...# #...# #####",
    "..#.. .#.#. #...# .#.#. ..#..", "##### ....# ...#. ..#.. ..#..", "#.... #.... #.... #.... #####",
    "##### ..#.. ..#.. ..#.. ..#..", "#...# #...# #...# #...# .###.",
)  # fmt: skip
SHAPES = torch.tensor([[[float(pixel == "#") for pixel in row] for row in shape.split()] for shape in DRAWINGS])


def look(values: Tensor, normalizer: str | Normalizer, count: int = 1, seed: int = 0) -> tuple[Tensor, regard.Attended]:
    """Look ``count`` times at four cells, values (4, E). The keys are unit vectors, so that the query is the scores."""
    logits = torch.tensor(LOGITS).repeat(count, 1).requires_grad_()  # (T, 4): a row of its own for each draw
    generator = torch.Generator().manual_seed(seed)
    return logits, regard.attend(logits, torch.eye(4), values, score="dot", normalizer=normalizer, generator=generator)


def exact_gradient() -> Tensor:
    """Σᵢ Rᵢ ∇pᵢ, (4,): the gradient of soft attention over the rewards."""
    logits, out = look(REWARDS, "softmax")
    return torch.autograd.grad(out.context.sum(), logits)[0][0]


def reinforce(count: int, baseline: float = 0.0, seed: int = 0) -> Tensor:
    """(R − b) ∇ log pᵢ for each draw, (count, 4)."""
    logits, out = look(REWARDS, Hard("sample"), count, seed)
    reward = out.context.squeeze(-1)
    return torch.autograd.grad(((reward - baseline) * out.log_prob).sum(), logits)[0]


def through_weights(normalizer: Normalizer, count: int = 1, seed: int = 0) -> Tensor:
    """The gradient of the reward through the weights themselves, for each draw, (count, 4)."""
    logits, out = look(REWARDS, normalizer, count, seed)
    if not out.context.requires_grad:
        return torch.zeros_like(logits)
    return torch.autograd.grad(out.context.sum(), logits)[0]


def estimators(count: int = 100_000) -> dict[str, Tensor]:
    """Gradients of each draw, (count, 4) or (1, 4) where nothing is drawn."""
    _, independent = look(REWARDS, Hard("sample"), 1000, seed=1)  # draws of its own: b must not know i
    return {
        "REINFORCE": reinforce(count),
        "REINFORCE − baseline": reinforce(count, baseline=independent.context.mean().item()),
        "Gumbel-softmax, τ = 1": through_weights(Gumbel(1.0), count),
        "straight-through": through_weights(Hard("straight_through")),
        "argmax": through_weights(Hard("argmax")),
    }


def error_and_variance(gradients: Tensor) -> tuple[float, float]:
    """Distance of the mean from the exact gradient, relative to its length, and the variance of a single draw."""
    exact = exact_gradient()
    error = (gradients.mean(0) - exact).norm() / exact.norm()
    return error.item(), gradients.var(0, unbiased=False).sum().item()


def images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Four noisy cells of 7 × 7 pixels each (B, 4, 49), the marked cell (B,), and the name of the shape in it (B,)."""
    names = torch.randint(len(SHAPES), (count, 4), generator=generator)
    marked = torch.randint(4, (count,), generator=generator)
    cells = nn.functional.pad(SHAPES[names], (1, 1, 1, 1))  # (B, 4, 7, 7)
    cells[torch.arange(count), marked, 0, 0] = 1.0
    cells += 0.2 * torch.randn(cells.shape, generator=generator)
    return cells.flatten(2), marked, names.gather(1, marked.unsqueeze(-1)).squeeze(-1)


class Viewer(nn.Module):
    """Looks at four cells with a learned query and names what it read."""

    def __init__(self, normalizer: str | Normalizer, width: int = 32):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(49, width), nn.ReLU())
        self.query = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.attention = regard.Attention(Additive(width, width, width), normalizer)
        self.name = nn.Linear(width, len(SHAPES))

    def forward(self, cells: Tensor) -> tuple[Tensor, regard.Attended]:
        out = self.attention(self.query.expand(len(cells), -1, -1), self.see(cells))
        return self.name(out.context.squeeze(-2)), out


def learn(kind: str, seed: int = 0, steps: int = 2000, until: float = 2.0) -> list[float]:
    """Train a soft, a hard, or a "hard with baseline" attention on one image per step, at most until it is good enough.

    Returns the accuracy on 500 other images, measured every 20 steps.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Viewer("softmax" if kind == "soft" else Hard("sample"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=True)
    held_out = images(500, torch.Generator().manual_seed(10_000))
    baseline, accuracies = 0.0, []
    for step in range(1, steps + 1):
        cells, _, name = images(1, generator)
        logits, out = model(cells)
        log_likelihood = -nn.functional.cross_entropy(logits, name)
        loss = -log_likelihood
        if kind != "soft":  # the reward of Xu et al. 2015, and their moving average as a baseline
            reward = log_likelihood.item()
            loss = loss - (reward - baseline) * out.log_prob.sum()
            if kind == "hard with baseline":
                baseline = 0.9 * baseline + 0.1 * reward
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0:
            accuracies.append(accuracy(model, *held_out, best=kind != "soft"))
            if accuracies[-1] >= until:
                break
    return accuracies


@torch.no_grad()
def accuracy(model: Viewer, cells: Tensor, marked: Tensor, name: Tensor, best: bool) -> float:
    """The share of right names; with ``best`` the most likely cell is read instead of a drawn one."""
    trained = model.attention.normalizer
    model.attention.normalizer = Hard("argmax") if best else trained
    logits, _ = model(cells)
    model.attention.normalizer = trained
    return (logits.argmax(-1) == name).float().mean().item()


def steps_to(level: float, accuracies: list[float]) -> int:
    """The step at which the accuracy first reaches a level; later than the last if it never does."""
    return EVERY * next((i for i, value in enumerate(accuracies, 1) if value >= level), len(accuracies) + 1)


def draw(folder: Path, found: dict[str, Tensor], curves: dict[str, list[list[float]]]) -> None:
    """The estimators cell by cell, an image and what is read from it, and the learning curves."""
    figure, axes = canvas("gisc;gihc", 14.5, 4.5, width_ratios=(1.5, 0.95, 0.42, 1.2))
    probabilities = torch.softmax(torch.tensor(LOGITS), 0).tolist()

    axis = axes["g"]
    for i, (name, gradients) in enumerate(found.items()):
        places = torch.arange(4) + 0.15 * (i - 2)
        mean, spread = gradients.mean(0), gradients.std(0, unbiased=False)
        colour = (ORANGE, BLUE, PURPLE, GREEN, RED)[i]
        axis.errorbar(places, mean, spread, fmt="o", color=colour, markersize=5, linewidth=1.4, label=name)
    starts = torch.arange(4) - 0.42
    axis.hlines(exact_gradient(), starts, starts + 0.84, color=INK, linewidth=1.2, label="exact")
    axis.axhline(0, color=GREY, linewidth=0.6, zorder=0)
    cells = zip("abcd", probabilities, REWARDS.flatten().tolist(), strict=True)
    axis.set_xticks(range(4), [f"{cell}\np = {p:.2f}\nR = {r:g}" for cell, p, r in cells])
    axis.set(title="The gradient: mean and spread of a draw", ylabel="∂ E[R] / ∂ e", ylim=(-5.4, 3.4))
    axis.legend(loc="lower left", fontsize=8.5, ncols=2)

    pixels, marked, _ = images(1, torch.Generator().manual_seed(4))
    axes["i"].imshow(pixels.view(2, 2, 7, 7).transpose(1, 2).reshape(14, 14), cmap="regard", vmin=-0.3, vmax=1.3)
    axes["i"].axhline(6.5, color=INK, linewidth=2)
    axes["i"].axvline(6.5, color=INK, linewidth=2)
    row, column = divmod(marked.item(), 2)
    axes["i"].scatter(7 * column, 7 * row, s=160, facecolor="none", edgecolor=RED, linewidth=2)
    for i, cell in enumerate("abcd"):
        axes["i"].text(7 * (i % 2) + 6.2, 7 * (i // 2) + 6.2, cell, color=INK, fontweight="bold", ha="right")
    axes["i"].set_title("Four cells, one marked")
    reads = {"s": ("Soft: Σ pᵢ zᵢ", "softmax"), "h": ("Hard: one zᵢ", Hard("sample"))}
    for place, (title, normalizer) in reads.items():
        _, out = look(pixels[0], normalizer)
        axes[place].imshow(out.context.detach().view(7, 7), cmap="regard", vmin=-0.3, vmax=1.3)
        axes[place].set_title(title, fontsize=10)
    for place in "ish":
        axes[place].set(xticks=[], yticks=[])

    for (name, runs), colour in zip(curves.items(), (GREEN, ORANGE, BLUE), strict=True):
        mean = torch.tensor(runs).mean(0)
        axes["c"].plot(EVERY * torch.arange(1, len(mean) + 1), mean, color=colour, label=name, linewidth=1.8)
    axes["c"].axhline(0.95, color=GREY, linewidth=0.8, linestyle=":")
    axes["c"].text(0, 0.94, " 95 %", color=GREY, fontsize=8.5, va="top")
    axes["c"].set(title="Name the shape in the marked cell", xlabel="step, one image each", ylabel="accuracy")
    axes["c"].set(ylim=(0, 1.03), xlim=(0, None))
    axes["c"].legend(loc="lower right", bbox_to_anchor=(1, 0.12))
    save(figure, folder / "hard_attention.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__)
    print("The gradient of the expected reward over four cells, from 100 000 draws:\n")
    gradients_by_name = estimators()
    rows: list[tuple[Any, ...]] = []
    for name, gradients in gradients_by_name.items():
        error, variance = error_and_variance(gradients)
        rows.append((name, f"{error:.1%}", f"{variance:.2f}" if len(gradients) > 1 else "–"))
    table(["estimator", "off by", "variance of a draw"], rows)

    print("\nName the shape in the marked cell, one image per step, three runs each. Training …\n")
    curves = {kind: [learn(kind, seed) for seed in range(3)] for kind in ("soft", "hard", "hard with baseline")}
    reached = {kind: median(steps_to(0.95, run) for run in runs) for kind, runs in curves.items()}
    table(
        ["attention", "final accuracy", "steps to 95 %", "times soft"],
        [
            (kind, f"{median(run[-1] for run in runs):.1%}", reached[kind], f"{reached[kind] / reached['soft']:.1f}")
            for kind, runs in curves.items()
        ],
    )
    draw(options.out, gradients_by_name, curves)


if __name__ == "__main__":
    main()
