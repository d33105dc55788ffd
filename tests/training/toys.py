"""A model and data small enough to train in a test, with everything that a resumed training could get wrong: dropout,
tied weights, shuffling, and data that draws from Python's and NumPy's own random numbers."""

import io
import json
import random
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console
from torch import nn

from regard.training import Run, TrainConfig, fit

CONFIG = TrainConfig(steps=20, lr=1e-2, threads=1, log_every=5, validate_every=10, tensorboard=False)


def config(**changes):
    return replace(CONFIG, **changes)


class Shuffled:
    """Batches of numbers; the order is a function of (seed, epoch), the noise comes from the global generators."""

    def __init__(self, batches=7, size=4, seed=0, noise=False, lengths=True):
        generator = torch.Generator().manual_seed(seed)
        self.items = torch.randint(1, 10, (batches * size, 6), generator=generator)
        self.lengths = torch.randint(1, 7, (batches * size,), generator=generator)
        self.batches, self.size, self.seed, self.noise, self.known = batches, size, seed, noise, lengths
        self.epoch = self.position = 0
        self.hook = lambda: None

    def __len__(self):
        if not self.known:
            raise TypeError("a stream has no length")
        return self.batches

    def __iter__(self):
        order = torch.randperm(len(self.items), generator=torch.Generator().manual_seed(1000 * self.seed + self.epoch))
        while self.position < self.batches:
            rows = order[self.position * self.size : (self.position + 1) * self.size]
            self.position += 1
            self.hook()
            batch = {"items": self.items[rows], "lengths": self.lengths[rows]}
            if self.noise:
                batch["noise"] = torch.full((len(rows),), random.random() + np.random.rand())
            yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]


class Toy(nn.Module):
    """Predicts each item from the one before; the loss is a mean over the items that exist."""

    def __init__(self, width=8, dropout=0.0, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(10, width)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, 10)
        self.output.weight = self.embedding.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, batch):
        items, lengths = batch["items"], batch["lengths"]
        if self.training:
            self.calls += 1
        hidden = self.dropout(torch.tanh(self.hidden(self.embedding(items[:, :-1]))))
        if "noise" in batch:
            hidden = hidden + batch["noise"][:, None, None]
        logits = self.output(hidden)  # (B, 5, 10)
        real = torch.arange(1, items.shape[1]) < lengths[:, None]
        nll = nn.functional.cross_entropy(logits.transpose(1, 2).float(), items[:, 1:], reduction="none")
        right = logits.argmax(-1) == items[:, 1:]
        count = real.sum()
        mean = lambda x: (x * real).sum() / count.clamp(min=1)  # noqa: E731
        return {"loss": mean(nll) + 0.01, "count": count, "nll": mean(nll), "accuracy": mean(right.float())}


def same(a, b):
    """Whether two models, or two dicts of tensors, are equal bit for bit."""
    a, b = (x.state_dict() if isinstance(x, nn.Module) else x for x in (a, b))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def train(folder, model=None, data=None, valid=None, resume=False, said=None, **changes):
    """A run in ``folder``, its model and its summary; what is said goes to ``said``."""
    run = Run.open(folder) if resume else Run.create(folder)
    model = Toy() if model is None else model
    data = Shuffled() if data is None else data
    console = Console(file=io.StringIO() if said is None else said, width=200)
    options = dict(resume=resume, console=console, command="CMD")
    return run, model, fit(model, data, valid, run, config(**changes), **options)


def lines(run, split=None):
    """The lines of metrics."""
    records = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    return [record for record in records if split in (None, record["split"])]


def timeless(run):
    """The lines of metrics without what a clock said."""
    return [{k: v for k, v in line.items() if k not in ("minutes", "units_per_second")} for line in lines(run)]
