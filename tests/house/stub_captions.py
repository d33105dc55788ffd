"""A kind of data and a system that the package does not know: stripes on an image, and what to say of them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

import regard
from regard.axes import Places, Words
from regard.data import SPLITS, photographs
from regard.layers import text
from regard.layers.use import Use
from regard.questions import Image, Number
from regard.tasks.task import AskedTask, GeneratedTask

WORDS = ("<pad>", "<s>", "</s>", "<unk>", "dark", "light", "stripe")


@dataclass(frozen=True)
class Config:
    batch: int = 4
    steps: int = 3


class Stripes(GeneratedTask, AskedTask):
    """Images of three stripes, each named from above."""

    kind, unit, settings = "writer", "tokens", Config
    title, verb = "Name the stripes", "Look"
    asks: ClassVar = {"image": Image(default=b"", title="Your picture"), "example": Number(0, 99, default=0)}
    sizes: ClassVar = {"vocab": len(WORDS)}

    def draw(self, random):
        shades = random.integers(0, 2, 3)
        return np.repeat(np.repeat(shades, 4)[:, None], 12, 1).astype(np.float32), shades

    def make(self, split, random, epoch, number):
        images, shades = zip(*(self.draw(random) for _ in range(self.config.batch)))
        words = [[1, *(token for shade in each for token in (4 + shade, 6)), 2] for each in shades]
        lengths = torch.full((len(words),), 7)
        batch = {"target": torch.tensor(words), "target_lengths": lengths}
        return {"image": torch.tensor(np.stack(images))[:, None], **batch}

    def length(self, split):
        return self.config.steps

    def batches(self, items):
        yield range(len(items)), {"image": torch.from_numpy(np.stack(items))[:, None]}

    def read(self, question):
        if question.image:
            return photographs.read(question.image, 12).mean(0).astype(np.float32) / 255
        return self.item("test", question.example)

    def item(self, split, number):
        return self.draw(np.random.default_rng([SPLITS.index(split), number]))[0]

    def count(self, split):
        return 6

    def axes(self, item):
        return {"places": Places(image=item[None], grid=(3, 3))}

    def write(self, tokens, item):
        return Words([WORDS[token] for token in tokens])

    def tokens(self):
        return {"target": WORDS}

    def measure(self, split, found):
        return {"words": float(np.mean([len(each.words) for each in found]))}


class Teller(nn.Module):
    """Looks at nine cells while it writes."""

    uses: ClassVar = {"attention": Use("state", "cells", "cells", "dot", rows="written", columns="places")}

    @dataclass(frozen=True)
    class Config:
        vocab: int
        width: int = 8

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.cells = nn.Conv2d(1, config.width, 4, stride=4)
        self.words = nn.Embedding(config.vocab, config.width)
        self.attention = regard.Attention("dot")
        self.cell = nn.GRUCell(2 * config.width, config.width)
        self.output = nn.Linear(config.width, config.vocab)

    def forward(self, batch):
        state, hidden = self.start(batch), []
        for token in text.inputs(batch).unbind(1):
            _, state = self.step(token, state)
            hidden.append(state["hidden"])
        return text.loss(torch.stack(hidden, 1), self.output, batch)

    def start(self, batch):
        grid = self.cells(batch["image"]).flatten(2).mT
        return {"memory": self.attention.remember(grid), "hidden": grid.mean(1), "looked": grid.new_zeros(len(grid), 9)}

    def step(self, token, state):
        out = self.attention(state["hidden"][:, None], state["memory"])
        hidden = self.cell(torch.cat([self.words(token), out.context[:, 0]], -1), state["hidden"])
        return self.output(hidden), {**state, "hidden": hidden, "looked": out.weights[:, 0]}

    def alignment(self, state):
        return state["looked"]

    def limit(self, batch):
        return torch.full((len(batch["image"]),), 8)
