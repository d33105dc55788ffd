"""``regard bench handwriting``: writing and training against plain PyTorch with the same weights.

The opponent is what a user would write: ``LSTMCell`` and a few batched operations a step to write a line; for training
a loop over the first layer, whose input depends on the window, and ``nn.LSTM`` for the layers above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.bench.measure import Case, report
from regard.systems.handwriting import CORRELATION, Batch, Config, Handwriting, noise_of

CHARACTERS, TEXT = 60, 30


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> None:
    """Measure and print."""
    report(cases, threads=(1, 2), seconds=0.3 if quick else 3.0, only=only, json_file=json_file)


def cases() -> Iterator[Callable[[], Case]]:
    """Built one by one, so that only one's tensors are in memory."""
    for hidden in (128, 256, 400):
        yield partial(writing, 1, 100, hidden)
    yield partial(writing, 32, 100, 128)
    yield partial(training, 32, 150, 128)
    yield partial(training, 24, 300, 256)
    yield partial(training, 32, 200, 200, text=False)


def batch_of(lines: int, points: int) -> Batch:
    """Random lines."""
    batch = {"points": torch.randn(lines, points + 1, 3), "lengths": torch.full((lines,), points)}
    batch["points"][..., 2] = (batch["points"][..., 2] > 1.5).float()
    batch["points"][:, 0] = 0
    return {
        **batch,
        "text": torch.randint(0, CHARACTERS, (lines, TEXT)),
        "text_lengths": torch.full((lines,), TEXT),
    }


def writing(lines: int, points: int, hidden: int) -> Case:
    """Points of several lines, a step after the other."""
    model, batch = Handwriting(Config(CHARACTERS, hidden=hidden)).eval(), batch_of(lines, 0)
    with torch.no_grad():  # it does not stop early
        model.window.query.bias[20:] = -8.0
    contenders: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: model.write(batch, most=points, seeds=range(lines)).points,
        "eager": lambda: plain_writing(model, batch, points),
    }
    work = f"write {points} points of {lines} line{'s' * (lines > 1)}, {hidden} units"
    return Case(work, contenders, [], "≥ 2 × eager", ("forward",), tolerance=1e-2)


def training(lines: int, points: int, hidden: int, text: bool = True) -> Case:
    """The loss of a batch and its gradients."""
    unclipped = Config(CHARACTERS * text, hidden=hidden, clip_gates=1e9, clip_output=1e9)
    model, batch = Handwriting(unclipped), batch_of(lines, points)
    contenders: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: model(batch)["loss"],
        "eager": lambda: plain_loss(model, batch),
    }
    work = f"train on {lines} lines of {points} points, {hidden} units{'' if text else ', no text'}"
    passes = ("forward+backward",)
    return Case(work, contenders, list(model.parameters()), "≥ 1.3 × eager", passes, tolerance=1e-3)


def plain_window(
    model: Handwriting, h: Tensor, kappa: Tensor, places: Tensor, one_hot: Tensor
) -> tuple[Tensor, Tensor]:
    """κ and what the window reads."""
    alpha, beta, step = model.window.query(h).exp().chunk(3, -1)
    kappa = kappa + step
    phi = (alpha[..., None] * torch.exp(-beta[..., None] * (kappa[..., None] - places) ** 2)).sum(1)
    return kappa, (phi[:, None] @ one_hot)[:, 0]


