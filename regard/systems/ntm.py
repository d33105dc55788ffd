"""NTM: a network that reads from and writes to a memory by attention.

Graves, Wayne & Danihelka 2014, *Neural Turing Machines* (arXiv:1410.5401).

At every step a controller sees the input and the last reading, and moves its heads over the N rows of a memory M.
Reading and writing heads attend in the same way, by content and then by place (eqs. 5-9):

    w = ShiftSharpen(softmax(β cos(k, M)); g, s, γ)     query k, key M, value M, cosine score, softmax
    r = Σᵢ w(i) M(i)                                    reading (eq. 2)
    M(i) ← M(i) ∘ (1 − w(i) e) + w(i) a                 writing (eqs. 3-4)

The controller's output layer gives k, β = softplus, g = σ, γ = 1 + softplus, s = softmax over the rotations, e = σ and
a = tanh. No parameter belongs to a row: a model may be run with more rows than it was trained with, ``model.rows``.

Deviations, so that training does not depend on its seed. All heads attend to the memory as it is before the step, so
that one call answers for all of them, and a reading does not see the writing of its own step. The memory starts at a
small constant (Collier & Beel 2018, arXiv:1807.08518) with every head on the first row, since equal rows and even
weights would never become different; the paper leaves both open. The first reading is learned. The output layer sees
the newest reading and the controller's state. Added vectors are bounded by tanh. ``train_rows`` gives the memory of
each training batch another size, just large enough: in a large memory a write head may smear over unused rows while the
answer is read at no cost to the loss, and the damage shows only in sequences longer than those of the training.

On the CPU in float32 one compiled step stands in for the plain one (:mod:`regard.kernels.turing`), except while a
:func:`regard.record` looks on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard._lazy import nearest
from regard._settings import at_least
from regard.kernels import turing
from regard.layers.use import Use
from regard.normalizers import Softmax
from regard.refiners import ShiftSharpen
from regard.scores import Cosine

Batch = dict[str, Tensor]
CONTROLLERS = ("feedforward", "lstm")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for copying.

    Attributes:
        inputs, outputs: widths of the input and of the output.
        rows, width: of the memory, N and M in the paper.
        reads, writes: number of reading and of writing heads.
        controller: ``feedforward`` or ``lstm``.
        hidden: units of the controller.
        reach: the most rows that a head moves in a step.
        fill: the initial value of every number of the memory.
        train_rows: in training each batch has a random number of rows between these two; ``rows`` if None.
    """

    inputs: int
    outputs: int
    rows: int = 128
    width: int = 20
    reads: int = 1
    writes: int = 1
    controller: str = "feedforward"
    hidden: int = 100
    reach: int = 1
    fill: float = 1e-6
    train_rows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.controller not in CONTROLLERS:
            raise ValueError(f"no controller is called {self.controller!r}: {nearest(self.controller, CONTROLLERS)}")
        at_least(self, "inputs", "outputs", "rows", "width", "reads", "writes", "hidden")
        if self.reach < 0:
            raise ValueError(f"reach cannot be negative: {self.reach}")
        if self.train_rows is not None:
            if len(self.train_rows) != 2 or not 1 <= self.train_rows[0] <= self.train_rows[1]:
                raise ValueError(f"train_rows are the least and the most, [24, 40] for example, not {self.train_rows}")
            object.__setattr__(self, "train_rows", tuple(self.train_rows))  # TOML has lists only


VARIANTS: dict[str, dict[str, Any]] = {
    "lstm": {"controller": "lstm"},
    "recall": {"reads": 4, "writes": 4, "hidden": 256},
    "sort": {"reads": 8, "writes": 8, "hidden": 512},
}
"""An LSTM, and the paper's feed-forward controllers for associative recall and sorting (table 1)."""


class State(NamedTuple):
    """What goes from step to step; batch first.

    Attributes:
        memory: (B, width, rows): the paper's memory, transposed, so that a loop over rows is a loop over neighbours.
        weights: (B, heads, rows), the reading heads first.
        read: (B, reads · width), the last reading.
        hidden, cell: (B, hidden), of an LSTM.
    """

    memory: Tensor
    weights: Tensor
    read: Tensor
    hidden: Tensor
    cell: Tensor


