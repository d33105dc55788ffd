"""Remembering the first of two hundred symbols: the length of the path decides.

A sequence of random digits; at its end, name the first one. All the others are distractors. In a recurrent network the
first digit reaches the answer through n steps, and so does the gradient on its way back, shrinking by about the same
factor in each. Attention has a path of length 1: one look, whatever n is.

Both models are of one width and see the same sequences, as many, with the same optimizer. The recurrent one gets what
helped in its time, an orthogonal start and clipped gradients; at n = 5 it learns the task as perfectly as attention.

    python examples/long_range.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from _common import BLUE, GREY, ORANGE, canvas, save, start, table
from torch import Tensor, nn

import regard
from regard.scores import General

DIGITS, WIDTH = 10, 64
LENGTHS = (5, 10, 20, 50, 100, 200)


def sequences(count: int, distractors: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Digits (B, 1 + n), and the first of each (B,)."""
    digits = torch.randint(DIGITS, (count, 1 + distractors), generator=generator)
    return digits, digits[:, 0]


class Attentive(nn.Module):
    """A learned query looks at digits that know their place."""

    def __init__(self, distractors: int):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, WIDTH)
        self.places = nn.Embedding(1 + distractors, WIDTH)
        self.query = nn.Parameter(torch.zeros(1, 1, WIDTH))  # at first it looks at all places alike
        self.attention = regard.Attention(General(WIDTH, WIDTH))
        self.name = nn.Linear(WIDTH, DIGITS)

    def answer(self, embedded: Tensor) -> Tensor:
        out = self.attention(self.query.expand(len(embedded), -1, -1), embedded + self.places.weight, embedded)
        return self.name(out.context.squeeze(-2))

    def forward(self, digits: Tensor) -> Tensor:
        return self.answer(self.digits(digits))


class Recurrent(nn.Module):
    """A plain tanh network reads the digits one by one and answers from its last state."""

    def __init__(self, distractors: int):
        super().__init__()
        self.digits = nn.Embedding(DIGITS, WIDTH)
        self.cell = nn.RNN(WIDTH, WIDTH, batch_first=True)
        self.name = nn.Linear(WIDTH, DIGITS)
        nn.init.orthogonal_(self.cell.weight_hh_l0)

    def answer(self, embedded: Tensor) -> Tensor:
        return self.name(self.cell(embedded)[0][:, -1])

    def forward(self, digits: Tensor) -> Tensor:
        return self.answer(self.digits(digits))


MODELS = {"attention": Attentive, "recurrent": Recurrent}


def recall(name: str, distractors: int, seed: int = 0, steps: int = 300) -> float:
    """Train on 32 fresh sequences in each step; the share of 1000 others whose first digit is named."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = MODELS[name](distractors)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    for _ in range(steps):
        digits, first = sequences(32, distractors, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(digits), first).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        digits, first = sequences(1000, distractors, generator)
        return (model(digits).argmax(-1) == first).float().mean().item()


def reach(name: str, distractors: int = 200, seed: int = 0) -> Tensor:
    """How much each digit moves the answer before any training: ‖∂ answer / ∂ digit‖ by place, (1 + n,), largest 1."""
    torch.manual_seed(seed)
    model = MODELS[name](distractors).double()  # float32 would end at 1e-45
    digits, _ = sequences(64, distractors, torch.Generator().manual_seed(seed))
    embedded = model.digits(digits).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.answer(embedded).square().sum(), embedded)
    size = gradient.norm(dim=-1).mean(0)
    return size / size.max()


def draw(folder: Path, accuracy: dict[str, list[float]], gradients: dict[str, Tensor]) -> None:
    """Accuracy against n, and the gradient that arrives at each place."""
    figure, axes = canvas(2, 11, 4.3)
    styles = {"attention": (BLUE, "o"), "recurrent": (ORANGE, "s")}
    for name, (colour, marker) in styles.items():
        axes[0].plot(LENGTHS, accuracy[name], color=colour, marker=marker, label=name)
        axes[1].plot(range(len(gradients[name])), gradients[name], color=colour, label=name)
    axes[0].axhline(1 / DIGITS, color=GREY, linewidth=0.8, linestyle=":")
    axes[0].text(LENGTHS[0], 1 / DIGITS - 0.015, "chance", color=GREY, fontsize=8.5, va="top")
    axes[0].set_xscale("log")
    axes[0].set_xticks(LENGTHS, LENGTHS)
    axes[0].minorticks_off()
    axes[0].set(title="Naming the first digit", xlabel="distractors n", ylabel="accuracy", ylim=(0, 1.05))
    axes[0].legend(loc="center right")
    axes[1].set_yscale("log")
    axes[1].set(title="Before training: the gradient that arrives", xlabel="place in the sequence (0 is the first)")
    axes[1].set_ylabel("‖∂ answer / ∂ digit‖, largest = 1")
    axes[1].legend(loc="center right")
    save(figure, folder / "long_range.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__)
    print("Name the first digit after n others; guessing gives 10 %. Training …\n")
    accuracy = {name: [recall(name, n) for n in LENGTHS] for name in MODELS}
    table(["n", *MODELS], [(n, *(f"{accuracy[name][i]:.1%}" for name in MODELS)) for i, n in enumerate(LENGTHS)])
    gradients = {name: reach(name) for name in MODELS}
    shares = ", ".join(f"{gradients[name][0]:.0e} ({name})" for name in MODELS)
    print(f"\nOf the largest gradient this much arrives at the first of 200, before training: {shares}")
    draw(options.out, accuracy, gradients)


if __name__ == "__main__":
    main()