@torch.no_grad()
def plain_writing(model: Handwriting, batch: Batch, points: int) -> Tensor:
    """The same points, written plainly."""
    config, lines = model.config, len(batch["points"])
    one_hot = functional.one_hot(batch["text"], config.characters).float()
    places, noise = torch.arange(TEXT), torch.stack([torch.from_numpy(noise_of(s, points)) for s in range(lines)], 1)
    states = [(torch.zeros(lines, config.hidden), torch.zeros(lines, config.hidden)) for _ in model.cells]
    kappa, read = torch.zeros(lines, config.window), torch.zeros(lines, config.characters)
    point, written, rows, count = batch["points"][:, 0], [], torch.arange(lines), config.mixtures
    for drawn in noise:
        below: list[Tensor] = []
        for n, cell in enumerate(model.cells):
            states[n] = cell(torch.cat([point, read, *below], -1), states[n])
            if n == 0:
                kappa, read = plain_window(model, states[0][0], kappa, places, one_hot)
            below = [states[n][0]]
        raw = model.output(torch.cat([h for h, _ in states], -1))
        pen, weights, mx, my, sx, sy, rho = raw.split([1, *[count] * 6], -1)
        total = torch.softmax(weights, -1).cumsum(-1)
        chosen = (total < drawn[:, :1]).sum(-1).clamp(max=count - 1)
        mx, my, sx, sy, rho = (parameter[rows, chosen] for parameter in (mx, my, sx, sy, rho))
        sx, sy = (parameter.clamp(min=math.log(config.least)).exp() for parameter in (sx, sy))
        rho, first, second = CORRELATION * torch.tanh(rho), drawn[:, 2], drawn[:, 3]
        y = my + sy * (rho * first + torch.sqrt(1 - rho**2) * second)
        up = (drawn[:, 1] < torch.sigmoid(pen[:, 0])).float()
        point = torch.stack([mx + sx * first, y, up], -1)
        written.append(point)
    return torch.stack(written, 1)


def plain_lowest(model: Handwriting, cell: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """The states of the lowest layer, and what the window between its steps reads."""
    config, points = model.config, batch["points"][:, :-1]
    lines, one_hot = len(points), functional.one_hot(batch["text"], config.characters).float()
    places = torch.arange(TEXT)
    h, c = torch.zeros(lines, config.hidden), torch.zeros(lines, config.hidden)
    kappa, read = torch.zeros(lines, config.window), torch.zeros(lines, config.characters)
    states, reads = [], []
    for point in points.unbind(1):
        h, c = cell(torch.cat([point, read], -1), (h, c))
        kappa, read = plain_window(model, h, kappa, places, one_hot)
        states.append(h)
        reads.append(read)
    return torch.stack(states, 1), torch.stack(reads, 1)


def plain_loss(model: Handwriting, batch: Batch) -> Tensor:
    """The same loss, written plainly."""
    config, points, target = model.config, batch["points"][:, :-1], batch["points"][:, 1:]
    inputs, states, cells = [points], list[Tensor](), list(model.cells)
    if config.characters:
        state, read = plain_lowest(model, cells.pop(0), batch)
        inputs.append(read)
        states.append(state)
    for cell in cells:
        layer = nn.LSTM(cell.input_size, cell.hidden_size, batch_first=True, device="meta")
        weights = {f"{name}_l0": parameter for name, parameter in cell.named_parameters()}
        rows = torch.cat([*inputs, *states[-1:]], -1)
        states.append(torch.func.functional_call(layer, weights, (rows,))[0])
    raw = model.output(torch.cat(states, -1))
    pen, weights, mean, deviation, rho = raw.split([1, *(config.mixtures * n for n in (1, 2, 2, 1))], -1)
    mx, my = mean.chunk(2, -1)
    sx, sy = deviation.clamp(min=math.log(config.least)).exp().chunk(2, -1)
    rho = CORRELATION * torch.tanh(rho)
    x, y = (target[..., :1] - mx) / sx, (target[..., 1:2] - my) / sy
    square = (x**2 + y**2 - 2 * rho * x * y) / (1 - rho**2)
    log_density = -math.log(2 * math.pi) - torch.log(sx * sy) - 0.5 * torch.log(1 - rho**2) - 0.5 * square
    where = torch.logsumexp(weights.log_softmax(-1) + log_density, -1)
    up = functional.binary_cross_entropy_with_logits(pen[..., 0], target[..., 2])
    return up - where.mean()