class NTM(nn.Module):
    """Controller, heads and memory; see the module's docstring.

    A batch has ``input`` (B, T, inputs), ``target`` (B, T, outputs) of zeros and ones, and ``mask`` (B, T), 1 where the
    output counts.
    """

    uses: ClassVar[dict[str, Use]] = {
        "heads": Use(
            *("keys kₜ of the heads", "memory rows", "memory rows", "cosine", "softmax, shift_sharpen"),
            rows="steps",
            columns="rows",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.rows = config.rows
        """May be changed at any time: no parameter knows it."""
        width, hidden, read = config.width, config.hidden, config.reads * config.width
        gates = 4 if config.controller == "lstm" else 1
        self.shifts = 2 * config.reach + 1
        self.input = nn.Linear(config.inputs, gates * hidden)
        self.recurrent = nn.Linear(read + hidden if gates == 4 else read, gates * hidden, bias=False)
        self.sizes = ((config.reads + config.writes) * (width + 3 + self.shifts), config.writes * 2 * width)
        self.interface = nn.Linear(hidden, sum(self.sizes))
        self.heads = regard.Attention(Cosine(), refiner=ShiftSharpen())
        self.rotations = Softmax()
        self.output = nn.Linear(hidden + read, config.outputs)
        self.first = nn.Parameter(torch.empty(read))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Biases 0, but 1 for an LSTM's forget gates: at first it remembers."""
        for layer in (self.input, self.recurrent, self.interface, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.first, std=0.1)
        if self.config.controller == "lstm":
            with torch.no_grad():
                self.input.bias.unflatten(0, (4, -1))[1].fill_(1.0)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Per sequence: the loss (nats per bit of the answer), ``bits`` (the cost of the whole answer) and ``errors``
        (share of wrong bits)."""
        logits, target, mask = self.run(batch["input"]), batch["target"], batch["mask"]
        nats = functional.binary_cross_entropy_with_logits(logits, target, reduction="none").sum(-1)
        wrong = ((logits > 0) != (target > 0.5)).sum(-1)
        answer_bits = mask.sum(-1) * target.shape[-1]  # (B,)
        count = (answer_bits > 0).sum()
        measures = {
            "loss": (nats * mask).sum(-1) / answer_bits.clamp(min=1),
            "bits": (nats * mask).sum(-1) / math.log(2),
        }
        measures["errors"] = (wrong * mask).sum(-1) / answer_bits.clamp(min=1)
        return {"count": count, **{name: value.sum() / count.clamp(min=1) for name, value in measures.items()}}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """(B, T, outputs): the probability of a 1."""
        return torch.sigmoid(self.run(batch["input"]))

    def run(self, inputs: Tensor) -> Tensor:
        """(B, T, inputs) → logits (B, T, outputs)."""
        outputs = [torch.cat([state.hidden, state.read], -1) for state in self.states(inputs)]
        if not outputs:
            return inputs.new_zeros(*inputs.shape[:2], self.config.outputs)
        return self.output(torch.stack(outputs, 1))

    def states(self, inputs: Tensor) -> Iterator[State]:
        """The state after each step of (B, T, inputs)."""
        state = self.begin(inputs)
        for x in self.input(inputs).unbind(1):
            state = self.advance(x, state)
            yield state

    @torch.no_grad()
    def trace(self, inputs: Tensor) -> dict[str, Tensor]:
        """The machine at work, of (B, T, inputs) with T ≥ 1: ``output`` (B, T, outputs), the probability of a 1;
        ``adds`` (B, T, writes · width), what the writing heads add; ``reads`` (B, T, reads · width)."""
        states = list(self.states(inputs))
        hidden, reads = (torch.stack([getattr(state, name) for state in states], 1) for name in ("hidden", "read"))
        writing = self.interface(hidden).split(self.sizes, -1)[1].unflatten(-1, (self.config.writes, 2, -1))
        output = torch.sigmoid(self.output(torch.cat([hidden, reads], -1)))
        return {"output": output, "adds": torch.tanh(writing[..., 1, :]).flatten(-2), "reads": reads}

    def begin(self, inputs: Tensor) -> State:
        """Before the first step: an even memory, every head on its first row."""
        config, batch, rows = self.config, len(inputs), self.rows
        if self.training and config.train_rows is not None:
            least, most = config.train_rows
            rows = int(torch.randint(least, most + 1, ()))
        new = self.first.new_zeros
        weights = new(batch, config.reads + config.writes, rows)
        weights[..., 0] = 1.0
        memory = new(batch, config.width, rows) + config.fill
        hidden = new(batch, config.hidden)
        return State(memory, weights, self.first.expand(batch, -1), hidden, hidden)

    def advance(self, x: Tensor, state: State) -> State:
        """One step; ``x`` (B, ·) is what the layer ``input`` makes of the input."""
        config, recurrent = self.config, self.recurrent.weight.t()
        cell = state.cell
        if config.controller == "lstm":
            gates = torch.addmm(x, torch.cat([state.read, state.hidden], -1), recurrent)
            enter, keep, leave = torch.sigmoid(gates[:, : 3 * config.hidden]).chunk(3, -1)
            cell = keep * cell + enter * torch.tanh(gates[:, 3 * config.hidden :])
            hidden = leave * torch.tanh(cell)
        else:
            hidden = torch.tanh(torch.addmm(x, state.read, recurrent))
        raw = self.interface(hidden)
        if turing.fits(state.memory, raw):
            memory, weights, read = turing.step(state.memory, state.weights, raw, config.reads, self.shifts)
        else:
            memory, weights, read = self.turn(state.memory, state.weights, raw)
        return State(memory, weights, read.flatten(1), hidden, cell)

    def turn(self, memory: Tensor, weights: Tensor, raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the heads do in a step, by the parts of the core; see :func:`regard.kernels.turing.step`."""
        config, heads = self.config, weights.shape[1]
        looking, writing = raw.split(self.sizes, -1)
        sizes = [config.width, 1, 1, 1, self.shifts]
        key, beta, gate, gamma, shift = looking.unflatten(-1, (heads, -1)).split(sizes, -1)  # each (B, H, ·)
        rows = memory.mT  # (B, N, W)
        keys, values = (tensor[:, None].expand(-1, heads, -1, -1) for tensor in (self.heads.score.project(rows), rows))
        out = self.heads(
            key[:, :, None],
            regard.Memory(keys, values),
            state=weights,
            gain=functional.softplus(beta),
            gate=torch.sigmoid(gate),
            shift=self.rotations(shift, None)[:, :, None],
            sharpen=1 + functional.softplus(gamma),
        )
        erase, add = writing.unflatten(-1, (config.writes, 2, config.width)).unbind(2)  # each (B, writes, W)
        where = out.state[:, config.reads :]  # (B, writes, N)
        retained = (1 - torch.sigmoid(erase)[..., None] * where[:, :, None]).prod(1)
        return memory * retained + torch.tanh(add).mT @ where, out.state, out.context[:, : config.reads, 0]
