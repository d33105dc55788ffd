"""Eight ways to say how well a key fits a query, on two tasks that need different things.

Lookup   ten keys in random order, each with a value; a query is one of the keys; answer with its value.
Copy     ten symbols in random order; the query is a place, "the third"; answer with what stands there.

Six scores compare contents and solve the first task. Two do not:

    location   looks at places whatever stands there, and solves the second task, which the six cannot even see
    concat     w·[q; k] = w₁·q + w₂·k, and the first term is the same for all keys: the softmax cancels it. The weights
               do not depend on the query at all. With a tanh in between it is the additive score.

Two of the eight are one: additive, vᵀ tanh(W [q; k]), and perceptron, vᵀ tanh(W q + U k), are equal when W is cut in
two. And cosine needs a gain: cosines lie between −1 and 1, so among J keys no weight can exceed e² / (e² + J − 1).

    python examples/eight_scores.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from _common import GREEN, RED, canvas, save, start, table
from torch import Tensor, nn

import regard
from regard import scores

LENGTH, SYMBOLS, WIDTH = 10, 20, 32

SCORES: dict[str, Callable[[], regard.parts.Score]] = {
    "dot": scores.Dot,
    "scaled_dot": scores.ScaledDot,
    "additive": lambda: scores.Additive(WIDTH, WIDTH, hidden_dim=WIDTH),
    "general": lambda: scores.General(WIDTH, WIDTH),
    "concat": lambda: scores.Concat(WIDTH, WIDTH),
    "perceptron": lambda: scores.Perceptron(WIDTH, WIDTH, hidden_dim=WIDTH),
    "cosine": lambda: scores.Cosine(gain=5.0, learn_gain=True),
    "location": lambda: scores.Location(WIDTH, max_length=LENGTH),
}

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""Symbols of the queries, of the keys and of the values, and the answers: each (B, 10)."""
Task = Callable[[int, torch.Generator], Batch]


def shuffled(count: int, size: int, generator: torch.Generator) -> Tensor:
    """``count`` random orders of 0 … size − 1."""
    return torch.rand(count, size, generator=generator).argsort(-1)


def lookup(count: int, generator: torch.Generator) -> Batch:
    """Ten of twenty keys and ten of twenty values; every key is asked for once, in another order.

    Were it always the same ten values, the one left out would name itself: trained on that, the additive score looks at
    all keys but the one that is asked for, and is right.
    """
    key, value = (shuffled(count, SYMBOLS, generator)[:, :LENGTH] for _ in range(2))
    order = shuffled(count, LENGTH, generator)
    return key.gather(1, order), key, value, value.gather(1, order)


def copy(count: int, generator: torch.Generator) -> Batch:
    """The queries are the ten places, in their order."""
    value = shuffled(count, SYMBOLS, generator)[:, :LENGTH]
    places = torch.arange(SYMBOLS, SYMBOLS + LENGTH).expand(count, LENGTH)
    return places, value, value, value


class Reader(nn.Module):
    """Embeddings, one attention, and a linear layer that names the value."""

    def __init__(self, score: regard.parts.Score):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS + LENGTH, WIDTH)
        self.values = nn.Embedding(SYMBOLS, WIDTH)
        self.attention = regard.Attention(score)
        self.name = nn.Linear(WIDTH, SYMBOLS)

    def look(self, query: Tensor, key: Tensor, value: Tensor) -> regard.Attended:
        return self.attention(self.symbols(query), self.symbols(key), self.values(value))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.name(self.look(query, key, value).context)


def train(name: str, task: Task, seed: int = 0, steps: int = 300) -> tuple[Reader, float]:
    """A reader trained on 32 fresh samples in each step, and its accuracy on 1000 others."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Reader(SCORES[name]())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        *inputs, answer = task(32, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(*inputs).flatten(0, 1), answer.flatten()).backward()
        optimizer.step()
    with torch.no_grad():
        *inputs, answer = task(1000, generator)
        return model, (model(*inputs).argmax(-1) == answer).float().mean().item()


def concat_spread() -> float:
    """The largest difference between the weights of two queries under the concat score."""
    torch.manual_seed(0)
    attention = regard.Attention(SCORES["concat"]())
    weights = attention(torch.randn(50, WIDTH), torch.randn(LENGTH, WIDTH)).weights
    return (weights.amax(0) - weights.amin(0)).max().item()


def additive_against_perceptron() -> float:
    """The largest difference between the two scores after the weights of one are copied into the other."""
    torch.manual_seed(0)
    additive, perceptron = SCORES["additive"](), SCORES["perceptron"]()
    with torch.no_grad():
        for_query, for_key = additive.joint.weight.split(WIDTH, dim=1)
        perceptron.query.weight.copy_(for_query)
        perceptron.key.weight.copy_(for_key)
        perceptron.v.copy_(additive.v)
    query, key = torch.randn(5, WIDTH), torch.randn(LENGTH, WIDTH)
    first, second = (regard.Attention(score)(query, key).scores for score in (additive, perceptron))
    return (first - second).abs().max().item()


def cosine_ceiling(gain: float = 1.0) -> tuple[float, float]:
    """The largest weight when one key is the query and the others its opposite, and the formula for it."""
    query = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(0))
    key = torch.cat([query, -query.expand(LENGTH - 1, -1)])
    weights = regard.attend(query, key, score=scores.Cosine(gain)).weights
    return weights.max().item(), math.exp(2 * gain) / (math.exp(2 * gain) + LENGTH - 1)


def draw(folder: Path, weights: dict[str, Tensor], accuracy: dict[str, float]) -> None:
    """A heat map for each score on the same ten pairs, asked for in the order in which they stand."""
    figure, axes = canvas(4, 11.5, 6.6, rows=2, sharex=True, sharey=True)
    for axis, (name, picture) in zip(axes.flat, weights.items(), strict=True):
        image = axis.imshow(picture, cmap="regard", vmin=0, vmax=1)
        learned = accuracy[name] > 0.5
        axis.set_title(name, pad=20)
        equation = regard.parts.find("scores", name).equation
        axis.text(0, 1.03, f"{equation}", transform=axis.transAxes, fontsize=9)
        axis.text(1, 1.03, f"{accuracy[name]:.0%}", transform=axis.transAxes, fontsize=10, ha="right",
                  color=GREEN if learned else RED, fontweight="bold")  # fmt: skip
        axis.set_xticks(range(LENGTH), range(1, LENGTH + 1))
        axis.set_yticks(range(LENGTH), range(1, LENGTH + 1))
        axis.tick_params(length=0, labelsize=8)
    for axis in axes[1]:
        axis.set_xlabel("key")
    for axis in axes[:, 0]:
        axis.set_ylabel("query: which key is asked for")
    figure.colorbar(image, ax=axes, label="weight α", shrink=0.7)
    figure.suptitle("Lookup: where eight trained scores look, and how often the answer is right", x=0.01, ha="left")
    save(figure, folder / "eight_scores.png")


def main() -> None:
    """Run the example."""
    options = start(__doc__)
    _, key, value, _ = lookup(1, torch.Generator().manual_seed(0))
    rows, weights, accuracy = [], {}, {}
    print("Accuracy after 300 steps of 32 samples; guessing one of the ten gives 10 %. Training …\n")
    for name in SCORES:
        model, accuracy[name] = train(name, lookup)
        _, copied = train(name, copy)
        rows.append((name, f"{accuracy[name]:.1%}", f"{copied:.1%}", regard.parts.find("scores", name).equation))
        with torch.no_grad():
            weights[name] = model.look(key, key, value).weights[0]
    table(["score", "lookup", "copy", "equation"], rows)

    reached, formula = cosine_ceiling()
    print(f"\n  concat: weights of 50 different queries differ by        {concat_spread():.0e}")
    print(f"  additive against perceptron with the same weights:        {additive_against_perceptron():g}")
    print(f"  cosine without gain, ten keys: largest possible weight    {reached:.3f} = e²/(e² + 9) = {formula:.3f}")
    draw(options.out, weights, accuracy)


if __name__ == "__main__":
    main()
